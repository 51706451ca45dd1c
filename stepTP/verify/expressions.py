"""The value of an expression over a whole iteration space at once, with its error bound."""

import math
from dataclasses import replace
from typing import Any, assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from leir.analysis.types import COMPARISONS, Type, Weak, promote, type_of
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
from stepTP.verify import tolerance
from stepTP.verify.elements import Elements
from stepTP.verify.formats import FORMATS, Format
from stepTP.verify.shares import log_of_roundings, share_error
from stepTP.verify.tolerance import Running

Array = NDArray[Any]
Bindings = dict[str, Any]  # loop variables: numbers, or arrays that broadcast over the iteration space

_COMPARE = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
_INCREASING = {"exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh}
_DOMAIN = {"log": 0.0, "log1p": -1.0}


class Expressions:
    """Evaluates expressions on the tensors as they are now."""

    def __init__(self, dtypes: dict[str, DType], tensors: dict[str, Elements]) -> None:
        self.dtypes, self.tensors = dtypes, tensors
        self.types: dict[Expr, Type] = {}

    def flat(self, access: Access, names: Bindings) -> Array:
        """The element's number in the flat tensor; past the ends, where a guard or branch protects it, the nearest."""
        shape = self.tensors[access.tensor].shape
        flat = np.zeros((), dtype=np.int64)
        for index, size in zip(access.indices, shape, strict=True):
            flat = flat * size + np.clip(self.visit(index, names).value, 0, size - 1)
        return flat

    def type(self, expression: Expr) -> Type:
        kind = self.types.get(expression)
        if kind is None:
            kind = self.types[expression] = type_of(expression, self.dtypes)
        return kind

    def operand(self, expression: Expr, kind: Type, names: Bindings) -> Running:
        """An operand of an operation that computes in `kind`, converted to it."""
        own = self.type(expression)
        format = None if isinstance(kind, Weak) else FORMATS.get(kind)
        if isinstance(own, Weak):
            return tolerance.literal(own.value, format)
        running = self.visit(expression, names)
        if own == kind or format is None:
            return running
        # A sum that goes on in another type ends here, with the roundings of its own.
        own_format = FORMATS.get(own)
        return tolerance.settled(running, own_format) if own_format else tolerance.stored(running, None, format)

    def visit(self, expression: Expr, names: Bindings) -> Running:
        """The value in its own type."""
        kind = self.type(expression)
        if isinstance(kind, Weak):
            return tolerance.exact(kind.value)
        format = FORMATS.get(kind)
        match expression:
            case Variable(name):
                return tolerance.exact(names[name])
            case Access(tensor, indices):
                element = self.tensors[tensor].read(self.flat(expression, names))
                if any(np.any(self.visit(index, names).error) for index in indices):
                    return Running(element.value, np.full(np.shape(element.value), np.inf), element.magnitude)
                return element
            case Unary("-", operand):
                return tolerance.negate(self.operand(operand, kind, names))
            case Unary(_, operand):
                inner = self.visit(operand, names)
                return Running(1 - np.asarray(inner.value), inner.error, 1.0)
            case Binary(op, left, right):
                return self.binary(op, left, right, kind, format, names)
            case Call(function, (argument,)):
                return self.call(function, self.operand(argument, kind, names), format)
            case Call(function, (left, right)):
                a, b = self.operand(left, kind, names), self.operand(right, kind, names)
                return (tolerance.maximum if function == "max" else tolerance.minimum)(a, b, format)
            case Select(condition, then, otherwise):
                test = self.visit(condition, names)
                a, b = self.operand(then, kind, names), self.operand(otherwise, kind, names)
                return tolerance.select(test, a, b, format)
            case Cast(dtype, operand):
                return self.converted(operand, dtype, names)
            case Integer() | Real() | Call():
                raise AssertionError(f"literals are weak, and functions take one or two arguments: {expression}")
            case _:
                assert_never(expression)

    def converted(self, expression: Expr, dtype: DType, names: Bindings) -> Running:
        """The value as a tensor of `dtype` stores it."""
        own = self.type(expression)
        value = self.operand(expression, dtype, names)
        if isinstance(own, Weak):
            return _truncated(value, own, dtype) if dtype == "bool" else value
        return _truncated(tolerance.stored(value, FORMATS.get(own), FORMATS.get(dtype)), own, dtype)

    def binary(
        self, op: BinaryOp, left: Expr, right: Expr, kind: DType, format: Format | None, names: Bindings
    ) -> Running:
        if op in COMPARISONS:
            common = promote(self.type(left), self.type(right))
            a, b = self.operand(left, common, names), self.operand(right, common, names)
            return tolerance.compare(_COMPARE[op], a, b, None if isinstance(common, Weak) else FORMATS.get(common))
        a, b = self.operand(left, kind, names), self.operand(right, kind, names)
        match op:
            case "+" | "-":
                return tolerance.add(a, b, format, 1.0 if op == "+" else -1.0)
            case "*":
                return tolerance.multiply(a, b, format)
            case "/":
                assert format
                return self.share(left, right, a, tolerance.divide(a, b, format), format, names)
            case "**":
                assert format
                return tolerance.power(a, b, format)
            case "&&" | "||":
                x, y = np.asarray(a.value) != 0, np.asarray(b.value) != 0
                value = (x & y if op == "&&" else x | y).astype(np.int64)
                return Running(value, np.maximum(a.error, b.error), np.abs(value))
            case _:  # a divisor of 0 stands only in a branch that is not taken
                divisor = np.where(np.asarray(b.value) == 0, 1, b.value)
                return tolerance.exact((np.floor_divide if op == "//" else np.mod)(a.value, divisor))

    def share(self, left: Expr, right: Expr, a: Running, quotient: Running, format: Format, names: Bindings) -> Running:
        """The quotient, with a sharper bound where `left` is one of the terms whose sum `right` is."""
        if not isinstance(right, Access) or a.log_error is None:
            return quotient
        sums = self.tensors[right.tensor]
        if sums.summed is None or sums.sums is None:
            return quotient
        contents = {name: elements.contents for name, elements in self.tensors.items()}
        if not sums.summed.has_term(left, right.indices, contents, names):
            return quotient
        at = self.flat(right, names)
        rounded = log_of_roundings(sums.cost * sums.terms[at], sums.format or format)  # each sum is stored
        rounded = rounded + log_of_roundings(tolerance.OPERATION_ROUNDINGS, format)
        known, total = sums.sums, sums.value[at]
        mean = known.log_error(sums.value)[at]
        bound = share_error(quotient.value, a.log_error, mean, known.largest[at], known.rest[at] / total)
        # The roundings of the sum and of the quotient are no part of the terms: they may take a share beyond 1.
        loose = (np.asarray(quotient.value) + bound) * np.expm1(rounded) + bound
        loose += format.smallest * (sums.summed.count + 2) / np.minimum(total, 1.0)
        return replace(quotient, error=np.fmin(quotient.error, loose))

    def call(self, function: str, a: Running, format: Format | None) -> Running:
        if function == "abs":
            return tolerance.absolute(a, format)
        if function in ("floor", "round"):
            return tolerance.stepped(np.floor if function == "floor" else np.rint, a, format)
        assert format
        if function == "sqrt":
            return tolerance.square_root(a, format)
        if function in ("sin", "cos"):
            return tolerance.lipschitz(np.sin if function == "sin" else np.cos, a, format)
        if function == "erf":
            return tolerance.monotone(_erf, a, format)
        return tolerance.monotone(_INCREASING[function], a, format, _DOMAIN.get(function, -math.inf))


def _erf(x: Any) -> Any:
    return torch.erf(torch.as_tensor(np.asarray(x, dtype=np.float64))).numpy()


def _truncated(a: Running, computed: Type, kept: DType) -> Running:
    """A float stored to an integer loses its fraction; a number stored to bool is tested for nonzero."""
    if kept in FORMATS:
        return a
    if kept == "bool":
        return tolerance.compare(np.not_equal, a, tolerance.exact(0), None)
    if isinstance(computed, Weak) or computed not in FORMATS:
        return a
    whole = tolerance.stepped(np.trunc, a, FORMATS[computed])
    return Running(np.asarray(whole.value).astype(np.int64), whole.error, whole.magnitude)
