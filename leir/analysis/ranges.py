"""Signs and bounds of the values of a program, about floats as they are computed: never a claim about reals.

`ranges(program)` bounds every tensor by all its writes, as a fixpoint over the program; `Ranges.at` bounds an
expression at its place, and `evidence` tells where these bounds come from. Bounds of inputs are those of their type,
infinities and NaN included, unless the caller assumes better.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from math import prod

from leir.analysis import elementary, intervals
from leir.analysis.intervals import Range, convert, everything, join, span
from leir.analysis.maxima import is_term_of_maximum, sums_a_maximum
from leir.analysis.types import computing_type, is_float
from leir.analysis.values import NotYet, Ranges, Write, value_of
from leir.edit import accesses, dtypes, expression_at, walk, walk_enclosed, walk_places
from leir.printer import expression_text
from leir.remembered import remembered
from leir.syntax import (
    Access,
    Alloc,
    AssignOp,
    Binary,
    DType,
    Equation,
    Guard,
    Integer,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Variable,
    operands,
)

_ROUNDS = 4  # of the fixpoint before bounds that still move are widened
_REASONS = 4  # lines of evidence below the claim itself


@remembered
@lru_cache(maxsize=64)
def _unassumed(program: Program) -> Ranges:
    return _solve(program, {})


def ranges(program: Program, assume: Mapping[str, Range] | None = None) -> Ranges:
    """The bounds of every tensor of a program. `assume`: what is known of inputs, by name."""
    return _solve(program, assume) if assume else _unassumed(program)


def _solve(program: Program, assume: Mapping[str, Range]) -> Ranges:
    """The least bounds that every write respects, by rounds over the program; bounds that keep moving are widened."""
    writes = writes_of(program)
    allocs: dict[str, Path] = {}
    for path, statement in walk(program):
        if isinstance(statement, Alloc):
            allocs.setdefault(statement.tensor, path)
    table = Ranges(program, dtypes(program), {}, {}, writes, allocs)
    for declaration in program.inputs:
        given = assume.get(declaration.tensor) or everything(computing_type(declaration.dtype))
        table.whole[declaration.tensor] = table.settled[declaration.tensor] = given
    order = [name for name in writes if name not in table.whole]
    table.pending.update(order)
    thresholds = _thresholds(program)
    readers, stale = _readers(writes), set(order)
    rounds = 0
    while not _is_stable(order, table, rounds, thresholds, readers, stale):
        rounds += 1
    for name in sorted(table.pending):  # written only from themselves
        table.whole[name] = table.settled[name] = everything(computing_type(table.dtypes[name]))
        stale.update((name, *readers.get(name, ())))
    table.pending.clear()
    while not _is_stable(order, table, rounds, thresholds, readers, stale):
        rounds += 1
    table.forget()
    return table


@remembered
def writes_of(program: Program) -> dict[str, tuple[Write, ...]]:
    """The equations that write each tensor, by its name, in the order of the text."""
    writes: dict[str, list[Write]] = {}
    for path, statement, around in walk_enclosed(program):
        if isinstance(statement, Equation):
            writes.setdefault(statement.target.tensor, []).append(Write(path, statement, around))
    return {name: tuple(found) for name, found in writes.items()}


def _thresholds(program: Program) -> list[int | float]:
    """The numbers that a program names, of both signs, and 0 and 1: where a bound that moves may come to rest."""
    named = {e.value for _, e in walk_places(program) if isinstance(e, Integer | Real)} | {0, 1}
    return sorted({sign * value for value in named for sign in (1, -1)})


def _readers(writes: Mapping[str, tuple[Write, ...]]) -> dict[str, set[str]]:
    """For each tensor those whose writes read it, in their values or under guards that do."""
    readers: dict[str, set[str]] = {}
    for name, found in writes.items():
        for write in found:
            conditions = [level.condition for level in write.around if isinstance(level, Guard)]
            for expression in (write.equation.value, *conditions):
                for access in accesses(expression):
                    readers.setdefault(access.tensor, set()).add(name)
    return readers


def _is_stable(
    order: list[str],
    table: Ranges,
    rounds: int,
    thresholds: list[int | float],
    readers: Mapping[str, set[str]],
    stale: set[str],
) -> bool:
    """One round: the bounds of every tensor that is `stale`, from its writes. Whether no bounds moved.

    Others would get the bounds that they have. What reads a tensor whose bounds move is stale from then on.
    """
    stable = True
    table.forget()
    for name in order:
        if name not in stale:
            continue
        stale.discard(name)
        found = tensor_range(name, table)
        if found is None:
            continue
        dtype = computing_type(table.dtypes[name])
        for bounds, new in zip((table.whole, table.settled), found, strict=True):
            before = bounds.get(name)
            if before is not None:
                new = join(before, new)
                if new != before and rounds >= _ROUNDS:
                    new = _widened(before, new, dtype, thresholds)
            if new != before:
                stable = False
                table.forget()
                bounds[name] = new
                stale.update(readers.get(name, ()))
        table.pending.discard(name)
    return stable


def _widened(before: Range, new: Range, dtype: DType, thresholds: list[int | float]) -> Range:
    """Bounds that moved go to the next number that the program names, or to the end of their type."""
    limits = everything(dtype)
    low, high = new.low, new.high
    if low < before.low:
        low = max((t for t in thresholds if t <= low), default=limits.low)
    if high > before.high:
        high = min((t for t in thresholds if t >= high), default=limits.high)
    if is_float(dtype):
        low, high = intervals.outwards(intervals.exact(low), intervals.exact(high), dtype)
    else:
        low = limits.low if math.isinf(low) else math.floor(low)
        high = limits.high if math.isinf(high) else math.ceil(high)
    return span(low, high, dtype, new.nan, zero=new.zero or low < new.low or high > new.high)


def tensor_range(name: str, table: Ranges) -> tuple[Range, Range] | None:
    """What a tensor holds at any time, and after all its writes; None while nothing is known of any write."""
    stored = table.dtypes[name]
    depth = len(table.allocs[name]) - 1 if name in table.allocs else 0
    found: list[tuple[Write, Range]] = []
    for write in table.writes[name]:
        try:
            value = value_of(write.equation.value, table.around(write.path), table, write.path)
        except NotYet:
            continue
        if write.equation.op != "=" and not is_float(stored) and is_float(value.dtype or "f64"):
            value = everything(computing_type(stored))  # every step truncates
        found.append((write, value))
    first = table.writes[name][0].equation.op
    base = [convert(value, stored) for write, value in found if write.equation.op == "="]
    if first != "=":
        base.append(_identity(first, stored))
    terms = [(write, value) for write, value in found if write.equation.op != "="]
    extremes = [convert(value, stored) for write, value in terms if write.equation.op in ("max=", "min=")]
    if not base and not extremes:
        return None
    whole = _joined([*base, *extremes])
    sums = [(write, value) for write, value in terms if write.equation.op == "+="]
    products = [value for write, value in terms if write.equation.op == "*="]
    for write, value in sums:
        most, _ = _terms(write, depth)
        added = intervals.repeated_sum(value, most, stored)
        whole = convert(intervals.add(whole, added, computing_type(stored)), stored)
    if products:
        whole = _multiplied(whole, products, stored) if not sums else everything(computing_type(stored))
    settled = whole
    ops = {write.equation.op for write in table.writes[name]}
    if len(found) == len(table.writes[name]) and len(ops) == 1:
        if extremes and not any(value.nan for value in extremes):
            settled = _joined(extremes)
        elif sums and is_float(stored):
            settled = _settled_sum(whole, sums, depth, stored)
            maximum = sums_a_maximum(sums[0][0], table) if len(sums) == 1 else None
            if maximum is not None:
                one = convert(elementary.apply("exp", span(0.0, 0.0, settled.dtype), computing_type(stored)), stored)
                settled = span(max(settled.low, one.low), settled.high, settled.dtype, settled.nan)
                table.reasons[name] = f"one of its terms is exp(0), where {maximum} is reached"
    return whole, settled


def _joined(found: list[Range]) -> Range:
    result = found[0]
    for other in found[1:]:
        result = join(result, other)
    return result


def _identity(op: AssignOp, stored: DType) -> Range:
    """What an accumulation starts from."""
    limits = everything(computing_type(stored))
    match op:
        case "+=" | "*=":
            return convert(intervals.literal(0 if op == "+=" else 1), stored)
        case "max=":
            return span(limits.low, limits.low, limits.dtype)
        case "min=":
            return span(limits.high, limits.high, limits.dtype)
        case "=":
            raise ValueError("a store starts from nothing")


def _terms(write: Write, depth: int) -> tuple[int, int]:
    """At most and at least how many times one element is accumulated into, in one lifetime (`depth` levels down)."""
    inside = write.around[depth:]
    plain = [index.name for index in write.equation.target.indices if isinstance(index, Variable)]
    most = prod(node.extent for node in inside if isinstance(node, Loop) and node.variable not in plain)
    others = [index for index in write.equation.target.indices if not isinstance(index, Variable | Integer)]
    exact = not others and not any(isinstance(node, Guard) for node in inside)
    return most, most if exact else 1


def _settled_sum(whole: Range, sums: list[tuple[Write, Range]], depth: int, stored: DType) -> Range:
    """A sum of values of one sign is at least as far from zero as the terms that every element has."""
    bounds: list[Range] = []
    for write, value in sums:
        most, least = _terms(write, depth)
        value = convert(value, stored)
        if value.low > 0:
            bounds.append(intervals.least_sum(value.low, least, most, stored))
        elif value.high < 0:
            bounds.append(intervals.negate(intervals.least_sum(-value.high, least, most, stored)))
        else:
            return whole
    low = min(bound.low for bound in bounds)
    high = max(bound.high for bound in bounds)
    if low > 0:
        return span(max(whole.low, low), whole.high, whole.dtype, whole.nan)
    return span(whole.low, min(whole.high, high), whole.dtype, whole.nan) if high < 0 else whole


def _multiplied(base: Range, factors: list[Range], stored: DType) -> Range:
    """Any number of factors: none that is larger than 1 in magnitude lets the product grow."""
    dtype = computing_type(stored)
    limits = everything(dtype)
    factors = [convert(factor, stored) for factor in factors]
    nan = base.nan or any(f.nan for f in factors) or base.infinite or any(f.infinite for f in factors)
    positive = base.low >= 0 and all(f.low >= 0 for f in factors)
    shrinking = all(f.low >= -1 and f.high <= 1 for f in factors)
    if shrinking and not nan:
        most = max(abs(base.low), abs(base.high))
        return span(type(most)(0) if positive else -most, most, dtype)
    if not is_float(dtype):
        return limits
    overflows = nan or not all(f.finite and not f.zero for f in factors)  # inf * 0
    return span(0.0 if positive else -math.inf, math.inf, dtype, overflows)


def evidence(found: Ranges, place: Place) -> str:
    """The bounds of an expression and of the parts that they come from, as one line."""
    lines: list[str] = []
    _explain(found, place, lines)
    return "; ".join(lines)


def _explain(found: Ranges, place: Place, lines: list[str]) -> None:
    expression = expression_at(found.program, place)
    if isinstance(expression, Integer | Real) or len(lines) > _REASONS:
        return
    bounds = found.at(place)
    text = f"{expression_text(expression)} is in {bounds}"
    match expression:
        case Variable(name):
            text += f", as {name} is a loop variable"
        case Access(tensor) if tensor in found.writes:
            count = len(found.writes[tensor])
            text += f", by {'its one write' if count == 1 else f'all {count} writes'}"
            if tensor in found.reasons and found.is_settled(expression, place.path):
                text += f": {found.reasons[tensor]}"
        case Binary("-", left, Access(tensor) as right) if is_term_of_maximum(left, right, found, place.path):
            text += f", as {tensor} is the maximum of these terms"
        case Access():
            text += ", as any value of its type is"
        case _:
            pass
    lines.append(text)
    if not isinstance(expression, Access) and place.within is not None:
        for number, _ in enumerate(operands(expression)):
            _explain(found, Place(place.path, (*place.within, number)), lines)
