"""Takes the maximum and the sum of a softmax in one pass over the data, with a running pair for each row.

    Before    K^{n}_{x}L^{m}_{y}[D_{x} max=a;] ... K^{n}_{x}L^{m}_{y}[E_{x}+=exp(a-D_{x});]
    After     K^{n}_{x}[M^{t,l};Z^{t,l};M=-inf;Z=0.0;
                L^{m}_{y}[N^{t,l};N=max(M,a);Z=Z*if_then_else(M==N,1.0,exp(M-N))+if_then_else(a==N,1.0,exp(a-N));M=N;]
                D_{x}=M;E_{x}=Z;] ...

(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.) M is the maximum of the values seen so far
and Z the sum relative to it; when a value raises the maximum to N, Z is rescaled by exp(M-N). The sum may be relative
to max(D,c) of a number c, and is rescaled between these then; a number may be added in the exponent, and Z is
multiplied by its exponential at the end. The nests may differ in
names, loop order, layout of D and E, and in how they split their loops; `a` is any expression (scaled, masked), kept in
a register of its own unless it is one access; guards stay around what they guarded. What follows, a division or a
log-softmax, reads D and E as before.

Legal when: D is a full maximum, and E the full sum of exp(a-D), over the same values of the same rows; every row has
elements of D and E of its own; nothing else writes them, and no value that `a` reads changes in between. A row may
begin with -inf: both exponentials are guarded where their difference would be inf-inf, unless `a` is bounded below or
D limited. `a` must fit D's type, or its overflow to -inf would escape the guard.

Pays when: the pass over the data costs more than the rescaling, that is, when a row does not stay in cache or two
kernels become one. At each value one of the two exponentials is taken, as before.

Leads to: operator_fusion, set_storage_scope.

Inverse: none.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

from leir.analysis.definitions import definitions_of, is_ahead
from leir.analysis.intervals import largest as largest_number
from leir.analysis.kernels import BYTES
from leir.analysis.ranges import evidence, ranges
from leir.analysis.reduction import (
    Accumulation,
    accumulation_at,
    accumulations,
    why_not_reduction,
    why_read_early,
    writes_apart,
)
from leir.analysis.softmax import NotFound, Softmax, follows, may_be_exponential, softmax_at
from leir.analysis.types import Weak, computing_type, is_kept, promote, strong, type_of
from leir.edit import accesses, dtypes, iterations_around, nested, statement_at, walk, without
from leir.names import bound_variables, tensor_names, tensor_sequence, unused_variable
from leir.printer import equation_text, expression_text, header_text
from leir.syntax import (
    MINUS_INFINITY,
    Access,
    Alloc,
    Binary,
    Call,
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
from strategies.base import BitExact, Fact, Level, Strategy, describe_at, listed, path_text


class OnlineSoftmax(Strategy):
    name: ClassVar[str] = "online_softmax"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{maximum} is the maximum of each row and {sum} the sum of exp over the row, relative to {base}. {operand} is "
        "read for the one and again for the other, {pair} bytes of the {traffic} that are read of it in all; a running "
        "maximum and sum need one pass.",
        "The nests at {first} and {second} have one header, {alike}, and differ in what they reduce. The sum needs the "
        "final maximum, which is why they are two passes over the terms of a row; rescaling a running sum removes that "
        "need.",
        "Two reductions over the same rows, {first} and {second}: {maximum} first, then {sum} relative to {base}. Both "
        "can run together if the sum is corrected whenever the maximum rises.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Registers {running} and {total} keep the maximum of the values seen so far and the sum relative to it. When a "
        "value raises the maximum to {new}, {total} is multiplied by {factor}; then exp of the value less {shift} is "
        "added. At the row's end, {running} is {maximum} and {whole} is {sum}.",
        "The nest at {second} goes. In that at {first}, for each value {new} is the maximum with it; {total} is "
        "rescaled from {running} to {new}, and exp of the value less {shift} added; at the row's end {running} is "
        "stored as {maximum}, and {whole} as {sum}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Reading {operand} falls from {traffic} to {new_traffic} bytes, for two registers that last through a row and "
        "a rescaling of the sum at each value. {guards} The sum is formed relative to other maxima, so the result "
        "agrees to rounding, not bit for bit.",
        "One pass over the values takes the place of two. {guards} {sum} is rounded otherwise than before, so results "
        "are close but not equal in every bit; {maximum} is the same.",
    )

    maximum: Path
    sum: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["OnlineSoftmax"]:
        definitions = definitions_of(program)
        sums = [path for path in accumulations(program, "+=") if may_be_exponential(definitions, _term(program, path))]
        for maximum in accumulations(program, "max="):
            first = accumulation_at(program, maximum)
            assert first is not None
            for total in sums:
                read = dict.fromkeys(access.tensor for access in accesses(_term(program, total)))
                if is_ahead(maximum, total) and any(follows(definitions, name, _name(first)) for name in read):
                    yield cls(maximum=maximum, sum=total)

    def facts(self, program: Program) -> Iterator[Fact]:
        first, second = (accumulation_at(program, path) for path in (self.maximum, self.sum))
        ahead = first is not None and second is not None and is_ahead(first.path, second.path)
        shown = f"{path_text(self.maximum)} and {path_text(self.sum)} hold one equation each"
        if not ahead:
            where = f"{describe_at(program, self.maximum)}, {describe_at(program, self.sum)}"
            shown = f"{where}: not one equation each, the maximum's first"
        yield Fact("paths-are-of-one-equation-each", ahead, shown)
        assert first is not None and second is not None
        reason = why_not_reduction(program, self.maximum, "max=")
        shown = reason or f"{equation_text(first.equation)} reduces over {_over(first)} and alone writes {_name(first)}"
        yield Fact("maximum-is-a-full-reduction", not reason, shown)
        match, reason = None, why_not_reduction(program, self.sum, "+=")
        try:
            match = None if reason else softmax_at(program, self.maximum, self.sum)
        except NotFound as why:
            reason = str(why)
        shown = reason
        if match is not None:
            what = _base(match, "that maximum")
            shown = f"{equation_text(second.equation)} sums, over {_over(second)}, exp of the same values less {what}"
            shown += f", with {match.added} added to each exponent" if match.added else ""
        yield Fact("sum-uses-that-maximum", match is not None, shown)
        assert match is not None
        reason = why_rows_are_inside(first)
        shown = f"all loops over rows are around those over the terms of {_name(first)}, or can be"
        yield Fact("rows-enclose-terms", not reason, reason or shown)
        shown = f"nothing writes an operand of the terms between {_name(first)} and {_name(second)}"
        yield Fact("operands-are-unchanged", not match.changed, match.changed or shown)
        reason = why_read_early(program, first) or why_read_early(program, second)
        yield Fact(
            "nobody-reads-early", not reason, reason or f"{_name(first)} and {_name(second)} are read only when done"
        )
        yield _rows_apart(self.rewrite(program), match)
        fits, shown = _can_be_guarded(program, match)
        yield Fact("minus-infinity-is-guarded", fits, shown)

    def rewrite(self, program: Program) -> Program:
        match = softmax_at(program, self.maximum, self.sum)
        first = match.maximum
        online = _Online.of(match, program)
        rows: tuple[Loop | Guard, ...] = ()
        if first.is_alone:
            rows, within = first.divided()
            work = nested(within, online.term)
        else:
            at = first.path[len(first.nest) :]
            work = (_with_term(statement_at(program, first.nest), at, online.term),)
        if not rows and len(first.nest) == 1:  # an `l` tensor may not be declared outside all nests
            rows = (Loop("L", unused_variable(bound_variables(program)), 1, 0, ()),)
        row = (*online.start, *work, *online.end)
        return without(program, {match.sum.path}, {first.nest: nested(rows, row)})

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        match = softmax_at(before, self.maximum, self.sum)
        new = [s.tensor for _, s in walk(after) if isinstance(s, Alloc) and s.tensor not in tensor_names(before)]
        running, total, largest = (Access(name) for name in new[:3])
        result = {
            "maximum": _name(match.maximum),
            "sum": _name(match.sum),
            "first": path_text(self.maximum),
            "second": path_text(self.sum),
            "running": new[0],
            "total": new[1],
            "new": new[2],
            "base": _base(match, "it"),
            "factor": expression_text(_exp_less(_limited(running, match), _limited(largest, match), False)),
            "shift": expression_text(_limited(largest, match)),
            "whole": expression_text(_scaled(total, match)),
            "guards": "A value still takes one exponential at most; the other is exp of 0, written 1.0.",
        }
        if not _is_guarded(before, match):
            why = "The values are never -inf"
            if match.least is not None:
                why = f"What is subtracted is never less than {expression_text(match.least)}"
            result["guards"] = f"{why}, so -inf is never taken from itself; a value takes two exponentials, not one."
        headers = [header_text(each.levels) for each in (match.maximum, match.sum)]
        if headers[0] == headers[1] and match.maximum.is_alone and match.sum.is_alone:
            result["alike"] = headers[0]
        operand = next((a.tensor for a in accesses(match.value)), None)
        if operand and not any(isinstance(node, Guard) for p in (before, after) for _, node in walk(p)):
            old, new_lists = _bytes_read(before, operand), _bytes_read(after, operand)
            if old and new_lists:
                result["operand"] = operand
                traffic, new_traffic = sum(old.values()), sum(new_lists.values())
                result["traffic"] = str(traffic)
                if new_traffic < traffic:
                    result["new_traffic"] = str(new_traffic)
                lists = [each.path[:-1] for each in (match.maximum, match.sum)]
                if all(path in old for path in lists):
                    result["pair"] = str(sum(old[path] for path in lists))
        return result


def _term(program: Program, path: Path) -> Expr:
    found = accumulation_at(program, path)
    assert found is not None
    return found.equation.value


def _name(found: Accumulation) -> str:
    return found.equation.target.tensor


def _over(found: Accumulation) -> str:
    return listed(loop.variable for loop in found.reduced())


def why_rows_are_inside(found: Accumulation) -> str:
    """Which loop over rows stands inside those over the terms, in a nest that holds more; empty if none does."""
    rows, _ = found.divided()
    inside = [level for level in rows if isinstance(level, Loop)]
    if found.is_alone or not inside:
        return ""
    return f"{header_text(inside)} of {equation_text(found.equation)} is inside {header_text(found.reduced()[:1])}"


def _with_term(statement: Stmt, at: Path, term: tuple[Stmt, ...]) -> Stmt:
    """The nest with other statements in place of the equation at a path below it."""
    assert isinstance(statement, Loop | Guard)
    body = statement.body
    new = term if len(at) == 1 else (_with_term(body[at[0]], at[1:], term),)
    return replace(statement, body=(*body[: at[0]], *new, *body[at[0] + 1 :]))


def _rows_apart(after: Program, match: Softmax) -> Fact:
    """That no two rows share an element, not even rows without a term, which store -inf and 0 after the step."""
    targets = (match.maximum.equation.target, match.target)
    own = [(path, s.target) for path, s in walk(after) if isinstance(s, Equation) and s.target in targets]
    shared = [target for path, target in own if not writes_apart(after, path)]
    shown = " and ".join(expression_text(target) for target in shared or targets)
    evidence = f"{shown} may be the element of more than one row" if shared else f"each row has its own {shown}"
    return Fact("rows-are-apart", not shared, evidence)


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
    value = Place(match.maximum.path, (1,))
    found = ranges(program)
    return evidence(found, value) if found.at(value).low > -math.inf else None


@dataclass(frozen=True, slots=True)
class _Online:
    """What one row does: registers for the running maximum and sum to start with, a term, and D and E at the end."""

    start: tuple[Stmt, ...]
    term: tuple[Stmt, ...]
    end: tuple[Stmt, ...]

    @classmethod
    def of(cls, match: Softmax, program: Program) -> "_Online":
        taken, types = tensor_names(program), dtypes(program)
        guarded = _is_guarded(program, match)
        unused = (name for name in tensor_sequence() if name not in taken)
        largest, total, new, held = (Access(name) for name in islice(unused, 4))
        highest = match.maximum.equation.target
        maximum_type, sum_type = types[highest.tensor], computing_type(types[match.target.tensor])
        if promote(computing_type(maximum_type), sum_type) != computing_type(maximum_type):
            maximum_type = sum_type  # or each rescaling would cost the sum digits
        value: Expr = match.value
        before, now = _limited(largest, match), _limited(new, match)
        factor = _exp_less(before, now, guarded)
        body: tuple[Stmt, ...] = (Alloc(new.tensor, maximum_type, "l", ()),)
        if not isinstance(value, Access):
            value_type = strong(type_of(value, types))
            body, value = (*body, Alloc(held.tensor, value_type, "l", ()), Equation(held, "=", value)), held
        body = (
            *body,
            Equation(new, "=", Call("max", (largest, value))),
            Equation(total, "=", Binary("+", Binary("*", total, factor), _exp_less(value, now, guarded))),
            Equation(largest, "=", new),
        )
        start = (
            Alloc(largest.tensor, maximum_type, "l", ()),
            Alloc(total.tensor, sum_type, "l", ()),
            Equation(largest, "=", MINUS_INFINITY),
            Equation(total, "=", Real(0.0)),
        )
        return cls(start, body, (Equation(highest, "=", largest), Equation(match.target, "=", _scaled(total, match))))


def _limited(maximum: Expr, match: Softmax) -> Expr:
    """What a sum is relative to, whose terms have this maximum."""
    return maximum if match.least is None else Call("max", (maximum, match.least))


def _scaled(total: Expr, match: Softmax) -> Expr:
    """The sum with the exponential of the number that is added to every exponent."""
    if not match.added:
        return total
    size = Real(abs(match.added))
    return Binary("*", total, Call("exp", (size if match.added > 0 else Unary("-", size),)))


def _base(match: Softmax, maximum: str) -> str:
    """What the sum is relative to, in words; `maximum`: what the maximum is called."""
    if match.least is None:
        return maximum
    return f"the larger of {maximum} and {expression_text(match.least)}"


def _is_guarded(program: Program, match: Softmax) -> bool:
    """Whether a difference may be inf-inf."""
    return match.least is None and _lower_bound(program, match) is None


def _exp_less(value: Expr, maximum: Expr, guarded: bool) -> Expr:
    """exp(value-maximum); guarded: 1.0 where both are equal, infinite ones too."""
    power = Call("exp", (Binary("-", value, maximum),))
    return Select(Binary("==", value, maximum), Real(1.0), power) if guarded else power


def _can_be_guarded(program: Program, match: Softmax) -> tuple[bool, str]:
    """Whether -inf is all that is stored as -inf: a finite value that overflows is not equal to what is stored."""
    types = dtypes(program)
    text, dtype = expression_text(match.value), types[match.maximum.equation.target.tensor]
    kept = is_kept(match.value, dtype, types)
    if not kept:
        stored = strong(type_of(match.value, types))
        return False, f"{text} is {stored} and may become -inf when it is stored as {dtype}, unseen by the guard"
    if match.least is not None:
        least, computed = type_of(match.least, types), computing_type(dtype)
        if isinstance(least, Weak) and abs(least.value) > largest_number(computed):
            return False, f"{expression_text(match.least)} is infinite in {computed}, and would be taken from itself"
        return True, f"what is subtracted is never less than {expression_text(match.least)}, so no guard is needed"
    bound = _lower_bound(program, match)
    unknown = f"{text} may be -inf, so both exponentials are guarded where they would see inf-inf"
    return True, f"{text} is never -inf, so no guard is needed: {bound}" if bound else unknown
