"""Takes the maximum and the sum of a softmax in one pass over the data, with a running pair for each row.

    Before    K^{n}_{x}L^{m}_{y}[D_{x} max=a;] ... K^{n}_{x}L^{m}_{y}[E_{x}+=exp(a-D_{x});]
    After     K^{n}_{x}[M^{t,l};Z^{t,l};M=-inf;Z=0.0;
                L^{m}_{y}[N^{t,l};N=max(M,a);Z=Z*if_then_else(M==N,1.0,exp(M-N))+if_then_else(a==N,1.0,exp(a-N));M=N;]
                D_{x}=M;E_{x}=Z;] ...

(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.) M is the maximum of the values seen so far
and Z the sum relative to it; when a value raises the maximum to N, Z is rescaled by exp(M-N). The nests may differ in
names, loop order, layout of D and E, and in how they split their loops; `a` is any expression (scaled, masked), kept in
a register of its own unless it is one access; guards stay around what they guarded. What follows, a division or a
log-softmax, reads D and E as before.

Legal when: D is a full maximum, and E the full sum of exp(a-D), over the same values of the same rows; every row has
elements of D and E of its own; nothing else writes them, and no value that `a` reads changes in between. A row may
begin with -inf: both exponentials are guarded where their difference would be inf-inf, unless `a` is bounded below. `a`
must fit D's type, or its overflow to -inf would escape the guard.

Pays when: the pass over the data costs more than the rescaling, that is, when a row does not stay in cache or two
kernels become one. At each value one of the two exponentials is taken, as before.

Leads to: operator_fusion, set_storage_scope.

Inverse: none.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import ClassVar

from leir.analysis.kernels import BYTES
from leir.analysis.ranges import evidence, ranges
from leir.analysis.reduction import why_not_reduction, writes_apart
from leir.analysis.softmax import Softmax, equations_of, in_one_nest, is_pair, softmax_at
from leir.analysis.types import computing_type, promote, strong, type_of
from leir.edit import (
    accesses,
    dtypes,
    iterations_around,
    nested,
    perfect_nest,
    replace_at,
    sole_equation,
    statement_at,
    statements_at,
    variables_of,
    walk,
)
from leir.names import bound_variables, tensor_names, tensor_sequence, unused_variable
from leir.printer import equation_text, expression_text, header_text
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Call,
    Cast,
    DType,
    Equation,
    Expr,
    Guard,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Select,
    Stmt,
    Unary,
    reads,
)
from strategies.base import BitExact, Fact, Level, Strategy, describe_at, flow_preserved, path_text, statement_or_none

MINUS_INFINITY = Unary("-", Real(float("inf")))


class OnlineSoftmax(Strategy):
    name: ClassVar[str] = "online_softmax"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{maximum} is the maximum of each row and {sum} the sum of exp over the row, relative to it. {operand} is read "
        "for the one and again for the other, {pair} bytes of the {traffic} that are read of it in all; a running "
        "maximum and sum need one pass.",
        "The nests at {first} and {second} have one header, {alike}, and differ in what they reduce. The sum needs the "
        "final maximum, which is why they are two passes over the same values; rescaling a running sum removes that "
        "need.",
        "Two reductions over the same rows, {first} and {second}: {maximum} first, then {sum} relative to it. Both can "
        "run together if the sum is corrected whenever the maximum rises.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Registers {running} and {total} keep the maximum of the values seen so far and the sum relative to it. When a "
        "value raises the maximum to {new}, {total} is multiplied by exp({running}-{new}); then exp of the value less "
        "{new} is added. At the row's end, {running} is {maximum} and {total} is {sum}.",
        "The nest at {second} goes. In that at {first}, each value updates {new}, the new maximum, then {total}, "
        "rescaled from {running} to {new}, then {running}; at the row's end they are stored as {maximum} and {sum}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Reading {operand} falls from {traffic} to {new_traffic} bytes, for {registers} registers a row and a "
        "rescaling of the sum at each value. {guards} The sum is formed relative to other maxima, so the result agrees "
        "to rounding, not bit for bit.",
        "One nest of this list goes. {guards} {sum} is rounded otherwise than before, so results are close but not "
        "equal in every bit; {maximum} is the same.",
    )

    maximum: Path
    sum: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["OnlineSoftmax"]:
        for path in [(), *(path for path, node in walk(program) if isinstance(node, Loop | Guard))]:
            equations = [sole_equation(statement) for statement in statements_at(program, path)]
            for first, maximum in enumerate(equations):
                for second, total in enumerate(equations[first + 1 :], first + 1):
                    if maximum and total and is_pair(maximum[1], total[1]):
                        yield cls(maximum=(*path, first), sum=(*path, second))

    def facts(self, program: Program) -> Iterator[Fact]:
        siblings = bool(self.maximum) and self.maximum[:-1] == self.sum[:-1] and self.maximum < self.sum
        nests = [statement_or_none(program, path) for path in (self.maximum, self.sum)]
        single = all(nest is not None and sole_equation(nest) is not None for nest in nests)
        shown = f"{path_text(self.maximum)} and {path_text(self.sum)} stand in one list, with one equation each"
        if not siblings or not single:
            where = f"{describe_at(program, self.maximum)}, {describe_at(program, self.sum)}"
            shown = f"{where}: not two nests of one list with one equation each, the maximum's first"
        yield Fact("paths-are-nests-of-one-list", siblings and single, shown)
        (_, first), (_, second) = equations_of(program, self.maximum, self.sum)
        reason = why_not_reduction(program, self.maximum, "max=")
        over = ", ".join(_reduced(program, self.maximum, first))
        shown = reason or f"{equation_text(first)} reduces over {over} and alone writes {first.target.tensor}"
        yield Fact("maximum-is-a-full-reduction", not reason, shown)
        reason = why_not_reduction(program, self.sum, "+=")
        match = None if reason else softmax_at(program, self.maximum, self.sum)
        over = ", ".join(_reduced(program, self.sum, second))
        shown = f"{equation_text(second)} sums over {over} and subtracts that maximum, row by row"
        if match is None:
            shown = reason or (
                f"{equation_text(second)} is no sum of exp(a-D) with a and D as in {equation_text(first)}, or their "
                "subscripts leave a loop open"
            )
        yield Fact("sum-uses-that-maximum", match is not None, shown)
        assert match is not None
        yield _rows_apart(self.rewrite(program), match)
        fits, shown = _can_be_guarded(program, match)
        yield Fact("minus-infinity-is-guarded", fits, shown)
        yield _same_terms(program, self, match)

    def rewrite(self, program: Program) -> Program:
        match = softmax_at(program, self.maximum, self.sum)
        assert match is not None
        rows = match.rows
        if not rows and len(self.maximum) == 1:  # an `l` tensor may not be declared outside all nests
            rows = (Loop("L", unused_variable(bound_variables(program)), 1, 0, ()),)
        row = _online_row(match, tensor_names(program), dtypes(program), _lower_bound(program, match) is None)
        return replace_at(replace_at(program, self.sum), self.maximum, *nested(rows, row))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        match = softmax_at(before, self.maximum, self.sum)
        assert match is not None
        new = [s.tensor for _, s in walk(after) if isinstance(s, Alloc) and s.tensor not in tensor_names(before)]
        bounded = _lower_bound(before, match) is not None
        result = {
            "maximum": match.maximum.tensor,
            "sum": match.total.tensor,
            "first": path_text(self.maximum),
            "second": path_text(self.sum),
            "running": new[0],
            "total": new[1],
            "new": new[2],
            "registers": str(len(new)),
            "guards": "The values are bounded below, so no guard is needed; a value takes two exponentials, not one."
            if bounded
            else "A value still takes one exponential at most; the other is exp of 0, written 1.0.",
        }
        headers = {header_text(n for _, n in perfect_nest(statement_at(before, p))) for p in (self.maximum, self.sum)}
        if len(headers) == 1:
            result["alike"] = headers.pop()
        operand = next((a.tensor for a in accesses(match.value)), None)
        if operand and not any(isinstance(node, Guard) for p in (before, after) for _, node in walk(p)):
            old, new_lists = _bytes_read(before, operand), _bytes_read(after, operand)
            if old and new_lists:
                result["operand"] = operand
                result["traffic"], result["new_traffic"] = str(sum(old.values())), str(sum(new_lists.values()))
                result["pair"] = str(sum(old[origin.path[:-1]] for origin in match.origins))
        return result


def _reduced(program: Program, nest: Path, equation: Equation) -> list[str]:
    """The loops of a nest that its accumulation does not keep apart."""
    levels = (level for _, level in perfect_nest(statement_at(program, nest)) if isinstance(level, Loop))
    return [level.variable for level in levels if level.variable not in variables_of(equation.target)]


def _rows_apart(after: Program, match: Softmax) -> Fact:
    """That no two rows share an element, not even rows without a term, which store -inf and 0 after the step."""
    stores = [(path, s.target) for path, s in walk(after) if isinstance(s, Equation)]
    own = [(path, target) for path, target in stores if target in (match.maximum, match.total)]
    shared = [target for path, target in own if not writes_apart(after, path)]
    shown = " and ".join(expression_text(target) for target in shared or (match.maximum, match.total))
    evidence = f"{shown} may be the element of more than one row" if shared else f"each row has its own {shown}"
    return Fact("rows-are-apart", not shared, evidence)


def _same_terms(program: Program, step: OnlineSoftmax, match: Softmax) -> Fact:
    """That both reductions take the same terms in one nest, at the first's place, as they took in two."""
    before, after, origins = in_one_nest(program, step.maximum, step.sum, match)
    moved = [path for path, origin in origins.items() if origin in match.origins]
    names = f"{match.maximum.tensor} and {match.total.tensor}"
    because = f"in one nest {names} take the terms that they took in two"
    fact = flow_preserved(before, after, origins, unordered=moved, because=because)
    return fact if fact.holds else replace(fact, evidence=f"with exp and maximum left out of the sum, {fact.evidence}")


def _bytes_read(program: Program, tensor: str) -> dict[Path, int]:
    """The bytes of a tensor that each list of statements reads, one element in each entry of the list.

    Empty where a list reads more than one element in an entry.
    """
    size = BYTES[dtypes(program)[tensor]]
    read: dict[Path, set[Access]] = {}
    for path, statement in walk(program):
        if isinstance(statement, Equation) and reads(statement.value, tensor):
            own = {access for access in accesses(statement.value) if access.tensor == tensor}
            read.setdefault(path[:-1], set()).update(own)
    if any(len(elements) > 1 for elements in read.values()):
        return {}
    return {path: iterations_around(program, (*path, 0)) * size for path in read}


def _lower_bound(program: Program, match: Softmax) -> str | None:
    """Evidence that no value of the reductions is -inf."""
    value = Place(match.origins[0].path, (1,))
    found = ranges(program)
    return evidence(found, value) if found.at(value).low > -math.inf else None


def _online_row(match: Softmax, taken: set[str], types: dict[str, DType], guarded: bool) -> tuple[Stmt, ...]:
    """What one row does: the running maximum and sum in registers, then D and E."""
    unused = (name for name in tensor_sequence() if name not in taken)
    largest, total, new, held = (Access(name) for name in islice(unused, 4))
    maximum_type, sum_type = types[match.maximum.tensor], computing_type(types[match.total.tensor])
    value: Expr = match.value
    factor = _exp_less(largest, new, guarded)
    body: tuple[Stmt, ...] = (Alloc(new.tensor, maximum_type, "l", ()),)
    if not isinstance(value, Access):
        value_type = strong(type_of(value, types))
        body, value = (*body, Alloc(held.tensor, value_type, "l", ()), Equation(held, "=", value)), held
    body = (
        *body,
        Equation(new, "=", Call("max", (largest, value))),
        Equation(total, "=", Binary("+", Binary("*", total, factor), _exp_less(value, new, guarded))),
        Equation(largest, "=", new),
    )
    return (
        Alloc(largest.tensor, maximum_type, "l", ()),
        Alloc(total.tensor, sum_type, "l", ()),
        Equation(largest, "=", MINUS_INFINITY),
        Equation(total, "=", Real(0.0)),
        *nested(match.within, body),
        Equation(match.maximum, "=", largest),
        Equation(match.total, "=", total),
    )


def _exp_less(value: Expr, maximum: Access, guarded: bool) -> Expr:
    """exp(value-maximum); guarded: 1.0 where both are equal, infinite ones too."""
    power = Call("exp", (Binary("-", value, maximum),))
    return Select(Binary("==", value, maximum), Real(1.0), power) if guarded else power


def _can_be_guarded(program: Program, match: Softmax) -> tuple[bool, str]:
    """Whether -inf is all that is stored as -inf: a finite value that overflows is not equal to what is stored."""
    types = dtypes(program)
    text, dtype = expression_text(match.value), types[match.maximum.tensor]
    match match.value:
        case Access(tensor):
            stored = types[tensor]
        case Cast(stored, _):
            pass
        case value:
            stored = strong(type_of(value, types))
    if stored != dtype and (computing_type(dtype) != dtype or strong(promote(computing_type(stored), dtype)) != dtype):
        return False, f"{text} is {stored} and may become -inf when it is stored as {dtype}, unseen by the guard"
    bound = _lower_bound(program, match)
    unknown = f"{text} may be -inf, so both exponentials are guarded where they would see inf-inf"
    return True, f"no guard is needed: {bound}" if bound else unknown
