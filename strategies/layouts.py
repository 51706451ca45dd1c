"""Layouts: where an element of a tensor is stored. What `set_storage_layout` and `layout_transformation` share."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from leir.analysis.affine import Interval, constant
from leir.analysis.box import as_expression, as_sum, quotient_and_remainder
from leir.edit import accesses, map_expression, map_statement, walk
from leir.syntax import Access, Alloc, Binary, Equation, Expr, Guard, Integer, Loop, Program, Stmt
from strategies.base import counted
from strategies.grid import Grid

T = TypeVar("T")
Op = Literal["swap", "split", "merge", "pad"]
StorageOp = Literal["swap", "split", "merge", "pad", "fold"]


@dataclass(frozen=True, slots=True)
class Layout:
    """One change of a layout of the given shape.

    `swap`: dimensions `axis` and `by` change places. `split`: dimension `axis` becomes two, of blocks and of `by`
    elements in each. `merge`: dimensions `axis` and `axis`+1, of which the second has `by` elements, become one. `pad`:
    dimension `axis` grows by `by` elements that nobody uses, or loses them where `by` is negative. `fold`: elements of
    dimension `axis` that are `by` apart share a place, and with one place the dimension goes.
    """

    op: StorageOp
    axis: int
    by: int
    shape: tuple[int, ...]

    def why_not(self) -> str:
        """Why the change makes no sense for the shape; empty where it does."""
        rank = len(self.shape)
        last = self.axis + 1 if self.op == "merge" else max(self.axis, self.by) if self.op == "swap" else self.axis
        if self.axis < 0 or last >= rank or (self.op == "swap" and self.by < 0):
            return f"{self.op} of {self.axis} and {self.by} in {rank} dimensions"
        size = self.shape[self.axis]
        if self.op == "swap" and self.axis == self.by:
            return f"dimension {self.axis} would change places with itself"
        if self.op == "split" and not 2 <= self.by < size:
            return f"dimension {self.axis} has {counted(size, 'element')}: blocks of {self.by} do not cut it"
        if self.op == "merge" and self.by != self.shape[self.axis + 1]:
            return f"dimension {self.axis + 1} has {counted(self.shape[self.axis + 1], 'element')}, not {self.by}"
        if self.op == "pad" and (not self.by or size + self.by < 1):
            return f"dimension {self.axis} of {counted(size, 'element')} cannot change by {self.by}"
        if self.op == "fold" and not 1 <= self.by < size:
            return f"dimension {self.axis} of {counted(size, 'element')} does not fold onto {self.by}"
        return ""

    def new_shape(self) -> tuple[int, ...]:
        """The shape after the change."""
        before, size, after = self.shape[: self.axis], self.shape[self.axis], self.shape[self.axis + 1 :]
        match self.op:
            case "swap":
                return swapped(self.shape, self.axis, self.by)
            case "split":
                return (*before, -(-size // self.by), self.by, *after)
            case "merge":
                return (*before, size * self.by, *after[1:])
            case "pad":
                return (*before, size + self.by, *after)
            case "fold":
                return (*before, *([self.by] if self.by > 1 else []), *after)

    def moved(self, indices: tuple[Expr, ...], ranges: dict[str, Interval]) -> tuple[Expr, ...]:
        """The subscripts of an element after the change. `ranges`: where the loop variables go."""
        before, index, after = indices[: self.axis], indices[self.axis], indices[self.axis + 1 :]
        match self.op:
            case "swap":
                return swapped(indices, self.axis, self.by)
            case "split":
                return (*before, *quotient_and_remainder(index, self.by, ranges), *after)
            case "merge":
                return (*before, joined(index, after[0], self.by), *after[1:])
            case "pad":
                return indices
            case "fold":
                return (*before, *([folded(index, self.by)] if self.by > 1 else []), *after)

    def keeps_addresses(self) -> bool:
        """Whether every element lies as many elements after the first one as before: only subscripts differ."""
        size = self.shape[self.axis]
        is_outermost = all(extent == 1 for extent in self.shape[: self.axis])
        match self.op:
            case "swap":
                numbers = [number for number, extent in enumerate(self.shape) if extent > 1]
                order = swapped(tuple(range(len(self.shape))), self.axis, self.by)
                return [number for number in order if self.shape[number] > 1] == numbers
            case "split":
                return is_outermost or size % self.by == 0
            case "merge":
                return True
            case "pad":
                return is_outermost
            case "fold":
                return False

    def map_text(self) -> str:
        """How the subscripts of an element change, in words."""
        match self.op:
            case "swap":
                return f"dimensions {self.axis} and {self.by} change places"
            case "split":
                return (
                    f"subscript e of dimension {self.axis} becomes e//{self.by} and e%{self.by}, "
                    "and no other becomes that"
                )
            case "merge":
                return f"subscripts e and f of dimensions {self.axis} and {self.axis + 1} become one, e*{self.by}+f"
            case "pad":
                return f"dimension {self.axis} goes from {self.shape[self.axis]} to {self.shape[self.axis] + self.by}"
            case "fold":
                places = "one place" if self.by == 1 else f"{self.by} places, e at e%{self.by}"
                return f"the {self.shape[self.axis]} elements of dimension {self.axis} take turns at {places}"

    def fit_text(self) -> str:
        """Why the change makes sense for the shape, as evidence; `why_not` is empty."""
        size = self.shape[self.axis]
        match self.op:
            case "swap":
                other = self.shape[self.by]
                return f"dimensions {self.axis} and {self.by} have {size} and {other} elements, in either order"
            case "split":
                blocks, rest = divmod(size, self.by)
                if not rest:
                    return f"{size} = {blocks}*{self.by}, so each subscript of dimension {self.axis} has one place"
                return (
                    f"{size} is between {blocks}*{self.by} and {blocks + 1}*{self.by}, so each subscript of dimension "
                    f"{self.axis} has one place and the last block has room to spare"
                )
            case "merge":
                whole = size * self.by
                return f"{size}*{self.by} = {whole}, so each pair of subscripts has one place of {whole}"
            case "pad":
                if self.by < 0:
                    return f"dimension {self.axis} has {counted(size, 'element')}, and {size + self.by} are left"
                return f"dimension {self.axis} has {counted(size, 'element')}, and each keeps its subscript"
            case "fold":
                return f"dimension {self.axis} has {counted(size, 'element')}, more than {self.by}"


def swapped(items: tuple[T, ...], one: int, other: int) -> tuple[T, ...]:
    """The items with two of them in each other's place."""
    order = list(range(len(items)))
    order[one], order[other] = other, one
    return tuple(items[number] for number in order)


def folded(index: Expr, size: int) -> Expr:
    """`index % size`, worked out where the index is constant."""
    value = constant(index)
    return Binary("%", index, Integer(size)) if value is None else Integer(value % size)


def folds_worth_trying(program: Program, tensor: str) -> Iterator[tuple[int, int]]:
    """The dimensions along which a tensor is written from an element not far behind, and how many are alive at once."""
    for _, node in walk(program):
        if not isinstance(node, Equation) or node.target.tensor != tensor:
            continue
        earlier = [a for a in accesses(node.value) if a.tensor == tensor]
        for axis, own in enumerate(node.target.indices):
            behind = {-as_sum(Binary("-", a.indices[axis], own)).constant for a in earlier if a.indices[axis] != own}
            if len(behind) == 1 and (distance := max(behind)) > 0:
                yield axis, distance
                yield axis, distance + 1


def joined(major: Expr, minor: Expr, size: int) -> Expr:
    """`major * size + minor`; what a split took apart comes together again."""
    match major, minor:
        case Binary("//", one, Integer(a)), Binary("%", other, Integer(b)) if one == other and a == b == size:
            return one
        case _:
            total = Binary("+", Binary("*", major, Integer(size)), minor)
            return as_expression(as_sum(total))


def with_layout(
    body: tuple[Stmt, ...], tensor: str, layout: Layout, new: str, ranges: dict[str, Interval]
) -> tuple[Stmt, ...]:
    """The statements with every access of a tensor as one of `new` in the new layout.

    `ranges`: where the variables of the loops around them go.
    """

    def visit(statement: Stmt) -> Stmt:
        match statement:
            case Loop(_, variable, extent, first, below):
                inner: dict[str, Interval] = {**ranges, variable: (first, first + extent - 1)}
                return replace(statement, body=with_layout(below, tensor, layout, new, inner))
            case Guard(condition, below):
                return Guard(map_expression(condition, moved), with_layout(below, tensor, layout, new, ranges))
            case Equation() | Alloc():
                return map_statement(statement, moved)

    def moved(expression: Expr) -> Expr:
        if isinstance(expression, Access) and expression.tensor == tensor:
            return Access(new, layout.moved(expression.indices, ranges))
        return expression

    return tuple(visit(statement) for statement in body)


def rewritten_alike(old: Sequence[Access], new: Sequence[Access]) -> tuple[Access, Access]:
    """The first access, with its new form, that is written alike wherever it stands; the first of all if none is."""
    pairs = list(dict.fromkeys(zip(old, new, strict=True)))
    times = Counter(access for access, _ in pairs)
    return next((pair for pair in pairs if times[pair[0]] == 1), pairs[0])


def layouts_worth_trying(shape: tuple[int, ...], grid: Grid) -> Iterator[tuple[Op, int, int]]:
    """Every swap of two dimensions, every split in blocks of the grid that divide, every merge, and pads of a row.

    Each as the op, the axis and `by` of a layout.
    """
    for axis, size in enumerate(shape):
        for other in range(axis + 1, len(shape)):
            yield "swap", axis, other
        for by in (block for block in grid.below(grid.blocks, size) if size % block == 0):
            yield "split", axis, by
        if axis + 1 < len(shape):
            yield "merge", axis, shape[axis + 1]
    if len(shape) > 1:
        for by in grid.pads:
            yield "pad", len(shape) - 1, by
