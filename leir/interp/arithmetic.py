"""The arithmetic that defines LEIR's values: promotion, roundings, conversions, functions.

Values of f16 and bf16 are held as float32 once loaded, stored or cast, so that expressions compute in six types only.
Everything here takes NumPy scalars and arrays alike, and gives both the same bits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leir.syntax import DType

Computing = Literal["bool", "i8", "i32", "i64", "f32", "f64"]
Value = Any  # a Python or NumPy scalar, or an array: the values of generated code

_RANK: dict[Computing, int] = {"bool": 0, "i8": 1, "i32": 2, "i64": 3, "f32": 4, "f64": 5}
NUMPY_TYPES: dict[Computing, type[np.generic]] = {
    "bool": np.bool_, "i8": np.int8, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
INTEGER_BITS: dict[Computing, int] = {"i8": 8, "i32": 32, "i64": 64}


@dataclass(frozen=True, slots=True)
class Type:
    """What an expression computes in. Weak: of literals only, i64, f64 or bool until it meets another operand."""

    dtype: Computing
    weak: bool = False

    @property
    def floating(self) -> bool:
        return self.dtype in ("f32", "f64")


def computing(dtype: DType) -> Computing:
    """The type in which values of a dtype compute."""
    return "f32" if dtype in ("f16", "bf16") else dtype


def promote(left: Type, right: Type) -> Type:
    """The common type of two operands; a weak one takes the other's, and is f32 or i32 beside integers or bool."""
    if left.weak == right.weak:
        return left if _RANK[left.dtype] >= _RANK[right.dtype] else right
    strong, weak = (right, left) if left.weak else (left, right)
    if weak.floating and not strong.floating:
        return Type("f32")
    return Type("i32") if strong.dtype == "bool" and weak.dtype != "bool" else strong


def arithmetic(type_: Type) -> Type:
    """The type in which operands of a type add, multiply and so on: bool as i32, a literal one as an integer."""
    if type_.dtype != "bool":
        return type_
    return Type("i64", weak=True) if type_.weak else Type("i32")


def floating(type_: Type) -> Type:
    """The type in which `/` and functions compute on operands of a type: integers as f32."""
    if type_.floating:
        return type_
    return Type("f64", weak=True) if type_.weak else Type("f32")


def identity(op: str, dtype: DType) -> int | float:
    """What a first accumulation fills its tensor with."""
    if op in ("+=", "*="):
        return 0 if op == "+=" else 1
    kind = computing(dtype)
    if kind in ("f32", "f64"):
        return -math.inf if op == "max=" else math.inf
    if kind == "bool":  # not accumulated into, and refused where it is
        return 0
    largest = 2 ** (INTEGER_BITS[kind] - 1) - 1
    return -largest - 1 if op == "max=" else largest


def round_to(dtype: DType, value: Value) -> Value:
    """A float32 or float64 value rounded to f16 or bf16, nearest even, overflow to infinity; held as float32."""
    if dtype == "f16":
        return np.float32(np.float16(value))
    return _round_bf16(value)


def _round_bf16(value: Value) -> Value:
    exact = np.asarray(value)
    single = exact.astype(np.float32)
    bits = single.view(np.uint32)
    if exact.dtype == np.float64:  # round to odd first, so that the second rounding sees which side was cut off
        back = single.astype(np.float64)
        bits = np.where(np.abs(back) > np.abs(exact), bits - np.uint32(1), bits)
        bits = np.where((back != exact) & np.isfinite(exact), bits | np.uint32(1), bits)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    rounded = np.where(np.isnan(single), np.uint32(0x7FC00000), rounded).astype(np.uint32)
    return rounded.view(np.float32)[()]


def to_integer(value: Value, dtype: Computing) -> Value:
    """A float truncated, or an integer wrapped, to an integer type; out-of-range values of floats are open."""
    return np.asarray(value).astype(NUMPY_TYPES[dtype])[()]


def scalar_to_integer(value: Value, dtype: Computing) -> int:
    """`to_integer` of one value, as a Python integer."""
    if not isinstance(value, int):
        return int(to_integer(value, dtype))
    half = 1 << (INTEGER_BITS[dtype] - 1)
    return value if -half <= value < half else (value + half) % (2 * half) - half


def integer_to_single(value: Value) -> Value:
    """An integer as float32, rounded once."""
    if isinstance(value, int) and not -(2**53) <= value <= 2**53:
        value = np.int64(value)
    return np.float32(value)


def _each(function: Callable[[float], float], overflow: Callable[[float], float]) -> Callable[[Value], Value]:
    """A function of `math` on float64 scalars and arrays; `overflow` gives the value where `math` raises."""

    def one(value: float) -> float:
        try:
            return function(value)
        except (OverflowError, ValueError):
            return overflow(value)

    def apply(value: Value) -> Value:
        array = np.asarray(value)
        if array.ndim == 0:
            return np.float64(one(float(array)))
        items = array.ravel().tolist()
        try:
            values = np.fromiter(map(function, items), np.float64, len(items))
        except (OverflowError, ValueError):  # rare: some of the items, one after the other
            values = np.fromiter(map(one, items), np.float64, len(items))
        return values.reshape(array.shape)

    return apply


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf


def _powers(base: Value, exponent: Value) -> Value:
    left, right = np.broadcast_arrays(base, exponent)
    if left.ndim == 0:
        return np.float64(_power(float(left), float(right)))
    pairs = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
    return np.array([_power(x, y) for x, y in pairs], np.float64).reshape(left.shape)


def _not_a_number(_: float) -> float:
    return math.nan


def _infinite(_: float) -> float:
    return math.inf


def _at_pole(pole: float) -> Callable[[float], float]:
    return lambda value: -math.inf if value == pole else math.nan


_DOUBLE: dict[str, Callable[..., Value]] = {
    "exp": _each(math.exp, _infinite),
    "expm1": _each(math.expm1, _infinite),
    "log": _each(math.log, _at_pole(0.0)),
    "log1p": _each(math.log1p, _at_pole(-1.0)),
    "erf": _each(math.erf, _not_a_number),
    "tanh": _each(math.tanh, _not_a_number),
    "sin": _each(math.sin, _not_a_number),
    "cos": _each(math.cos, _not_a_number),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "round": np.rint,
    "**": _powers,
}
_SINGLE: dict[str, Callable[..., Value]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "erf": _DOUBLE["erf"], "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos, "**": np.power,
}  # fmt: skip


def function(name: str, dtype: Literal["f32", "f64"]) -> Callable[..., Value]:
    """A function of the language, or `**`, on values of one float type: within 1 ULP for f32, 2 for f64.

    f32 is evaluated in float64 and rounded; `sqrt`, `floor` and `round` are exact anyway.
    """
    if dtype == "f64" or name not in _SINGLE:
        return _DOUBLE[name]
    wide = _SINGLE[name]
    return lambda *arguments: np.float32(wide(*(np.float64(argument) for argument in arguments)))


def quick_functions() -> dict[str, Callable[..., Value]]:
    """The functions of f64 as NumPy has them, by the names that generated code calls them by."""
    return {f"{'power' if name == '**' else name}_f64": function for name, function in _SINGLE.items()}


def fold(op: str, *operands: int | float) -> int | float:
    """The value of an operator on literals: integers stay integers but under `/`, functions and float operands.

    Raises ZeroDivisionError for `//` and `%` by zero, ArithmeticError where a result has no literal type.
    """
    if op in ("+", "-", "*", "//", "%") and all(isinstance(operand, int) for operand in operands):
        return _fold_integers(op, *(int(operand) for operand in operands))
    values = [np.float64(operand) for operand in operands]
    match op, values:
        case "-", [value]:
            result = -value
        case "+", [left, right]:
            result = left + right
        case "-", [left, right]:
            result = left - right
        case "*", [left, right]:
            result = left * right
        case "/", [left, right]:
            result = left / right
        case "abs", [value]:
            result = np.abs(value)
        case "max", [left, right]:
            result = left if left >= right else right
        case "min", [left, right]:
            result = left if left <= right else right
        case _:
            if op in ("//", "%"):
                raise ArithmeticError(f"{op} takes integers")
            result = function(op, "f64")(*values)
    return float(result)


def _fold_integers(op: str, *operands: int) -> int:
    match op, operands:
        case "-", (value,):
            result = -value
        case "+", (left, right):
            result = left + right
        case "-", (left, right):
            result = left - right
        case "*", (left, right):
            result = left * right
        case "//", (left, right):
            result = left // right
        case "%", (left, right):
            result = left % right
        case _:
            raise AssertionError(f"no integer operator {op}")
    if not -(2**63) <= result < 2**63:
        raise ArithmeticError(f"{op} of literals overflows i64")
    return result
