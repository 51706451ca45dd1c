"""Turns a sum of exponentials relative to a maximum into a running sum, relative to the running maximum.

    Before    K^{n}_{x}L^{m}_{y}[M_{x,y}=max(if_then_else(y>0,M_{x,y-1},-inf),a);] K^{n}_{x}[D_{x}=M_{x,m-1};]
              K^{n}_{x}L^{m}_{y}[E_{x}+=exp(a-D_{x});]
    After     ... K^{n}_{x}L^{m}_{y}[Z_{x,y}=if_then_else(y>0,Z_{x,y-1}*f,0.0)+w;] K^{n}_{x}[E_{x}=Z_{x,m-1};]
              f = if_then_else(M_{x,y-1}==M_{x,y},1.0,exp(M_{x,y-1}-M_{x,y}))
              w = if_then_else(M_{x,y}==-inf,0.0,exp(a-M_{x,y}))

Element y of a row of Z is the sum of its terms up to y, relative to M_{x,y}: where a term raises the maximum, what was
summed before is rescaled by f. The last maximum is the full one, so the last sum is the sum. Terms may have weights, as
the values of an attention: w is multiplied by them.

Legal when: `path` holds all of the sum, taken over serial loops, with the same number of terms in each row; its terms
are exp(a-D), or products with it, with D the last running maximum of the same a, term by term, however that is
written; the running maxima are still there; no operand of a changes between; nothing reads the sum before it is
complete; each row has an element of its own. A row may begin with -inf: both exponentials are guarded where their
difference would be inf-inf, unless a is bounded below.

Pays when: running maximum and running sum are then taken in one loop, and stored in two elements a row: an online
softmax in small steps.

Leads to: operator_fusion, set_storage_layout, set_storage_scope.

Inverse: none.
"""

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

from leir.analysis.definitions import definitions_of
from leir.analysis.ranges import ranges
from leir.analysis.reduction import accumulation_at, accumulations, why_not_reduction
from leir.analysis.running import RunningMaximum, running_maximum
from leir.analysis.softmax import may_be_exponential
from leir.analysis.types import computing_type, promote
from leir.edit import dtypes
from leir.names import tensor_names, unused_tensor
from leir.printer import expression_text
from leir.syntax import MINUS_INFINITY, Access, Binary, Call, Cast, DType, Equation, Expr, Path, Program, Real, Select
from strategies.base import BitExact, Fact, Level, Strategy, describe_at
from strategies.prefixes import (
    declared,
    order_text,
    read_when_done,
    rows_apart,
    scan_at,
    scan_terms,
    whole_text,
    why_not_scan,
)


class NormalLoopSummationOnExpToPrefixSummationOnExp(Strategy):
    name: ClassVar[str] = "normal_loop_summation_on_exp_to_prefix_summation_on_exp"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{result} sums exp relative to {maximum}, the last of the running maxima {running_maximum}. Relative to each "
        "of them in turn, the sum can be taken as they come.",
        "The sum at {path} starts only when {maximum} is final, although {running_maximum} has the maximum of every "
        "prefix of the terms. A running sum that is rescaled when the maximum rises does not have to wait.",
        "{running_maximum} and {result} go over the same {extent} terms. What keeps them apart is that the terms of "
        "the sum subtract the last maximum; subtracting the current one instead removes that.",
        "A sum relative to one maximum becomes one relative to the next by a factor, exp of the difference of the two. "
        "So {result} can follow {running_maximum} term by term.",
        "With {running_maximum} at hand, {result} has a recurrence too: the sum so far, rescaled to the new maximum, "
        "and one new term.",
        "The sum at {path} runs over {loop} once more, and reads no more of {running_maximum} than {the_last}. As a "
        "running sum, it needs only the maximum of the terms so far.",
        "The terms of {result} are exp of a value less {maximum}, and that is where the running maximum ends. The sum "
        "of every prefix, relative to the maximum of that prefix, ends in the same sum.",
        "At {path}, {result} sums exp over {loop}, relative to a maximum whose running form is {running_maximum}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{element} is the sum of the terms so far relative to the maximum so far, {current}: {earlier} times "
        "exp({previous}-{current}), plus the new term. {result} becomes {last}.",
        "The accumulation into {result} becomes a recurrence in {running}, which has {elements}. Where a term raises "
        "the maximum, {earlier} is scaled down to it; {result} is set to {last} at the end.",
        "Two nests take the place of {second_nest}: the first fills {running} along {loop}, the second sets "
        "{result} to {last}.",
        "In each term {current} is subtracted in place of {maximum}; to make up for it, {earlier} is multiplied by "
        "exp({previous}-{current}) before the term is added.",
        "{running} is new. Its element for a term is relative to {current}, so the one before it is rescaled by "
        "exp of the difference of both maxima; the last one, {last}, is {result}.",
        "{result} is no longer accumulated: it is {last}, and {element} is made from {earlier}, {previous} and "
        "{current}.",
        "The sum follows the maximum: each iteration of {loop} rescales {earlier} from {previous} to {current}, adds "
        "its own term and keeps the sum as {element}.",
        "{element} takes the place of {result} within the loop, and {result} is set to {last} after it.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Nothing in the sum needs {maximum} any more: each term needs the maximum {current} of those so far. {guards} "
        "The sum is rounded at other scales: results agree to rounding.",
        "A term now takes up to two exponentials, of which one rescales the sum to the new maximum. {guards} {result} "
        "may differ in its last bits.",
        "{bytes} of running sums are stored for now; an iteration needs no more than two elements of a row. {guards} "
        "Rounding differs.",
        "Maximum and sum can become one pass over the terms, and then two registers a row. {guards} The result agrees "
        "to rounding, not bit for bit.",
        "The price is a rescaling at each of {extent} terms but the first, and {bytes} of storage. {guards} Sums are "
        "formed relative to smaller maxima first, which rounds them otherwise.",
        "What remains between the two loops is that {element} needs {current}, made in the same iteration. {guards} "
        "{result} is close to what it was, not equal in every bit.",
        "{running} and {running_maximum} are now two recurrences over the same {extent} terms. {guards} {result} is "
        "rounded otherwise than before.",
        "{result} is the same but for rounding. {guards}",
    )

    path: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["NormalLoopSummationOnExpToPrefixSummationOnExp"]:
        definitions = definitions_of(program)
        for path in accumulations(program, "+="):
            found = accumulation_at(program, path)
            if found is not None and may_be_exponential(definitions, found.equation.value, in_product=True):
                yield cls(path=path)

    def facts(self, program: Program) -> Iterator[Fact]:
        shown = describe_at(program, self.path)
        why = why_not_reduction(program, self.path, "+=") if accumulation_at(program, self.path) else shown
        yield Fact("nest-is-a-full-sum", not why, why or whole_text(program, self.path))
        why = why_not_scan(program, self.path)
        scan = None if why else scan_at(program, self.path)
        yield Fact("terms-follow-one-another", not why, order_text(scan) if scan else why)
        assert scan is not None
        found = running_maximum(program, scan.path, scan.along)
        if isinstance(found, str):
            yield Fact("running-maximum-is-at-hand", False, found)
            return
        shown = f"{expression_text(found.last)} is the last of the maxima {expression_text(found.current)} of the terms"
        yield Fact("running-maximum-is-at-hand", True, shown)
        shown = "nothing writes an operand of the terms between the running maximum and the sum"
        yield Fact("operands-are-unchanged", not found.changed, found.changed or shown)
        yield read_when_done(program, scan)
        yield rows_apart(self.rewrite(program), scan.equation.target)

    def rewrite(self, program: Program) -> Program:
        scan, running = scan_at(program, self.path), unused_tensor(program)
        found = _found(program, self.path)
        guarded, types = _may_be_infinite(program, found), dtypes(program)
        dtype = computing_type(types[scan.equation.target.tensor])
        factor = _factor(found, guarded, _in_type(found.previous, dtype, types))
        before = Binary("*", scan.element(running, -1), factor)
        so_far = Select(scan.has_earlier(), before, Real(0.0))
        now = Equation(scan.element(running, 0), "=", Binary("+", so_far, _weight(found, guarded)))
        after = scan.replaced(program, now, Equation(scan.equation.target, "=", scan.last(running)))
        return declared(after, running, dtype, scan.shape())

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        (running,) = tensor_names(after) - tensor_names(before)
        found = _found(before, self.path)
        guards = "Rows may begin with -inf: the exponentials are guarded until a term is above it."
        if not _may_be_infinite(before, found):
            first = expression_text(scan_at(before, self.path).has_earlier())
            guards = (
                f"The values are never -inf, so -inf is never taken from itself; {first} only tells where a row begins."
            )
        return {
            **scan_terms(before, self.path, running, dtypes(after)[running]),
            "maximum": expression_text(found.subtracted),
            "running_maximum": found.current.tensor,
            "the_last": "the last element of each row" if len(found.current.indices) > 1 else "its last element",
            "current": expression_text(found.current),
            "previous": expression_text(found.previous),
            "guards": guards,
        }


def _found(program: Program, path: Path) -> RunningMaximum:
    scan = scan_at(program, path)
    found = running_maximum(program, scan.path, scan.along)
    assert isinstance(found, RunningMaximum)
    return found


def _may_be_infinite(program: Program, found: RunningMaximum) -> bool:
    """Whether a term's value may be -inf, and with it a running maximum."""
    return ranges(program).of(found.term, found.path).low == -math.inf


def _in_type(maximum: Access, dtype: DType, types: Mapping[str, DType]) -> Expr:
    """A maximum as it takes part in a rescaling: in the sum's type, where its own has fewer digits."""
    own = computing_type(types[maximum.tensor])
    return maximum if promote(own, dtype) == own else Cast(dtype, maximum)


def _factor(found: RunningMaximum, guarded: bool, previous: Expr) -> Expr:
    """What rescales the sum so far; guarded: 1.0 where both maxima are equal, infinite ones too."""
    power = Call("exp", (Binary("-", previous, found.current),))
    return Select(Binary("==", found.previous, found.current), Real(1.0), power) if guarded else power


def _weight(found: RunningMaximum, guarded: bool) -> Expr:
    """The new term; guarded: 0.0 as long as the row had nothing but -inf."""
    power: Expr = Call("exp", (Binary("-", found.value, found.current),))
    if found.weight != Real(1.0):
        power = Binary("*", power, found.weight)
    return Select(Binary("==", found.current, MINUS_INFINITY), Real(0.0), power) if guarded else power
