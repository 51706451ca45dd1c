"""Reads at positions that an integer tensor holds.

A position that is an input is a precondition of the program. One that the program computes is clamped into range, or
wrapped into it where positions below 0 count from the end. Neither changes anything where PyTorch accepts the position,
and both let the bound be proved.
"""

from collections.abc import Callable, Sequence

from leir.syntax import Access, Binary, Call, Expr, Integer, Variable
from stepTP.frontend.emitter import Emitter, axes, converted
from stepTP.frontend.indices import Index, Leaf
from stepTP.frontend.ops.shape import view
from stepTP.frontend.table import emits
from stepTP.frontend.values import Point, Value, literal, stretched


def position(e: Emitter, positions: Value, point: Point, size: int, from_end: bool = False) -> Index:
    """The position at a point, as an index of an axis of `size`; `from_end`: those below 0 count from its end."""
    element = positions.element(point)
    if isinstance(element, Access) and element.tensor in e.inputs:
        wraps = from_end and element.tensor in e.with_negatives
    elif isinstance(element, Access):
        wraps = from_end
        if not wraps:
            element = Call("max", (Call("min", (element, Integer(size - 1))), Integer(0)))
    else:
        wraps = from_end and _may_be_negative(element)
    if wraps:
        element = Binary("%", Binary("+", element, Integer(size)), Integer(size))
    return Index(((Leaf(element, 0, size - 1), 1),))


def _may_be_negative(element: Expr) -> bool:
    """Whether an expression may be below 0: sums and products of loop variables and numbers, as `arange` gives, are not
    where nothing is taken away."""
    match element:
        case Integer() | Variable():
            return False
        case Binary("+" | "*" | "//" | "%", left, right):
            return _may_be_negative(left) or _may_be_negative(right)
        case _:
            return True


@emits("embedding")
def embedding(
    e: Emitter, weight: Value, positions: Value, padding_idx: int = -1, scale_grad: bool = False, sparse: bool = False
) -> Value:
    rank = len(positions.shape)
    return e.fill(e.result(), lambda p: weight.element((position(e, positions, p[:rank], weight.shape[0]), *p[rank:])))


@emits("embedding_bag.padding_idx", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    e: Emitter, weight: Value, positions: Value, starts: Value, scale_grad: bool = False, mode: int = 0,
    sparse: bool = False, factors: Value | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> list[Value]:  # fmt: skip
    """Sum, mean (mode 1) or maximum (mode 2) of the rows in bags of one size, as positions in two axes give them."""
    bags = e.shape(0)[0]
    size = positions.shape[0] // bags
    if [starts.element((Index((), bag),)) for bag in range(bags)] != [Integer(bag * size) for bag in range(bags)]:
        e.refuse("bags whose bounds are data")
    if padding_idx not in (None, -1):
        e.refuse("bags that leave a position out")
    into = e.temporary(e.shape(0), e.accumulator()) if mode == 1 else e.result(0, e.accumulator())
    weight = converted(weight, into.dtype)
    point, (within,) = axes(into.shape, (size,))
    place = (point[0] * size + within,)
    term = weight.element((position(e, positions, place, weight.shape[0]), point[1]))
    if factors is not None:
        term = Binary("*", term, converted(factors, into.dtype).element(place))
    e.assign(into.at(point), "max=" if mode == 2 else "+=", term, point, (within,))
    if mode == 1:
        return [e.fill(e.result(0), lambda at: Binary("/", into.at(at), literal(size, into.dtype)))]
    return [e.settled(into, 0)]


@emits("index_select")
def index_select(e: Emitter, x: Value, dim: int, positions: Value) -> Value:
    if not x.shape:
        return view(e, x, e.shape())
    axis = dim % len(x.shape)
    return e.fill(
        e.result(),
        lambda p: x.element((*p[:axis], position(e, positions, p[axis : axis + 1], x.shape[axis]), *p[axis + 1 :])),
    )


@emits("gather")
def gather(e: Emitter, x: Value, dim: int, positions: Value, *, sparse_grad: bool = False) -> Value:
    if not x.shape:
        return view(e, x, e.shape())
    axis = dim % len(x.shape)
    return e.fill(
        e.result(), lambda p: x.element((*p[:axis], position(e, positions, p, x.shape[axis]), *p[axis + 1 :]))
    )


@emits("index.Tensor")
def index_tensor(e: Emitter, x: Value, indices: Sequence[Value | None]) -> Value:
    """Advanced indexing: the index tensors broadcast together; their axes stand where the first of them was, or first
    where a plain axis lies between them."""
    where = indexed(e, x.shape, indices)
    return e.fill(e.result(), lambda point: x.element(where(point)))


def indexed(e: Emitter, shape: Sequence[int], indices: Sequence[Value | None]) -> Callable[[Point], Point]:
    """Which element of a tensor of `shape` each point of it, indexed by these tensors, is."""
    given = [axis for axis, index in enumerate(indices) if index is not None]
    together = given == list(range(given[0], given[-1] + 1))
    rank = max(len(index.shape) for index in indices if index is not None)
    start = given[0] if together else 0

    def where(point: Point) -> Point:
        common, rest = point[start : start + rank], iter((*point[:start], *point[start + rank :]))
        source: list[Index] = []
        for axis, size in enumerate(shape):
            positions = indices[axis] if axis < len(indices) else None
            own = None if positions is None else position(e, positions, stretched(common, positions.shape), size, True)
            source.append(next(rest) if own is None else own)
        return tuple(source)

    return where
