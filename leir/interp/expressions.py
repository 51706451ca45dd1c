"""Expressions to Python code, with the types that LEIR gives them.

`Emitter` holds the rules that scalar and vector code share: which type an operator computes in, and where conversions
stand. How an element is read, and how only the needed operand is evaluated, differs; the two subclasses say it.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np

from leir.edit import walk_expression
from leir.interp import arithmetic
from leir.interp.arithmetic import Computing, Type, promote
from leir.interp.errors import InterpreterError
from leir.interp.tensors import Linear, Ranges, Tensor, interval, linear
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Call,
    Cast,
    DType,
    Equation,
    Expr,
    Integer,
    Loop,
    Path,
    Real,
    Select,
    Unary,
    Variable,
)

Namespace = dict[str, Any]  # the globals of generated code
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_HEIGHT_LIMIT = 12  # operators nested in one Python expression, far below what Python's parser takes
_BOOL, _I64, _F64 = Type("bool"), Type("i64"), Type("f64")


@dataclass(frozen=True, slots=True)
class Term:
    """Code for a value and its type; `constant` where the value is known and weak."""

    code: str
    type: Type
    constant: int | float | None = None
    height: int = 0


class Emitter(ABC):
    """Emits code for the expressions of the statement at `path`."""

    typed_integers = False  # whether i8 and i32 constants are NumPy's rather than Python's

    def __init__(self, tensors: dict[str, Tensor], namespace: Namespace) -> None:
        self.tensors = tensors
        self.namespace = namespace
        self.path: Path = ()
        self.count = 0
        self.ranges: Ranges = {}
        self.live: dict[str, Tensor] = {name: t for name, t in tensors.items() if t.allocated is None}

    @abstractmethod
    def variable(self, name: str) -> str:
        """The code of a loop variable's value, an i64."""

    @abstractmethod
    def read(self, access: Access) -> Term:
        """The value of an element, with the checks that it is there and defined."""

    @abstractmethod
    def lazily(self, op: str, left: Expr, right: Expr) -> Term:
        """`&&` or `||`, the right operand evaluated only where needed."""

    @abstractmethod
    def select(self, expression: Select) -> Term:
        """`if_then_else`, only the needed value evaluated; its type is strong, even where both values are literals."""

    @abstractmethod
    def divide(self, op: str, left: str, right: str) -> str:
        """`//` or `%` of integers, with the check of the divisor."""

    @abstractmethod
    def extremum(self, name: str, left: str, right: str) -> str:
        """`max` or `min` of two values of one type."""

    @abstractmethod
    def negated(self, code: str) -> str:
        """`!` of a truth value."""

    @abstractmethod
    def converted(self, code: str, source: Computing, target: Computing) -> str:
        """A value of one type as another type."""

    @abstractmethod
    def outlined(self, term: Term) -> Term:
        """The term moved out of the expression that is being built, because it nests deep."""

    def fail(self, reason: str) -> InterpreterError:
        return InterpreterError(reason, self.path)

    def enter(self, loop: Loop) -> None:
        """Binds the loop's variable."""
        if loop.variable in self.ranges:
            raise self.fail(f"{loop.variable} is the variable of a loop around this one")
        self.ranges[loop.variable] = (loop.first, loop.first + loop.extent - 1)

    def bound(self, name: str) -> None:
        if name not in self.ranges:
            raise self.fail(f"{name} is not the variable of a loop around this statement")

    def tensor(self, access: Access) -> Tensor:
        tensor = self.live.get(access.tensor)
        if tensor is None:
            raise self.fail(f"{access.tensor} is used outside its lifetime")
        if len(access.indices) != tensor.rank:
            raise self.fail(f"{tensor.name} has rank {tensor.rank} and is used with {len(access.indices)} subscripts")
        return tensor

    def target(self, statement: Equation) -> Tensor:
        """The tensor that an equation may write."""
        tensor = self.tensor(statement.target)
        if tensor.role == "input":
            raise self.fail(f"{tensor.name} is an input and is written")
        if tensor.dtype == "bool" and statement.op != "=":
            raise self.fail(f"{tensor.name} is bool and is accumulated into")
        return tensor

    def declared(self, statement: Alloc) -> Tensor:
        """The tensor whose lifetime an allocation starts."""
        tensor = self.tensors[statement.tensor]
        if tensor.allocated != self.path:
            raise self.fail(f"{tensor.name} is declared twice")
        self.live[tensor.name] = tensor
        return tensor

    def inside(self, tensor: Tensor, number: int, index: Expr) -> Linear | None:
        """The subscript as a linear form, if it is one and always within the tensor."""
        form = linear(index)
        if form is None or tensor.shape is None:
            return None
        for name in form.coefficients:
            self.bound(name)
        bounds = interval(index, self.ranges)
        return form if bounds is not None and bounds[0] >= 0 and bounds[1] < tensor.shape[number] else None

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def value(self, expression: Expr) -> Term:
        """Code and type of an expression."""
        term = self._value(expression)
        return self.outlined(term) if term.height >= _HEIGHT_LIMIT else term

    def _value(self, expression: Expr) -> Term:
        match expression:
            case Integer(value) | Real(value):
                weak = Type("i64" if isinstance(expression, Integer) else "f64", weak=True)
                return Term(repr(value), weak, value)
            case Variable(name):
                return Term(self.variable(name), _I64)
            case Access():
                return self._raised(self.read(expression))
            case Unary("!", operand):
                inner = self.value(operand)
                if inner.constant is not None:
                    return self._literal_truth(not inner.constant)
                return Term(self.negated(self.truth(inner)), _BOOL, height=inner.height + 1)
            case Unary(op, operand):
                inner = self.value(operand)
                if inner.constant is not None:
                    return self._folded(op, inner)
                type_ = arithmetic.arithmetic(inner.type)
                return Term(f"(-{self.as_type(inner, type_)})", type_, height=inner.height + 1)
            case Binary("&&" | "||" as op, left, right):
                if _only_literals(expression):
                    a, b = self.value(left).constant, self.value(right).constant
                    return self._literal_truth(bool(a and b) if op == "&&" else bool(a or b))
                return self._raised(self.lazily(op, left, right))
            case Binary(op, left, right):
                return self._binary(op, self.value(left), self.value(right))
            case Call("max" | "min" as name, (left, right)):
                return self._extremum(name, self.value(left), self.value(right))
            case Call(name, (argument,)):
                return self._call(name, self.value(argument))
            case Call(name, arguments):
                raise self.fail(f"{name} does not take {len(arguments)} arguments")
            case Select(condition, then, otherwise):
                if _only_literals(expression):
                    a, b = self.value(then), self.value(otherwise)
                    value = a.constant if self.value(condition).constant else b.constant
                    assert value is not None
                    return self._literal(value, promote(a.type, b.type))
                return self._raised(self.select(expression))
            case Cast(dtype, operand):
                inner = self.value(operand)
                type_ = Type(arithmetic.computing(dtype))
                return Term(self.stored(inner, dtype), type_, height=inner.height + 1)
            case _:
                assert_never(expression)

    def _literal(self, value: int | float, type_: Type) -> Term:
        """A literal of a weak type."""
        value = float(value) if type_.dtype == "f64" else bool(value) if type_.dtype == "bool" else int(value)
        return Term(repr(value), Type(type_.dtype, weak=True), value)

    def _literal_truth(self, value: bool) -> Term:
        return self._literal(value, Type("bool"))

    def _raised(self, term: Term) -> Term:
        return replace(term, height=term.height + 1)

    def _folded(self, op: str, *terms: Term) -> Term:
        values = [term.constant for term in terms if term.constant is not None]
        try:
            value = arithmetic.fold(op, *values)
        except ArithmeticError as error:
            raise self.fail(str(error)) from None
        return Term(repr(value), Type("i64" if isinstance(value, int) else "f64", weak=True), value)

    def _binary(self, op: str, left: Term, right: Term) -> Term:
        common = promote(left.type, right.type)
        height = max(left.height, right.height) + 1
        if op in ("<", "<=", ">", ">=", "==", "!="):
            if left.constant is not None and right.constant is not None:
                return self._literal_truth(_COMPARE[op](left.constant, right.constant))
            return Term(f"({self.as_type(left, common)} {op} {self.as_type(right, common)})", _BOOL, height=height)
        common = arithmetic.arithmetic(common)
        if op == "/":
            common = arithmetic.floating(common)
        elif op in ("//", "%") and common.floating:
            raise self.fail(f"{op} takes integers")
        elif op == "**" and not common.floating:
            raise self.fail("** takes a float base")
        if left.constant is not None and right.constant is not None:
            return self._folded(op, left, right)
        a, b = self.as_type(left, common), self.as_type(right, common)
        if op in ("//", "%"):
            return Term(self.divide(op, a, b), common, height=height)
        if op == "**":
            return Term(f"{self.function('**', common)}({a}, {b})", common, height=height)
        return Term(f"({a} {op} {b})", common, height=height)

    def _extremum(self, name: str, left: Term, right: Term) -> Term:
        if left.constant is not None and right.constant is not None:
            return self._folded(name, left, right)
        common = arithmetic.arithmetic(promote(left.type, right.type))
        if common.weak:
            common = arithmetic.floating(common)
        code = self.extremum(name, self.as_type(left, common), self.as_type(right, common))
        return Term(code, common, height=max(left.height, right.height) + 1)

    def _call(self, name: str, argument: Term) -> Term:
        if argument.constant is not None:
            return self._folded(name, argument)
        if name == "abs" and not argument.type.weak:
            type_ = arithmetic.arithmetic(argument.type)
        else:
            type_ = arithmetic.floating(argument.type)
        called = "abs" if name == "abs" else self.function(name, type_)
        return Term(f"{called}({self.as_type(argument, type_)})", type_, height=argument.height + 1)

    def function(self, name: str, type_: Type) -> str:
        assert type_.dtype == "f32" or type_.dtype == "f64"
        key = f"{'power' if name == '**' else name}_{type_.dtype}"
        if key not in self.namespace:
            self.namespace[key] = arithmetic.function(name, type_.dtype)
        return key

    def as_type(self, term: Term, type_: Type) -> str:
        """The term's code, converted to a computing type."""
        target = type_.dtype
        if term.constant is None:
            return term.code if term.type.dtype == target else self.converted(term.code, term.type.dtype, target)
        return self.literal(term.constant, target)

    def literal(self, value: int | float, dtype: Computing) -> str:
        """A constant of a computing type, converted once."""
        if dtype == "bool":
            return str(value != 0)
        if dtype == "f32" or dtype == "f64":
            single = arithmetic.integer_to_single if isinstance(value, int) else np.float32
            convert: Callable[[Any], object] = single if dtype == "f32" else np.float64
            return self.constant(f"{dtype}:{value!r}", convert(value))
        whole = value if isinstance(value, int) else arithmetic.to_integer(np.float64(value), "i64")
        whole = arithmetic.scalar_to_integer(int(whole), dtype)
        if self.typed_integers and dtype != "i64":
            return self.constant(f"{dtype}:{whole}", arithmetic.NUMPY_TYPES[dtype](whole))
        return str(whole) if whole >= 0 else f"({whole})"

    def constant(self, key: str, value: object) -> str:
        """The name of a constant in the generated code."""
        names: dict[str, str] = self.namespace.setdefault("LITERALS", {})
        if key not in names:
            names[key] = f"K{len(names)}"
            self.namespace[names[key]] = value
        return names[key]

    def stored(self, term: Term, dtype: DType) -> str:
        """The term's code as a store to `dtype`, or a cast, converts it."""
        target = arithmetic.computing(dtype)
        if dtype not in ("f16", "bf16"):
            return self.as_type(term, Type(target))
        source = term.type if term.type.dtype in ("f32", "f64") and not term.type.weak else _F64
        return f"round_to({dtype!r}, {self.as_type(term, source)})"

    def truth(self, term: Term) -> str:
        """The term's code as a truth value: whether it is not zero."""
        return self.as_type(term, _BOOL)

    def integral(self, term: Term) -> str:
        """The term's code as a subscript."""
        if term.type.floating:
            raise self.fail("a subscript is an integer")
        return term.code if term.constant is None else str(term.constant)


def _only_literals(expression: Expr) -> bool:
    return not any(isinstance(e, Variable | Access | Cast) for _, e in walk_expression(expression))
