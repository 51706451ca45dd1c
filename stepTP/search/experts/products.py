"""Matrix products, batched or not, with operands in any order: the schedule of `schedules.matmul`, several tilings."""

from collections.abc import Iterator

from leir.syntax import Access
from schedules.matmul import tile
from schedules.trajectory import Trajectory
from stepTP.search.experts.nests import Nest, Product, as_product, subscripts
from stepTP.search.experts.rule import Rule

# Rows, columns and depth of a block, rows and columns of a thread: large ones reuse more, small ones fill the device.
_TILES = (
    ((64, 128, 16), (8, 8)),
    ((128, 128, 16), (8, 8)),
    ((64, 64, 16), (4, 4)),
    ((128, 64, 16), (8, 4)),
    ((32, 64, 16), (4, 4)),
    ((16, 32, 8), (4, 4)),
)
_BLOCKS = 132  # that a device should have at least


def rules(nest: Nest) -> Iterator[Rule]:
    """The tilings that fit, those first that give the device enough blocks."""
    product = as_product(nest)
    if product is None:
        return
    extents = nest.extents
    sizes = [extents[name] for name in (product.rows, product.columns, product.depth)]
    fitting = [tiles for tiles in _TILES if all(size > edge for size, edge in zip(sizes, tiles[0], strict=True))]
    for block, thread in sorted(fitting, key=lambda tiles: -min(_BLOCKS, _blocks(nest, product, tiles[0]))):
        yield Rule(
            f"product {'x'.join(map(str, block))}, {thread[0]}x{thread[1]} a thread",
            lambda t, n, block=block, thread=thread: _tiled(t, n, product, block, thread),
        )


def _blocks(nest: Nest, product: Product, block: tuple[int, int, int]) -> int:
    extents, count = nest.extents, 1
    for name in product.batch:
        count *= extents[name]
    return count * -(-extents[product.rows] // block[0]) * -(-extents[product.columns] // block[1])


def _tiled(t: Trajectory, number: int, product: Product, block: tuple[int, int, int], thread: tuple[int, int]) -> None:
    tile(
        t,
        (number,),
        (product.rows, product.columns, product.depth),
        (product.left.tensor, product.right.tensor),
        block,
        thread,
        batch=product.batch,
        along=(_runs_along(product.left, product.depth), _runs_along(product.right, product.depth)),
    )


def _runs_along(operand: Access, variable: str) -> bool:
    """Whether neighbours in memory are neighbours of a loop."""
    return (subscripts(operand) or ("",))[-1] == variable
