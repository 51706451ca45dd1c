"""Convolution of 3 x 3 with padding 1: tiles of the input with their halo, and of the weights, in shared memory.

From the nest as the front end writes it, without a bias: a block takes a tile of output channels, rows and columns of
one image; a thread some channels of some neighbouring columns, in registers. The input channels are cut in chunks, and
for each the block stages its part of the input, one element more on every side, and of the weights.

Where the source pads its image by a nest of its own, the staged part holds the zeros, and no product has a condition:
that nest moves into the copy. Where the convolution leaves out what is outside, each product keeps the guard.
"""

from leir.edit import perfect_nest, statement_at
from leir.syntax import Guard, Path
from schedules.trajectory import Trajectory

LANES = 4


def trajectory(
    batch: int,
    out: int,
    rows: int,
    columns: int,
    channels: int,
    block: tuple[int, int, int] = (64, 4, 28),
    thread: tuple[int, int] = (8, 4),
    chunk: int = 8,
    pad: int = 4,
    padded: int = 0,
    unrolled: int = 0,
) -> Trajectory:
    """The trajectory for A of batch x channels x rows x columns, and C of out x channels x 3 x 3.

    `block`: output channels, rows and columns of a block's tile; `thread`: channels and columns of a thread's, which
    divide them; `chunk`: input channels that are staged at a time; `pad`: elements that a staged row of weights is
    longer than it must be. Tiles need not divide the sizes. `padded` (1): the source pads the image by zeros first, as
    `pad` before a convolution without padding does; else the convolution leaves out what is outside.
    `unrolled` (1): the copies of a stage are written out, so that their loads are under way together.
    """
    t = Trajectory(source(batch, out, rows, columns, channels, padded))
    tile(t, (padded,), tuple("ijklmno"), ("D", "E" if padded else "A", "C"), block, thread, chunk, pad, unrolled)
    if padded:  # what is staged is the image or 0: no padded image is stored, and no term is left out
        t.take("compute_inline", tensor="E")
    return t


def source(batch: int, out: int, rows: int, columns: int, channels: int, padded: int) -> str:
    """The plain program, as the front end writes it."""
    declared = (
        f"in A_{{{batch},{channels},{rows},{columns}}},C_{{{out},{channels},3,3}};"
        f"out D_{{{batch},{out},{rows},{columns}}};"
    )
    loops = f"L^{{{batch},{out},{rows},{columns},{channels},3,3}}_{{i,j,k,l,m,n,o}}"
    if not padded:
        inside = f"(0<=k+n-1&&k+n-1<{rows}&&0<=l+o-1&&l+o-1<{columns})"
        return f"{declared}{loops}{inside}[D_{{i,j,k,l}}+=A_{{i,m,k+n-1,l+o-1}}*C_{{j,m,n,o}};]"
    return (
        f"{declared}L^{{{batch},{channels},{rows + 2},{columns + 2}}}_{{i,j,k,l}}[E_{{i,j,k,l}}="
        f"if_then_else(0<=k-1&&k-1<{rows}&&0<=l-1&&l-1<{columns},A_{{i,j,k-1,l-1}},0.0);]"
        f"{loops}[D_{{i,j,k,l}}+=E_{{i,m,k+n,l+o}}*C_{{j,m,n,o}};]"
    )


def tile(
    t: Trajectory,
    root: Path,
    loops: tuple[str, ...],
    names: tuple[str, str, str],
    block: tuple[int, int, int],
    thread: tuple[int, int],
    chunk: int = 8,
    pad: int = 4,
    unrolled: int = 0,
) -> None:
    """Tiles the nest of a convolution at `root`, whatever its tensors are called: one kernel.

    `loops`: of images, output channels, rows, columns, input channels, and rows and columns of the weights; `names`: of
    the result, the input and the weights. The others are as for `trajectory`.
    """
    i, j, k, column, m, n, o = loops
    result, image, weights_name = names

    # Only a guard of the elements themselves says of a row in registers which of them there are.
    has_guard = any(isinstance(level, Guard) for _, level in perfect_nest(statement_at(t.program, root)))
    keeps_rows = has_guard or t.extent(root, column) % block[2] == 0

    # Blocks, threads, registers: channels j are j, tj, u; rows k are k, tk; columns l are l, tl, v.
    tj, tk, tl = (t.tile(root, name, size) for name, size in zip((j, k, column), block, strict=True))
    u, v = t.split(root, tj, thread[0]), t.split(root, tl, thread[1])
    blocks = [name for name, inner in ((i, ""), (j, tj), (k, tk), (column, tl)) if name != inner]
    t.order(root, *blocks, tk, tj, tl, u, v)
    for _ in blocks[3:]:  # a grid has three axes
        t.take("loop_fusion", path=t.nest(root)[blocks[-2]])
    grid = list(t.nest(root))[: min(3, len(blocks))]
    t.bind(root, **dict(zip(("bz", "by", "bx"), grid, strict=False)))
    t.bind(root, tz=tk, ty=tj, tx=tl)
    threads = {"tz": block[1], "ty": block[0] // thread[0], "tx": block[2] // thread[1]}

    # Accumulators in registers.
    _, stored, work = t.stage(t.nest(root)["tz"], result, "l", "write")

    # Input channels in chunks, outside the threads; within a chunk, channel by channel and row by row of the weights.
    p = t.tile(work, m, chunk)
    t.order(work, *([] if p == m else [m]), "tz", "ty", "tx", p, n, o, u, v)
    users = work if p == m else (*work, 0)

    # The block's parts of the input and the weights in shared memory, copied by all of its threads.
    halo, copy, users = t.stage(users, image, "s")
    t.spread(copy, **threads)
    if unrolled:
        t.unroll_below(copy)
    weights, copy, users = t.stage(users, weights_name, "s")
    t.spread(copy, **threads)
    if unrolled:
        t.unroll_below(copy)
    for axis in range(3):  # the output channels of a thread lie side by side
        t.take("set_storage_layout", tensor=weights, op="swap", axis=axis, by=axis + 1)
    if pad:
        t.take("set_storage_layout", tensor=weights, op="pad", axis=3, by=pad)

    # Each thread's columns for a row of the weights, and its channels' weights at a place, in registers.
    row = t.nest(users)[n]
    if keeps_rows:
        _, _, places = t.stage(t.nest(users)[o], halo, "l")
    else:
        places = t.nest(users)[o]
    _, load, _ = t.stage((*places, 0), weights, "l")
    t.vectorise(load, LANES)
    t.unroll_below(row)
    t.vectorise(stored, LANES)
    t.unroll_below(t.nest(stored)["tx"])
