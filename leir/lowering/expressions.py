"""Expressions of LEIR as expressions of TIR: promotion, weak literals, lazy conditions, narrow index arithmetic.

Nodes are made by their constructors, which fold nothing, so that what runs is what the program says. A value computes
in f32, f64 or an integer type; f16 and bf16 exist in buffers only. Integers are held in 32 bits where every
intermediate result provably fits, in 64 bits elsewhere; a loop variable as a value is i64 either way.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from tvm import tirx
from tvm.ir import Expr as TirExpr

from leir.analysis.access import dtype_interval
from leir.analysis.affine import interval
from leir.analysis.types import COMPARISONS, NEGATED, Weak, is_float, promote, strong, type_of
from leir.lowering import bf16
from leir.lowering.functions import call
from leir.lowering.names import TIR_TYPES, Names
from leir.lowering.numbers import (
    as_type,
    constant,
    different,
    fits_int32,
    floored,
    integer,
    same_width,
    truncated,
    wrapping,
    zero,
)
from leir.lowering.repetition import Nesting, is_harmless, is_rising, may_cancel, turned_right
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

_BINARY: dict[str, Callable[[TirExpr, TirExpr], TirExpr]] = {
    "+": tirx.Add, "-": tirx.Sub, "*": tirx.Mul, "/": tirx.Div, "//": tirx.FloorDiv, "%": tirx.FloorMod,
    "<": tirx.LT, "<=": tirx.LE, ">": tirx.GT, ">=": tirx.GE, "==": tirx.EQ,
    "max": tirx.Max, "min": tirx.Min,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of a computing type. Integers of any width are int32 or int64, whichever they fit."""

    tir: TirExpr
    dtype: DType


def guarded(test: Expr, names: Names, body: tirx.Stmt) -> tirx.Stmt:
    """The body where a boolean expression holds."""
    lowering = _Lowering(names)
    value = lowering.repeated(test)
    return sequence([*lowering.before, tirx.IfThenElse(lowering.strong(value).tir, body, None)])


def store(target: Access, value: Expr, names: Names) -> tirx.Stmt:
    """The equation `target = value`, the value converted to the tensor's dtype. A sum or product of integers wraps."""
    lowering = _Lowering(names)
    if isinstance(value, Binary) and value.op in ("+", "*") and value.left == target:
        lowering.accumulation = value
    storage = names.tensors[target.tensor]
    stored = tirx.BufferStore(storage.buffer, lowering.stored(value, storage.dtype), lowering.element(target))
    return sequence([*lowering.before, stored])


def element(access: Access, names: Names) -> list[TirExpr]:
    """The indices of an access into its tensor's buffer, for a program that is only printed."""
    return _Lowering(names).element(access)


def sequence(statements: list[tirx.Stmt]) -> tirx.Stmt:
    """The statements as one; a list of nothing but declarations leaves none."""
    if not statements:
        return tirx.Evaluate(integer(0))
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


class _Lowering:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.dtypes: dict[str, DType] = {name: storage.dtype for name, storage in names.tensors.items()}
        self.nesting = Nesting(names.ranges)
        self.kept = 0  # temporaries so far
        self.before: list[tirx.Stmt] = []  # what computes the temporaries that the value reads
        self.accumulation: Binary | None = None

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
            indices = [as_type("int64", index) for index in indices]
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
                return as_type(TIR_TYPES[dtype], self.cast(value, dtype).tir)
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
            case Cast("bf16", operand):
                return self.cast(self.repeated(operand), "bf16")
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
                return self.connective(turned_right(expression))
            case Binary(op, left, right) if op in ("//", "%") or op in COMPARISONS:
                return self.binary(op, expression, self.repeated(left), self.repeated(right))
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
            narrow = dtype == "i8" or (dtype == "i64" and fits_int32(value.value))
            return _Value(self.constant(value.value, "i32" if narrow else dtype), dtype)
        if value.dtype == dtype:
            return value
        source = tirx.Cast("int32", value.tir) if value.dtype == "bool" else value.tir
        return _Value(as_type(TIR_TYPES[dtype], source) if is_float(dtype) else source, dtype)

    def cast(self, value: _Value | Weak, dtype: DType) -> _Value:
        """`cast(dtype, value)`, in the computing type of `dtype`."""
        if isinstance(value, Weak):
            return self.computing(self.constant(value.value, dtype), dtype)
        source = tirx.Cast("int32", value.tir) if value.dtype == "bool" and dtype != "bool" else value.tir
        match dtype:
            case "bool":
                is_bool = value.dtype == "bool"
                return _Value(source if is_bool else different(source, zero(source)), "bool")
            case "i8" | "i32":
                return _Value(as_type("int32", source), dtype)
            case "i64":
                return _Value(as_type("int64", source) if is_float(value.dtype) else source, dtype)
            case "f16" | "bf16":
                wide = value if is_float(value.dtype) else self.convert(value, "f32")
                return self.computing(self.narrowed(wide, dtype), dtype)
            case "f32" | "f64":
                return _Value(as_type(TIR_TYPES[dtype], source), dtype)
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
            a, b = same_width(a, b)
        else:
            a, b = as_type("int64", a), as_type("int64", b)
        if op in ("//", "%") and self.names.target != "script":
            if not self.nesting.is_plain_division(expression):
                return _Value(floored(op, a, b), dtype)
            if not is_rising(expression):
                return _Value(truncated(op, a, b), dtype)
        if expression is self.accumulation and not is_float(dtype) and self.names.target != "script":
            return _Value(wrapping(op, a, b), dtype)
        rewritten = self.names.target != "script" and not is_float(dtype)  # with NaN, `a<b` and `a>=b` are both false
        if op in ("<", "<=", ">", ">=") and rewritten and may_cancel(expression):
            result = tirx.Not(_BINARY[NEGATED[op]](a, b))
        else:
            result = different(a, b) if op == "!=" else _BINARY[op](a, b)
        return _Value(result, "bool" if op in COMPARISONS else dtype)

    def is_narrow(self, expression: Expr, dtype: DType) -> bool:
        """Whether an integer result fits 32 bits, overflow of i8 and i32 being the program's own affair."""
        return dtype != "i64" or fits_int32(*interval(expression, self.names.ranges, self.interval_of_opaque))

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

    def repeated(self, expression: Expr) -> _Value | Weak:
        """The value for a place where TVM repeats it: in a temporary where that would be too much."""
        value = self.value(expression)
        if isinstance(value, Weak) or self.names.target == "script" or not self.nesting.is_deep(expression):
            return value
        kept = self.temporary(value.tir)
        self.before.append(tirx.BufferStore(kept, value.tir, [integer(0)]))
        return replace(value, tir=tirx.BufferLoad(kept, [integer(0)]))

    def temporary(self, like: TirExpr) -> tirx.Buffer:
        """A new buffer of one element for values of the type."""
        buffer = tirx.decl_buffer((1,), str(like.ty.dtype), f"kept{self.kept}", scope="local")
        self.kept += 1
        self.before.append(tirx.AllocBuffer(buffer))
        return buffer

    def aside(self, expression: Expr) -> tuple[_Value | Weak, list[tirx.Stmt]]:
        """A value that is not always evaluated, and what must run before it where it is."""
        outer, self.before = self.before, []
        value = self.value(expression)
        inner, self.before = self.before, outer
        return value, inner

    def connective(self, expression: Binary) -> _Value | Weak:
        """`&&` and `||`; the right side is evaluated only where it decides, if evaluating it could do harm."""
        lazy = not is_harmless(expression.right)
        left = self.repeated(expression.left) if lazy else self.value(expression.left)
        right, before = self.aside(expression.right)
        conjunction = expression.op == "&&"
        if isinstance(left, Weak):
            if isinstance(right, Weak):
                return _folded(expression)
            if bool(left.value) != conjunction:
                return self.strong(left)
            self.before += before
            return right
        a, b = left.tir, self.strong(right).tir
        if before:
            kept = self.temporary(a)
            self.before.append(tirx.BufferStore(kept, a, [integer(0)]))
            first = tirx.BufferLoad(kept, [integer(0)])
            then = sequence([*before, tirx.BufferStore(kept, b, [integer(0)])])
            self.before.append(tirx.IfThenElse(first if conjunction else tirx.Not(first), then, None))
            return _Value(first, "bool")
        if not lazy:
            return _Value(tirx.And(a, b) if conjunction else tirx.Or(a, b), "bool")
        decided = tirx.IntImm("bool", 0 if conjunction else 1)
        return _Value(tirx.if_then_else(a, *((b, decided) if conjunction else (decided, b))), "bool")

    def select(self, expression: Select) -> _Value | Weak:
        test = self.repeated(expression.condition)
        then, before_then = self.aside(expression.then)
        otherwise, before_otherwise = self.aside(expression.otherwise)
        if isinstance(test, Weak) and isinstance(then, Weak) and isinstance(otherwise, Weak):
            return _folded(expression)
        common = strong(promote(_type(then), _type(otherwise)))
        a, b = self.convert(then, common).tir, self.convert(otherwise, common).tir
        if isinstance(test, Weak):
            self.before += before_then if test.value else before_otherwise
            return _Value(a if test.value else b, common)
        if common in ("i8", "i32", "i64"):
            a, b = same_width(a, b)
        if not before_then and not before_otherwise:
            return _Value(tirx.if_then_else(test.tir, a, b), common)
        kept = self.temporary(a)
        first = sequence([*before_then, tirx.BufferStore(kept, a, [integer(0)])])
        second = sequence([*before_otherwise, tirx.BufferStore(kept, b, [integer(0)])])
        self.before.append(tirx.IfThenElse(test.tir, first, second))
        return _Value(tirx.BufferLoad(kept, [integer(0)]), common)


def _type(value: _Value | Weak) -> DType | Weak:
    return value if isinstance(value, Weak) else value.dtype


def _folded(expression: Expr) -> Weak:
    result = type_of(expression, {})
    assert isinstance(result, Weak)
    return result
