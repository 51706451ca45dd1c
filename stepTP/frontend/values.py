"""Tensors as the front end sees them while it translates: a shape, a dtype, and an expression for each element.

A view is a function on subscripts composed with that of the tensor behind it; nothing is copied until a nest reads it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from leir.syntax import Access, Cast, DType, Expr, Integer, Real, Unary
from stepTP.frontend.indices import Index, expression

Point = tuple[Index, ...]
Scalar = bool | int | float

FLOATS: tuple[DType, ...] = ("f16", "bf16", "f32", "f64")
INTEGERS: tuple[DType, ...] = ("i8", "i32", "i64")
BITS: dict[DType, int] = {"i8": 8, "i32": 32, "i64": 64}


@dataclass(frozen=True, slots=True)
class Value:
    """`element(point)` is the expression of the element at a point, one index an axis.

    `constant` is the value that all elements share, where that is known; their expression is then a literal.
    """

    shape: tuple[int, ...]
    dtype: DType
    element: Callable[[Point], Expr]
    constant: Scalar | None = None

    def view(self, shape: Sequence[int], where: Callable[[Point], Sequence[Index]]) -> "Value":
        """The view of `shape` whose element at a point is this tensor's at `where(point)`."""
        return Value(tuple(shape), self.dtype, lambda point: self.element(tuple(where(point))), self.constant)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor of the program, or the part of one that lies at leading indices.

    One that is `narrow` has no axes of size 1 in the program: only those in `stored`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    lead: Point = ()
    narrow: bool = False

    @property
    def stored(self) -> tuple[int, ...]:
        return tuple(size for size in self.shape if size > 1) if self.narrow else self.shape

    def at(self, point: Sequence[Index]) -> Access:
        return Access(self.name, tuple(expression(index) for index in (*self.lead, *self.kept(point))))

    def part(self, *lead: Index) -> "Buffer":
        """The part at more leading indices."""
        return Buffer(self.name, self.shape[len(lead) :], self.dtype, (*self.lead, *self.kept(lead)), self.narrow)

    def kept(self, point: Sequence[Index]) -> Point:
        """The indices of the axes that are stored, of those at the front."""
        return tuple(index for index, size in zip(point, self.shape, strict=False) if size > 1 or not self.narrow)

    @property
    def value(self) -> Value:
        return Value(self.shape, self.dtype, self.at)


def literal(value: Scalar, dtype: DType) -> Expr:
    """A literal that reads as `dtype` does: 2 as `2.0` in a float context; booleans are `cast(bool,0)` and `1`."""
    if dtype == "bool":
        return Cast("bool", Integer(int(bool(value))))
    if dtype in FLOATS:
        number = float(value)
        return Real(number) if number > 0 or str(number) == "0.0" else Unary("-", Real(-number))
    return Integer(int(value)) if value >= 0 else Unary("-", Integer(-int(value)))


def constant(value: Scalar, shape: Sequence[int], dtype: DType) -> Value:
    """A tensor whose elements all are one number, which is not NaN: LEIR has no literal for it.

    To integers a number is cut off, and wraps around; to booleans it is whether it is nonzero.
    """
    if dtype == "bool":
        value = bool(value)
    elif dtype in INTEGERS and isfinite(value):
        half = 1 << (BITS[dtype] - 1)
        value = (int(value) + half) % (2 * half) - half
    return Value(tuple(shape), dtype, lambda _: literal(value, dtype), value)


def stretched(point: Sequence[Index], shape: Sequence[int]) -> Point:
    """The point that a tensor of `shape` is read at where broadcasting reads the result at `point`.

    ATen's rule: axes are matched from the last, and an axis of size 1 is read at 0.
    """
    own = point[len(point) - len(shape) :]
    return tuple(Index() if size == 1 else index for size, index in zip(shape, own, strict=True))


def broadcast(value: Value, shape: Sequence[int]) -> Value:
    """The value as a tensor of `shape`."""
    return value.view(shape, lambda point: stretched(point, value.shape))
