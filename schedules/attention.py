"""Attention: a block of queries at a time, blocks of keys and values in shared memory, the result in registers.

From scores, softmax and the product with the values as five nests: keys are cut into blocks, and one pass over the
blocks takes the place of the nests (flashattention_wo_tiling). Its row loop is cut into the queries of a block, and its
body into phases that each run over all of them: scores; the new maximum of each row and the factor that rescales it;
weights; their sum; the product with the values. Scores and result are tiles of registers; queries, keys, values and
weights are staged in shared memory.
"""

from leir.analysis.access import tensors
from leir.edit import enclosing, perfect_nest, statement_at, statements_at, walk
from leir.syntax import Alloc, Loop, Path
from schedules.trajectory import Trajectory

LANES = 4


def trajectory(
    heads: int,
    queries: int,
    keys: int,
    width: int,
    rows: int = 64,
    columns: int = 32,
    thread: tuple[int, int] = (4, 4),
    depth: int = 16,
    chunk: int = 0,
    causal: int = 0,
    dtype: str = "f32",
) -> Trajectory:
    """The trajectory for queries of heads x queries x width, keys and values of heads x keys x width.

    `rows` of queries and `columns` of keys are a block's; `thread`: how many of each a thread takes, which divide them.
    Causal (1): a query sees the keys up to its own number. `dtype`: of inputs and output; what is computed is in f32.
    """
    t = Trajectory(source(heads, queries, keys, width, causal, dtype))
    product = product_nest(t)

    # One pass over blocks of keys for each query, a block of queries a block of the grid.
    t.split(product, "j", columns)
    t.take("flashattention_wo_tiling", path=product, block=1)
    names = [node.tensor for _, node in walk(t.program) if isinstance(node, Alloc) and node.scope == "l"]
    largest, total, result, score, highest, new, factor, added, dot = names
    if dtype != "f32":
        _narrow_last(t)
    t.split((0,), "i", rows)
    t.bind((0,), by="z", bx="i")

    # What a row keeps gets an element for each row, so that each phase can run over all rows.
    for name in (largest, total, result, score, new, factor, dot):
        t.take("set_storage_scope", tensor=name, scope="g")
    block = (*t.writers(dot)[0][:1], 0)
    for number, at in enumerate((2, 1, 1)):  # maximum and sum | result | pass | division
        _cut(t, (*block, number), at)
    passed = (*block, 2)
    t.order(passed, "j")
    _phases(t, (*passed, 0))

    # Each thread's rows, and its keys or columns of the result; its part of both sums in registers.
    grid = {"ty": rows // thread[0], "tx": columns // thread[1]}
    lanes = min(LANES, width // grid["tx"])
    for name in (dot, score, largest, total, new, factor):
        t.take("set_storage_scope", tensor=name, scope="s")
    for path in (*t.writers(dot), t.writers(score)[0]):
        _tile(t, _phase(t, path), "l", thread[0], grid["tx"], 1)
    _keep(t, dot, thread[0], grid["tx"], 1)
    t.take("set_storage_scope", tensor=result, scope="s")
    for path in (*t.writers(result), t.writers("E")[0]):
        _tile(t, _phase(t, path), "k", thread[0], grid["tx"], lanes)
    _keep(t, result, thread[0], grid["tx"], lanes)

    # The other phases, a row or a weight a thread.
    for path in (t.writers(total)[0], t.writers(new)[0], t.writers(total)[1]):
        t.spread(_phase(t, path), loops=1, **grid)
    weights = _phase(t, t.writers(score)[1])
    t.order(weights, "l", "n")
    t.spread(weights, loops=2, **grid)

    # Operands in shared memory: queries once, or in parts with the keys; weights by keys, as a thread's rows need them.
    t.take("set_storage_layout", tensor=score, op="swap", axis=0, by=1)
    t.take("set_storage_layout", tensor=score, op="pad", axis=1, by=LANES)
    users = _phase(t, t.writers(result)[2])
    values, _ = _staged(t, _in_parts(t, users, "l", chunk), "D", grid, 0)
    users = _phase(t, t.writers(dot)[1])
    keyed, users = _staged(t, _in_parts(t, users, "m", chunk), "C", grid, 1)
    if not chunk:
        users = t.writers(dot)[1][: len(block) + 1]
    asked, _ = _staged(t, users, "A", grid, LANES)

    # The operands of a step in registers, and the loops of a tile written out.
    for sum_, operands in ((dot, (asked, keyed)), (result, (score, values))):
        root = _threads(t, t.writers(sum_)[-1])
        part = t.tile(root, list(t.nest(root))[2], depth)
        inner = (*t.nest(root)[part], 0)
        for tensor in operands:
            _, load, inner = t.stage(inner, tensor, "l")
            if tensor != keyed:  # a thread's keys are as far apart as there are threads
                t.vectorise(load, LANES)
        t.unroll_below(t.nest(root)[part])
    t.vectorise(_threads(t, t.writers("E")[0]), LANES)
    sums = (t.writers(dot)[-1], t.writers(result)[-1])
    for tensor in (largest, result, dot, score, highest, added, "E"):
        for path in t.writers(tensor):
            if path not in sums:
                t.unroll_below((*_threads(t, path), 0, 0))
    return t


def product_nest(t: Trajectory) -> Path:
    """The nest of the plain program that multiplies weights and values."""
    return list(t.places(()))[5]


def _phase(t: Trajectory, path: Path) -> Path:
    """The nest over rows that holds an equation: below the block, or below its loop over blocks of keys."""
    depth = next(
        number for number, (_, n) in enumerate(enclosing(t.program, path)) if isinstance(n, Loop) and n.kind == "L"
    )
    first = statement_at(t.program, path[: depth + 1])
    return path[: depth + 2] if isinstance(first, Loop) and first.variable == "j" else path[: depth + 1]


def _threads(t: Trajectory, path: Path) -> Path:
    """The outermost loop over threads around an equation."""
    return next(
        p for p, n in enclosing(t.program, path) if isinstance(n, Loop) and n.variable[0] == "t" and n.kind == "B"
    )


def _in_parts(t: Trajectory, root: Path, variable: str, size: int) -> Path:
    """Cuts a reduction of the threads in parts, one after the other outside of them, and gives the nest of a part."""
    if not size or t.extent(root, variable) <= size:
        return root
    part = t.split(root, variable, size)
    t.order(root, variable, "ty", "tx", part)
    return (*root, 0)


def _staged(t: Trajectory, users: Path, tensor: str, grid: dict[str, int], pad: int) -> tuple[str, Path]:
    """Stages what a nest reads of a tensor in shared memory; the new tensor, and the nest's path.

    With a pad, rows become columns, longer by the pad.
    """
    name, copy, users = t.stage(users, tensor, "s")
    whole = list(t.nest(copy))[-1]
    lanes = t.tile(copy, whole, LANES)
    t.spread(copy, loops=1 if lanes == whole else 2, **grid)
    if pad:  # a vector from memory to registers, from where its values go to as many rows
        _, load, store = t.stage(t.nest(copy)[lanes], tensor, "l")
        t.take("loop_vectorization", path=load, kind="vectorised")
        t.unroll_below(store)
    else:
        t.take("loop_vectorization", path=t.nest(copy)[lanes], kind="vectorised")
    t.unroll_below(copy)
    if pad:
        t.take("set_storage_layout", tensor=name, op="swap", axis=0, by=1)
        t.take("set_storage_layout", tensor=name, op="pad", axis=1, by=pad)
    return name, users


def _tile(t: Trajectory, root: Path, column: str, rows: int, across: int, lanes: int) -> None:
    """Binds rows and columns of a nest to threads: a thread has `rows` next to each other, and columns in groups of
    `lanes`, as far apart as `across` threads need. The loops of the tile are the innermost."""
    others = [name for name in t.nest(root) if name not in ("n", column)]
    inner = t.split(root, "n", rows)
    tx = t.tile(root, column, lanes * across)
    groups = [column] if tx != column else []
    lane = [t.split(root, tx, lanes)] if lanes > 1 else []
    t.order(root, "n", tx, *others, inner, *groups, *lane)
    t.bind(root, ty="n", tx=tx)


def _keep(t: Trajectory, tensor: str, rows: int, across: int, lanes: int) -> None:
    """Stores a tensor of rows x columns as `_tile` spreads it, the threads first, and moves it to registers."""
    t.take("set_storage_layout", tensor=tensor, op="split", axis=0, by=rows)
    axis = 2
    if tensors(t.program)[tensor].shape[axis] > lanes * across:
        t.take("set_storage_layout", tensor=tensor, op="split", axis=axis, by=lanes * across)
        axis += 1
    if lanes > 1:
        t.take("set_storage_layout", tensor=tensor, op="split", axis=axis, by=lanes)
    t.take("set_storage_layout", tensor=tensor, op="swap", axis=1, by=axis)
    t.take("set_storage_scope", tensor=tensor, scope="l")


def _narrow_last(t: Trajectory) -> None:
    """The result goes to the narrower output as soon as it is divided, without a tensor of its own."""
    first, _ = t.places(())
    t.take("operator_fusion", path=first, depth=2)
    *inside, last = t.writers("E")[0][:-1]
    t.take("operator_fusion", path=(*inside, last - 1), depth=1)
    t.take("compute_inline", tensor="K")


def _phases(t: Trajectory, path: Path) -> None:
    """Cuts the work on a block of keys into phases, each a nest over the rows."""
    inside = (*path, *(0 for _ in range(_levels(t, path) - 1)))
    last = len(statements_at(t.program, inside)) - 1
    for number in (last - 1, last - 2):  # the new maximum is kept ahead of what the result needs
        t.take("expression_reorder", path=(*inside, number))
    # scores | new maximum and factor | weights | sum, maximum | rescaling | product
    for number, at in enumerate((1, 3, 1, 3, 1)):
        _cut(t, (*path[:-1], path[-1] + number), at)
    for number in range(2):  # start, sum and scaling of a score
        _cut(t, (*path[:-1], path[-1] + number), 1)


def _levels(t: Trajectory, path: Path) -> int:
    """How many levels a nest has above its first list of several statements."""
    return len(perfect_nest(statement_at(t.program, path), path))


def _cut(t: Trajectory, path: Path, at: int) -> None:
    """Cuts the nest at a path in two: its first list of several statements after `at` of them, declarations aside."""
    depth = _levels(t, path)
    inside = (*path, *(0 for _ in range(depth - 1)))
    number = [place[-1] for place in t.places(inside)][at]
    t.take("operator_fission", path=path, depth=depth, at=number)


def source(heads: int, queries: int, keys: int, width: int, causal: int, dtype: str) -> str:
    """The plain program, as the front end writes it."""
    scale = f"F_{{z,i,j}}*{width**-0.5!r}"
    scaled = f"if_then_else(j<=i,{scale},-inf)" if causal else scale
    kind = "" if dtype == "f32" else f"^{{{dtype}}}"
    pairs = f"L^{{{heads},{queries},{keys}}}_{{z,i,j}}"
    scores, results = f"{heads},{queries},{keys}", f"{heads},{queries},{width}"
    declared = (
        ""
        if dtype == "f32"
        else "".join(
            f"{name}^{{f32,g}}_{{{size}}};"
            for name, size in (
                ("F", scores),
                ("G", scores),
                ("H", f"{heads},{queries}"),
                ("I", f"{heads},{queries}"),
                ("J", scores),
                ("K", results),
            )
        )
    )
    out = "E" if dtype == "f32" else "K"
    return (
        f"in A{kind}_{{{results}}},C{kind}_{{{heads},{keys},{width}}},D{kind}_{{{heads},{keys},{width}}};"
        f"out E{kind}_{{{results}}};{declared}"
        f"L^{{{scores},{width}}}_{{z,i,j,k}}[F_{{z,i,j}}+=A_{{z,i,k}}*C_{{z,j,k}};]"
        f"{pairs}[G_{{z,i,j}}={scaled};]{pairs}[H_{{z,i}} max=G_{{z,i,j}};]"
        f"{pairs}[I_{{z,i}}+=exp(G_{{z,i,j}}-H_{{z,i}});]{pairs}[J_{{z,i,j}}=exp(G_{{z,i,j}}-H_{{z,i}})/I_{{z,i}};]"
        f"L^{{{results},{keys}}}_{{z,i,k,j}}[{out}_{{z,i,k}}+=J_{{z,i,j}}*D_{{z,j,k}};]"
        + ("" if dtype == "f32" else f"L^{{{results}}}_{{z,i,k}}[E_{{z,i,k}}=K_{{z,i,k}};]")
    )
