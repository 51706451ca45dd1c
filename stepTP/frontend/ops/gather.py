"""Reads at positions that an integer tensor holds.

A position that is an input is a precondition of the program. One that the program computes is clamped into range,
which changes nothing where PyTorch accepts it, so that the bound can be proved.
"""

from collections.abc import Callable, Sequence

from leir.syntax import Access, Binary, Call, Integer
from stepTP.frontend.emitter import Emitter
from stepTP.frontend.indices import Index, Leaf
from stepTP.frontend.ops.shape import view
from stepTP.frontend.table import emits
from stepTP.frontend.values import Point, Value, stretched


def position(e: Emitter, positions: Value, point: Point, size: int, from_end: bool = False) -> Index:
    """The position at a point, as an index of an axis of `size`; `from_end`: inputs below 0 count from its end."""
    element = positions.element(point)
    if from_end and isinstance(element, Access) and element.tensor in e.with_negatives:
        element = Binary("%", Binary("+", element, Integer(size)), Integer(size))
    computed = isinstance(element, Access) and element.tensor not in e.inputs
    if computed:
        element = Call("max", (Call("min", (element, Integer(size - 1))), Integer(0)))
    return Index(((Leaf(element, 0, size - 1), 1),))


@emits("embedding")
def embedding(
    e: Emitter, weight: Value, positions: Value, padding_idx: int = -1, scale_grad: bool = False, sparse: bool = False
) -> Value:
    rank = len(positions.shape)
    return e.fill(e.result(), lambda p: weight.element((position(e, positions, p[:rank], weight.shape[0]), *p[rank:])))


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
