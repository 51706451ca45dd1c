"""Expressions of LEIR as expressions of TIR: promotion, weak literals, lazy conditions, narrow index arithmetic.

Nodes are made by their constructors, which fold nothing, so that what runs is what the program says. A value computes
in f32, f64 or an integer type; f16 and bf16 exist in buffers only. Integers are held in 32 bits where every
intermediate result provably fits, in 64 bits elsewhere; a loop variable as a value is i64 either way.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

import numpy as np
from tvm import tirx
from tvm.ir import Expr as TirExpr

from leir.analysis.access import dtype_interval
from leir.analysis.affine import interval
from leir.analysis.types import COMPARISONS, Weak, is_float, promote, strong, type_of
from leir.lowering import bf16
from leir.lowering.fill import Target
from leir.lowering.functions import call
from leir.syntax import (
    Access,
    Binary,
    BinaryOp,
    Call,
    Cast,
    DType,
    Expr,
    Integer,
    Real,
    Select,
    Unary,
    Variable,
)

TIR_TYPES: dict[DType, str] = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "i32": "int32",
    "i64": "int64", "bool": "bool",
}  # fmt: skip
_INT32 = (-(2**31), 2**31 - 1)
_BINARY: dict[str, Callable[[TirExpr, TirExpr], TirExpr]] = {
    "+": tirx.Add, "-": tirx.Sub, "*": tirx.Mul, "/": tirx.Div, "//": tirx.FloorDiv, "%": tirx.FloorMod,
    "<": tirx.LT, "<=": tirx.LE, ">": tirx.GT, ">=": tirx.GE, "==": tirx.EQ,
    "max": tirx.Max, "min": tirx.Min,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a tensor lives: `buffer` holds all dimensions but the first `dropped`, flattened if `flat`."""

    buffer: tirx.Buffer
    dtype: DType
    shape: tuple[int, ...]  # of the whole tensor
    dropped: int = 0
    flat: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """What the names of a program stand for at one place: loop variables with their ranges, and tensors."""

    target: Target | Literal["script"]  # "script": printed, never compiled
    tensors: Mapping[str, Storage]
    variables: Mapping[str, TirExpr] = field(default_factory=dict[str, TirExpr])
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def with_variable(self, name: str, value: TirExpr, low: int, high: int) -> "Names":
        return replace(self, variables={**self.variables, name: value}, ranges={**self.ranges, name: (low, high)})

    def with_tensor(self, name: str, storage: Storage) -> "Names":
        return replace(self, tensors={**self.tensors, name: storage})


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of a computing type. Integers of any width are int32 or int64, whichever they fit."""

    tir: TirExpr
    dtype: DType


def condition(expression: Expr, names: Names) -> TirExpr:
    """A boolean expression, of TIR type bool."""
    return _Lowering(names).test(expression)


def store(target: Access, value: Expr, names: Names) -> tirx.BufferStore:
    """The equation `target = value`: the value is converted to the tensor's dtype."""
    lowering = _Lowering(names)
    storage = names.tensors[target.tensor]
    return tirx.BufferStore(storage.buffer, lowering.stored(value, storage.dtype), lowering.element(target))


def element(access: Access, names: Names) -> list[TirExpr]:
    """The indices of an access into its tensor's buffer."""
    return _Lowering(names).element(access)


def integer(value: int, dtype: str = "int32") -> tirx.IntImm:
    return tirx.IntImm(dtype, value)


def buffer_type(dtype: DType, target: Target | Literal["script"]) -> str:
    """The TIR type of a buffer's elements: LLVM code holds bf16 as its bits."""
    return "uint16" if dtype == "bf16" and target == "llvm" else TIR_TYPES[dtype]


def constant(value: int | float | bool, dtype: DType) -> TirExpr:
    """A number as a tensor of `dtype` stores it: rounded once; integers wrap where they do not fit."""
    match dtype:
        case "bool":
            return tirx.IntImm("bool", int(bool(value)))
        case "i8" | "i32" | "i64":
            bits = int(dtype[1:])
            whole = int(value) if math.isfinite(value) else 0
            return integer((whole + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1), TIR_TYPES[dtype])
        case "f16" | "bf16" | "f32" | "f64":
            return tirx.FloatImm(TIR_TYPES[dtype], _rounded(value, dtype))
        case _:
            assert_never(dtype)


def _rounded(value: int | float, dtype: DType) -> float:
    """The value in a float dtype, exactly, as a Python float."""
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(value)
    wide = np.asarray(value)
    with np.errstate(over="ignore"):
        match dtype:
            case "f64":
                return float(wide.astype(np.float64))
            case "f32":
                return float(wide.astype(np.float32))
            case "f16":
                return float(wide.astype(np.float16))
            case _:
                return _to_bf16(float(wide))


def _to_bf16(value: float) -> float:
    """f64 to the nearest bf16, ties to even, in one rounding."""
    if value == 0 or not math.isfinite(value):
        return value
    exponent = max(math.frexp(value)[1] - 8, -133)  # of the last place; bf16 has 8 bits and f32's exponents
    rounded = math.ldexp(round(math.ldexp(value, -exponent)), exponent)
    return math.copysign(math.inf, value) if abs(rounded) >= 2.0**128 else rounded


class _Lowering:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.dtypes: dict[str, DType] = {name: storage.dtype for name, storage in names.tensors.items()}

    def constant(self, value: int | float | bool, dtype: DType) -> TirExpr:
        result = constant(value, dtype)
        if dtype == "bf16" and self.names.target == "llvm":
            return bf16.bits(float(result.value))
        if self.names.target == "cuda" and dtype in ("f16", "bf16"):  # TVM prints no infinities of these
            return tirx.Cast(TIR_TYPES[dtype], tirx.FloatImm("float32", float(result.value)))
        if self.names.target == "cuda" and isinstance(result, tirx.FloatImm) and dtype == "f64":
            number = float(result.value)
            if math.isfinite(number) and float(f"{number:.15f}") != number:  # TVM prints no more digits of a double
                (bits,) = struct.unpack("<q", struct.pack("<d", number))
                return tirx.call_pure_extern("float64", "__longlong_as_double", integer(bits, "int64"))
        return result

    def element(self, access: Access) -> list[TirExpr]:
        """The indices into the tensor's buffer."""
        storage = self.names.tensors[access.tensor]
        indices = [self.strong(self.value(index)).tir for index in access.indices[storage.dropped :]]
        if any(index.ty.dtype == "int64" for index in indices):
            indices = [_as("int64", index) for index in indices]
        if not storage.flat:
            return indices
        offset: TirExpr | None = None
        stride = 1
        for index, size in zip(reversed(indices), reversed(storage.shape[storage.dropped :]), strict=True):
            scaled = index if stride == 1 else tirx.Mul(index, integer(stride, index.ty.dtype))
            offset = scaled if offset is None else tirx.Add(scaled, offset)
            stride *= size
        return [integer(0) if offset is None else offset]

    def stored(self, expression: Expr, dtype: DType) -> TirExpr:
        """The value as a buffer of `dtype` holds it."""
        if isinstance(expression, Access) and self.dtypes[expression.tensor] == dtype:
            return self.load(expression)  # a copy rounds nothing
        value = self.value(expression)
        if isinstance(value, Weak):
            return self.constant(value.value, dtype)
        match dtype:
            case "f16" | "bf16":
                return self.narrowed(value if is_float(value.dtype) else self.convert(value, "f32"), dtype)
            case "i8" | "i64":
                return _as(TIR_TYPES[dtype], self.cast(value, dtype).tir)
            case _:
                return self.cast(value, dtype).tir

    def load(self, access: Access) -> TirExpr:
        return tirx.BufferLoad(self.names.tensors[access.tensor].buffer, self.element(access))

    def value(self, expression: Expr) -> _Value | Weak:
        """The value in its computing type; literals stay weak until they meet another operand."""
        match expression:
            case Integer(value) | Real(value):
                return Weak(value)
            case Variable(name):
                return _Value(self.names.variables[name], "i64")
            case Access(tensor):
                return self.computing(self.load(expression), self.dtypes[tensor])
            case Cast(dtype, operand):
                return self.cast(self.value(operand), dtype)
            case Select():
                return self.select(expression)
            case Unary("!", operand):
                value = self.value(operand)
                return Weak(not value.value) if isinstance(value, Weak) else _Value(tirx.Not(value.tir), "bool")
            case Unary(_, operand):
                return self.negated(expression, self.value(operand))
            case Binary("&&" | "||"):
                return self.connective(expression)
            case Binary(op, left, right):
                return self.binary(op, expression, self.value(left), self.value(right))
            case Call(function, arguments):
                values = [self.value(argument) for argument in arguments]
                if all(isinstance(value, Weak) for value in values):
                    return _folded(expression)
                if len(values) == 2:
                    return self.binary("max" if function == "max" else "min", expression, *values)
                return self.call(function, self.strong(values[0]))
            case _:
                assert_never(expression)

    def computing(self, loaded: TirExpr, dtype: DType) -> _Value:
        match dtype:
            case "bf16" if self.names.target == "llvm":
                return _Value(bf16.to_f32(loaded), "f32")
            case "f16" | "bf16":
                return _Value(tirx.Cast("float32", loaded), "f32")
            case "i8":
                return _Value(tirx.Cast("int32", loaded), "i8")
            case _:
                return _Value(loaded, dtype)

    def narrowed(self, value: _Value, dtype: Literal["f16", "bf16"]) -> TirExpr:
        """A float as a buffer of f16 or bf16 holds it."""
        if dtype == "bf16" and self.names.target == "llvm":
            return bf16.from_float(value.tir)
        return tirx.Cast(TIR_TYPES[dtype], value.tir)

    def strong(self, value: _Value | Weak) -> _Value:
        return self.convert(value, strong(value)) if isinstance(value, Weak) else value

    def convert(self, value: _Value | Weak, dtype: DType) -> _Value:
        """The value in a computing type that is at least as wide, as promotion asks for it."""
        if isinstance(value, Weak):
            narrow = dtype == "i8" or (dtype == "i64" and _fits(value.value))
            return _Value(self.constant(value.value, "i32" if narrow else dtype), dtype)
        if value.dtype == dtype:
            return value
        source = tirx.Cast("int32", value.tir) if value.dtype == "bool" else value.tir
        return _Value(_as(TIR_TYPES[dtype], source) if is_float(dtype) else source, dtype)

    def cast(self, value: _Value | Weak, dtype: DType) -> _Value:
        """`cast(dtype, value)`, in the computing type of `dtype`."""
        if isinstance(value, Weak):
            return self.computing(self.constant(value.value, dtype), dtype)
        source = tirx.Cast("int32", value.tir) if value.dtype == "bool" and dtype != "bool" else value.tir
        match dtype:
            case "bool":
                is_bool = value.dtype == "bool"
                return _Value(source if is_bool else _different(source, _zero(source)), "bool")
            case "i8" | "i32":
                return _Value(_as("int32", source), dtype)
            case "i64":
                return _Value(_as("int64", source) if is_float(value.dtype) else source, dtype)
            case "f16" | "bf16":
                wide = value if is_float(value.dtype) else self.convert(value, "f32")
                return self.computing(self.narrowed(wide, dtype), dtype)
            case "f32" | "f64":
                return _Value(_as(TIR_TYPES[dtype], source), dtype)
            case _:
                assert_never(dtype)

    def arithmetic(self, op: BinaryOp | str, *values: _Value | Weak) -> DType:
        """The type in which an arithmetic operator computes."""
        common = promote(values[0].dtype if isinstance(values[0], _Value) else values[0], _type(values[-1]))
        assert not isinstance(common, Weak)
        if common == "bool":
            common = "i32"
        return "f32" if op in ("/", "**") and not is_float(common) else common

    def binary(self, op: BinaryOp | str, expression: Expr, left: _Value | Weak, right: _Value | Weak) -> _Value | Weak:
        if isinstance(left, Weak) and isinstance(right, Weak):
            return _folded(expression)
        dtype = self.arithmetic(op, left, right)
        a, b = self.convert(left, dtype).tir, self.convert(right, dtype).tir
        if is_float(dtype):
            if op == "**":
                return _Value(call("pow", TIR_TYPES[dtype], a, b), dtype)
        elif op in COMPARISONS or self.is_narrow(expression, dtype):
            a, b = _same_width(a, b)
        else:
            a, b = _as("int64", a), _as("int64", b)
        result = _different(a, b) if op == "!=" else _BINARY[op](a, b)
        return _Value(result, "bool" if op in COMPARISONS else dtype)

    def is_narrow(self, expression: Expr, dtype: DType) -> bool:
        """Whether an integer result fits 32 bits, overflow of i8 and i32 being the program's own affair."""
        return dtype != "i64" or _fits(*interval(expression, self.names.ranges, self.interval_of_opaque))

    def interval_of_opaque(self, expression: Expr) -> tuple[float, float]:
        if isinstance(expression, Access):
            return dtype_interval(self.dtypes[expression.tensor])
        assert isinstance(expression, Cast)
        return dtype_interval(expression.dtype)

    def negated(self, expression: Expr, operand: _Value | Weak) -> _Value | Weak:
        if isinstance(operand, Weak):
            return _folded(expression)
        if is_float(operand.dtype):
            minus_one = tirx.FloatImm(TIR_TYPES[operand.dtype], -1.0)  # 0 - x would lose the sign of zero
            return _Value(tirx.Mul(operand.tir, minus_one), operand.dtype)
        return self.binary("-", expression, Weak(0), operand)

    def call(self, function: str, operand: _Value) -> _Value:
        if function == "abs" and not is_float(operand.dtype):
            whole = self.convert(operand, "i32" if operand.dtype == "bool" else operand.dtype)
            library = "abs" if str(whole.tir.ty.dtype) == "int32" else "llabs"
            return _Value(tirx.call_pure_extern(whole.tir.ty, library, whole.tir), whole.dtype)
        dtype: DType = "f64" if operand.dtype == "f64" else "f32"
        return _Value(call(function, TIR_TYPES[dtype], self.convert(operand, dtype).tir), dtype)

    def test(self, expression: Expr) -> TirExpr:
        return self.strong(self.value(expression)).tir

    def connective(self, expression: Binary) -> _Value | Weak:
        """`&&` and `||`; the right side is evaluated only where it decides, if evaluating it could do harm."""
        left, right = self.value(expression.left), self.value(expression.right)
        conjunction = expression.op == "&&"
        if isinstance(left, Weak):
            if isinstance(right, Weak):
                return _folded(expression)
            return self.strong(right if bool(left.value) == conjunction else left)
        a, b = left.tir, self.strong(right).tir
        if _is_harmless(expression.right):
            return _Value(tirx.And(a, b) if conjunction else tirx.Or(a, b), "bool")
        decided = tirx.IntImm("bool", 0 if conjunction else 1)
        return _Value(tirx.if_then_else(a, *((b, decided) if conjunction else (decided, b))), "bool")

    def select(self, expression: Select) -> _Value | Weak:
        test = self.value(expression.condition)
        then, otherwise = self.value(expression.then), self.value(expression.otherwise)
        if isinstance(test, Weak) and isinstance(then, Weak) and isinstance(otherwise, Weak):
            return _folded(expression)
        common = strong(promote(_type(then), _type(otherwise)))
        a, b = self.convert(then, common).tir, self.convert(otherwise, common).tir
        if isinstance(test, Weak):
            return _Value(a if test.value else b, common)
        if common in ("i8", "i32", "i64"):
            a, b = _same_width(a, b)
        return _Value(tirx.if_then_else(test.tir, a, b), common)


def _type(value: _Value | Weak) -> DType | Weak:
    return value if isinstance(value, Weak) else value.dtype


def _folded(expression: Expr) -> Weak:
    result = type_of(expression, {})
    assert isinstance(result, Weak)
    return result


def _is_harmless(expression: Expr) -> bool:
    """Whether evaluating an expression can neither read out of bounds nor divide by zero."""
    match expression:
        case Access() | Binary("//" | "%"):
            return False
        case Integer() | Real() | Variable():
            return True
        case Unary(_, operand) | Cast(_, operand):
            return _is_harmless(operand)
        case Binary(_, left, right):
            return _is_harmless(left) and _is_harmless(right)
        case Call(_, arguments):
            return all(_is_harmless(argument) for argument in arguments)
        case Select(test, then, otherwise):
            return _is_harmless(test) and _is_harmless(then) and _is_harmless(otherwise)


def _fits(low: float, high: float | None = None) -> bool:
    return _INT32[0] <= low and (low if high is None else high) <= _INT32[1]


def _as(dtype: str, value: TirExpr) -> TirExpr:
    if value.ty.dtype == dtype:
        return value
    if isinstance(value, tirx.IntImm) and dtype in ("int32", "int64"):
        return integer(int(value), dtype)
    return tirx.Cast(dtype, value)


def _same_width(a: TirExpr, b: TirExpr) -> tuple[TirExpr, TirExpr]:
    """Two integers in one type, the wider of the two."""
    if a.ty.dtype == b.ty.dtype:
        return a, b
    return _as("int64", a), _as("int64", b)


def _different(a: TirExpr, b: TirExpr) -> TirExpr:
    """`!=`, which holds of NaN: TVM's NE on llvm does not."""
    return tirx.Not(tirx.EQ(a, b)) if str(a.ty.dtype).startswith("float") else tirx.NE(a, b)


def _zero(like: TirExpr) -> TirExpr:
    dtype = str(like.ty.dtype)
    return tirx.FloatImm(dtype, 0.0) if dtype.startswith("float") else integer(0, dtype)
