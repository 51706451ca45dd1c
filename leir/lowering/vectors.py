"""Which `V` loops become vectors on the GPU: 2 or 4 values (8 of f16) of at most 16 bytes, at aligned addresses.

A loop is one if its single equation computes in one dtype, every access either keeps one address or moves by one
element a lane, and the first lane's offset is provably a multiple of the lanes. Every other loop runs serially: nothing
but speed is lost.
"""

import math
from collections.abc import Mapping

from leir.analysis.kernels import BYTES
from leir.lowering.names import Storage
from leir.syntax import (
    Access,
    Binary,
    Call,
    DType,
    Equation,
    Expr,
    Integer,
    Loop,
    Real,
    Unary,
    Variable,
    operands,
)

_WIDEST = 16  # bytes of one load or store
_LANES: dict[DType, tuple[int, ...]] = {
    "f16": (2, 4, 8), "bf16": (2, 4, 8), "f32": (2, 4), "f64": (2,), "i8": (4,), "i32": (2, 4), "i64": (2,),
}  # fmt: skip
_LANEWISE = ("max", "min", "abs", "sqrt", "exp", "expm1", "log", "log1p", "erf", "tanh", "sin", "cos", "floor", "round")


def is_vector(loop: Loop, tensors: Mapping[str, Storage]) -> bool:
    """Whether the `V` loop becomes one vector operation a statement."""
    if loop.first or len(loop.body) != 1 or not isinstance(loop.body[0], Equation):
        return False
    statement = loop.body[0]
    dtype = tensors[statement.target.tensor].dtype
    if loop.extent not in _LANES.get(dtype, ()) or loop.extent * BYTES[dtype] > _WIDEST:
        return False
    moves = _moves(statement.target, loop, tensors) and _varies(statement.target, loop.variable)
    if dtype in ("f32", "f64"):
        return moves and _is_lanewise(statement.value, loop, dtype, tensors)
    is_copy = statement.op == "=" and isinstance(statement.value, Access)
    return moves and is_copy and _is_lanewise(statement.value, loop, dtype, tensors)


def _is_lanewise(value: Expr, loop: Loop, dtype: DType, tensors: Mapping[str, Storage]) -> bool:
    match value:
        case Integer() | Real():
            return True
        case Access(tensor):
            return tensors[tensor].dtype == dtype and (
                not _varies(value, loop.variable) or _moves(value, loop, tensors)
            )
        case Unary("-") | Binary("+" | "-" | "*" | "/"):
            return all(_is_lanewise(operand, loop, dtype, tensors) for operand in operands(value))
        case Call(function, arguments) if function in _LANEWISE:
            return all(_is_lanewise(argument, loop, dtype, tensors) for argument in arguments)
        case _:
            return False


def _moves(access: Access, loop: Loop, tensors: Mapping[str, Storage]) -> bool:
    """Whether the access moves by one element a lane, from an offset that is a multiple of the lanes."""
    storage = tensors[access.tensor]
    kept = access.indices[storage.dropped :]
    if not kept or any(_varies(index, loop.variable) for index in kept[:-1]):
        return False
    base = _without(kept[-1], loop.variable)
    if base is None:
        return False
    stride, divisor = 1, _divisor(base)
    for index, size in zip(reversed(kept[:-1]), reversed(storage.shape[storage.dropped + 1 :]), strict=True):
        stride *= size
        divisor = math.gcd(divisor, stride * _divisor(index))
    return divisor % loop.extent == 0


def _varies(expression: Expr, variable: str) -> bool:
    if isinstance(expression, Variable):
        return expression.name == variable
    return any(_varies(operand, variable) for operand in operands(expression))


def _without(index: Expr, variable: str) -> Expr | None:
    """The index less the variable, where it is the variable plus something free of it."""
    match index:
        case Variable(name) if name == variable:
            return Integer(0)
        case Binary("+", left, right):
            if _varies(left, variable):
                left = _without(left, variable)
            if _varies(right, variable):
                right = _without(right, variable) if left is not None and not _varies(index.left, variable) else None
            return None if left is None or right is None else Binary("+", left, right)
        case Binary("-", left, right) if not _varies(right, variable):
            base = _without(left, variable)
            return None if base is None else Binary("-", base, right)
        case _:
            return None


def _divisor(index: Expr) -> int:
    """A number that divides every value of the index; 0 for the index 0."""
    match index:
        case Integer(value):
            return value
        case Unary("-", operand):
            return _divisor(operand)
        case Binary("+" | "-", left, right):
            return math.gcd(_divisor(left), _divisor(right))
        case Binary("*", left, right):
            return _divisor(left) * _divisor(right)
        case Binary("%", left, right):
            return math.gcd(_divisor(left), _divisor(right))
        case Binary("//", left, Integer(value)) if value and _divisor(left) % value == 0:
            return _divisor(left) // value
        case _:
            return 1
