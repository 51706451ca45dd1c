"""One pass over the terms of a row of an attention: the registers of the row, and what each score does to them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from leir.analysis.attention import Attention, Inner
from leir.analysis.types import computing_type, identity, promote, strong, type_of
from leir.edit import dtypes, map_expression, nested, with_operands
from leir.names import tensor_names, tensor_sequence
from leir.syntax import (
    MINUS_INFINITY,
    Access,
    Alloc,
    Binary,
    Call,
    DType,
    Equation,
    Expr,
    Guard,
    Loop,
    Program,
    Real,
    Select,
    Stmt,
    equation,
    operands,
)
from strategies.blocks import iteration_number


@dataclass(frozen=True, slots=True)
class Registers:
    """The names of what a row keeps, and the one type of all of them. `inner`: those of score and value."""

    dtype: DType
    largest: Access
    total: Access
    highest: Access
    new: Access
    factor: Access
    weight: Access
    result: str
    score: str
    inner: dict[Access, Access]

    @classmethod
    def of(cls, program: Program, found: Attention, block: int) -> "Registers":
        taken = tensor_names(program)
        unused = (name for name in tensor_sequence() if name not in taken)
        largest, total, result, score, new, factor, weight = (next(unused) for _ in range(7))
        highest = next(unused) if block else ""
        inner = {each.access: Access(next(unused)) for each in all_inner(found.inner)}
        types = dtypes(program)
        statistics = [each.access.tensor for each in (found.maximum, found.total) if each is not None]
        kept = [found.target.tensor, *statistics, *(access.tensor for access in inner)]
        kinds: list[DType] = [computing_type(types[tensor]) for tensor in kept]
        kind = strong(type_of(found.weights.score, types))
        for each in kinds:
            kind = strong(promote(kind, each))
        running, sums = (Access(largest), Access(total)), (Access(highest), Access(new), Access(factor), Access(weight))
        return cls(kind, *running, *sums, result, score, inner)

    def alloc(self, tensor: str, shape: tuple[int, ...] = ()) -> Alloc:
        return Alloc(tensor, self.dtype, "l", shape)


def loops_of(inner: Inner) -> set[str]:
    return {level.variable for level in inner.levels if isinstance(level, Loop)}


def all_inner(inner: tuple[Inner, ...]) -> Iterator[Inner]:
    for each in inner:
        yield each
        yield from all_inner(each.inner)


def row_of(found: Attention, own: Registers, block: int, stored: tuple[str, ...], guarded: bool) -> tuple[Stmt, ...]:
    """What one row does: the pass over the terms with maximum, sum and result in registers, then what it stores."""
    columns = [level for level in found.columns if isinstance(level, Loop)]
    result = Access(own.result, tuple(iteration_number(loop) for loop in columns))
    extents = tuple(loop.extent for loop in columns)
    has_total = found.total is not None
    declared = [own.alloc(own.largest.tensor), own.alloc(own.result, extents)]
    start: list[Stmt] = [Equation(own.largest, "=", MINUS_INFINITY)]
    if has_total:
        declared.insert(1, own.alloc(own.total.tensor))
        start.append(Equation(own.total, "=", Real(0.0)))
    plain = tuple(_serial(level) for level in found.columns)
    start += nested(plain, (Equation(result, "=", Real(0.0)),))
    at, count = 0, sum(isinstance(level, Loop) for level in found.keys) - block
    while count:
        count -= isinstance(found.keys[at], Loop)
        at += 1
    outer, inner = (tuple(_serial(level) for level in part) for part in (found.keys[:at], found.keys[at:]))
    if not block:
        body = _one_term(found, own, result, plain, guarded)
        body = nested(inner, body)
    else:
        body = _one_block(found, own, result, plain, inner, guarded)
    value: Expr = Binary("/", result, _divisor(found, own)) if found.weights.total is not None else result
    if found.weights.is_zero_if_empty:
        value = Select(Binary("==", own.largest, MINUS_INFINITY), Real(0.0), value)
    ends: list[Stmt] = []
    for statistic, register in ((found.maximum, own.largest), (found.total, own.total)):
        if statistic is not None and statistic.access.tensor in stored:
            ends.append(Equation(statistic.access, "=", register))
    return (*declared, *start, *nested(outer, body), *ends, *nested(plain, (Equation(found.target, "=", value),)))


def _divisor(found: Attention, own: Registers) -> Expr:
    """What a row is divided by, with its maximum and sum from their registers."""
    registers = {found.weights.total: own.total, found.weights.maximum: own.largest}
    assert found.weights.divisor is not None
    return map_expression(found.weights.divisor, lambda e: registers.get(e, e) if isinstance(e, Access) else e)


def _one_term(
    found: Attention, own: Registers, result: Access, columns: tuple[Loop | Guard, ...], guarded: bool
) -> tuple[Stmt, ...]:
    """What one score does to the row."""
    body: list[Stmt] = list(_computed(found.inner, own))
    score = _with_registers(found.weights.score, own)
    if not isinstance(score, Access):
        held = Access(own.score)
        body += [own.alloc(held.tensor), Equation(held, "=", score)]
        score = held
    weight = _weight(score, own.new, guarded)
    value = _with_registers(found.weights.value, own)
    term = own.weight if value == Real(1.0) else Binary("*", own.weight, value)
    body += [
        own.alloc(own.new.tensor),
        Equation(own.new, "=", Call("max", (own.largest, score))),
        own.alloc(own.factor.tensor),
        Equation(own.factor, "=", _rescaling(own, guarded)),
        own.alloc(own.weight.tensor),
        Equation(own.weight, "=", weight),
    ]
    if found.total is not None:
        scaled = Binary("+", Binary("*", own.total, own.factor), own.weight)
        body.append(Equation(own.total, "=", scaled))
    body += nested(columns, (Equation(result, "=", Binary("+", Binary("*", result, own.factor), term)),))
    return (*body, Equation(own.largest, "=", own.new))


def _one_block(
    found: Attention,
    own: Registers,
    result: Access,
    columns: tuple[Loop | Guard, ...],
    inner: tuple[Loop | Guard, ...],
    guarded: bool,
) -> tuple[Stmt, ...]:
    """What a block of scores does to the row, each step for all of them."""
    loops = [level for level in inner if isinstance(level, Loop)]
    score = Access(own.score, tuple(iteration_number(loop) for loop in loops))
    value = _with_registers(found.weights.value, own)
    term = score if value == Real(1.0) else Binary("*", score, value)
    first = (*_computed(found.inner, own), Equation(score, "=", _with_registers(found.weights.score, own)))
    body: list[Stmt] = [
        own.alloc(own.score, tuple(loop.extent for loop in loops)),
        *(own.alloc(register.tensor) for register in (own.highest, own.new, own.factor)),
        *([own.alloc(own.weight.tensor)] if found.total is not None else []),
        *nested(inner, first),
        *nested(inner, (Equation(own.highest, "max=", score),)),
        Equation(own.new, "=", Call("max", (own.largest, own.highest))),
        Equation(own.factor, "=", _rescaling(own, guarded)),
        *nested(inner, (Equation(score, "=", _weight(score, own.new, guarded)),)),
    ]
    if found.total is not None:
        scaled = Binary("+", Binary("*", own.total, own.factor), own.weight)
        body += [*nested(inner, (Equation(own.weight, "+=", score),)), Equation(own.total, "=", scaled)]
    body += nested(columns, (Equation(result, "*=", own.factor),))
    body += nested((*columns, *inner), (Equation(result, "+=", term),))
    return (*body, Equation(own.largest, "=", own.new))


def _rescaling(own: Registers, guarded: bool) -> Expr:
    """exp(M-N); guarded: 1.0 where both are equal, infinite ones too."""
    power = Call("exp", (Binary("-", own.largest, own.new),))
    return Select(Binary("==", own.largest, own.new), Real(1.0), power) if guarded else power


def _weight(score: Expr, new: Access, guarded: bool) -> Expr:
    """exp(s-N); guarded: 0.0 as long as the row had nothing but -inf."""
    power = Call("exp", (Binary("-", score, new),))
    return Select(Binary("==", new, MINUS_INFINITY), Real(0.0), power) if guarded else power


def _computed(inner: tuple[Inner, ...], own: Registers) -> Iterator[Stmt]:
    """The reductions of a score, each in its register."""
    for each in inner:
        register, op = own.inner[each.access], each.equation.op
        yield own.alloc(register.tensor)
        yield Equation(register, "=", identity(op, own.dtype))
        term = equation(register, op, _with_registers(each.value, own))
        yield from nested(each.levels, (*_computed(each.inner, own), term))


def _with_registers(expression: Expr, own: Registers) -> Expr:
    if isinstance(expression, Access) and expression in own.inner:
        return own.inner[expression]
    below = operands(expression)
    return with_operands(expression, tuple(_with_registers(e, own) for e in below)) if below else expression


def _serial(level: Loop | Guard) -> Loop | Guard:
    return replace(level, kind="L") if isinstance(level, Loop) else level
