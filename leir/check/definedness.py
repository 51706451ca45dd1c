"""Every read finds its element written, and every output is written whole."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from leir.analysis.access import Tensor, tensors
from leir.analysis.affine import condition, interval
from leir.analysis.dataflow import free_dimensions
from leir.analysis.dependence import Touch, at, iteration
from leir.analysis.isl import Point, TooHard, a_set, bounded, conjunction, point_of, question
from leir.analysis.model import (
    Statement,
    common_loops,
    domain,
    fills_of,
    lifetimes,
    names_at,
    ranges_of,
    reach,
    statements_at,
    statements_of,
    subscripts,
)
from leir.check.diagnostic import Diagnostic
from leir.edit import tensors_in
from leir.printer import expression_text
from leir.syntax import Equation, Expr, Place, Program, Stmt, Variable


def check_definedness(program: Program, only: str | None = None) -> Iterator[Diagnostic]:
    """Reads of elements that nothing has written, and outputs with elements that nothing writes.

    `only`: the tensor that is asked about, if not all are.
    """
    known = tensors(program)
    life = lifetimes(program)
    wanted = [t for t in known.values() if t.role != "input" and only in (None, t.name)]
    touched: dict[str, list[Stmt]] = {tensor.name: [] for tensor in wanted}
    for nest in program.body:
        for name in tensors_in(nest):
            if name in touched:
                touched[name].append(nest)
    if all(_is_defined(_unplaced(t), life.get(t.name, 0), tuple(touched[t.name])) for t in wanted):
        return
    chosen = {tensor.name: tensor for tensor in wanted}
    yield from _undefined(statements_of(program), chosen, life)


@lru_cache(maxsize=4096)  # a step leaves what touches most tensors as it is
def _is_defined(tensor: Tensor, alive: int, nests: tuple[Stmt, ...]) -> bool:
    """Whether nothing is wrong with the reads of a tensor, and with it as an output.

    `nests`: the outermost statements that access it, in their order; `alive`: the loops around its declaration.
    """
    statements = [s for number, nest in enumerate(nests) for s in statements_at(nest, number)]
    return not any(True for _ in _undefined(statements, {tensor.name: tensor}, {tensor.name: alive}))


def _unplaced(tensor: Tensor) -> Tensor:
    """The tensor as it is wherever its declaration stands."""
    return replace(tensor, alloc=()) if tensor.alloc else tensor


def _undefined(
    statements: Sequence[Statement], known: Mapping[str, Tensor], life: Mapping[str, int]
) -> Iterator[Diagnostic]:
    """What is wrong with some tensors, by `statements`, which hold all their accesses; inputs are not among them."""
    filled = fills_of(statements)
    writes: dict[str, list[Touch]] = {}
    for statement in statements:
        if isinstance(statement.node, Equation):
            writes.setdefault(statement.node.target.tensor, []).append(Touch(statement, statement.uses[-1]))
    for statement in statements:
        for use in statement.uses:
            tensor = use.access.tensor
            if use.mode == "write" or tensor not in known:
                continue
            if tensor not in writes and known[tensor].alloc is None:  # an unknown name, or an output that has its own
                continue
            fill = filled.get(tensor)
            if use.mode == "update" and use.op == fill:
                continue
            read = _Read(Touch(statement, use), known[tensor], life.get(tensor, 0))
            if fill is not None and use.mode == "read":
                yield from read.find_anywhere(writes[tensor])
            else:
                yield from read.find_before(writes.get(tensor, []))
    for tensor in known.values():
        if tensor.role == "output":
            yield from _check_output(tensor.name, tensor.shape, writes.get(tensor.name, []))


class _Read:
    """A read in search of its writes. `alive` loops around both name the lifetime."""

    def __init__(self, touch: Touch, tensor: Tensor, alive: int) -> None:
        self.touch = touch
        self.tensor = tensor
        self.alive = alive

    def find_anywhere(self, writes: Sequence[Touch]) -> Iterator[Diagnostic]:
        """For a filled tensor: some statement writes the element in the same lifetime, before or after."""
        if any(_covers_at_a_glance(write, self.touch, self.alive, self.tensor, guards=False) for write in writes):
            return
        covers = [self.cover(write, self.alive, [], must=False) for write in writes]
        yield from self.uncovered(covers, "no equation writes it: a fill alone defines nothing")

    def find_before(self, writes: Sequence[Touch]) -> Iterator[Diagnostic]:
        """Some statement has written the element in the same lifetime, in every case."""
        reader = self.touch.statement
        common = {write.statement.path: common_loops(write.statement, reader) for write in writes}
        earlier = [write for write in reversed(writes) if write.statement.path < reader.path]
        for write in earlier:
            if _covers_at_a_glance(write, self.touch, common[write.statement.path], self.tensor, guards=True):
                return
        covers = [self.cover(write, common[write.statement.path], [], must=True) for write in earlier]
        carried = [
            self.cover(write, level, [f"y{level} < x{level}"], must=True)
            for write in reversed(writes)
            for level in range(common[write.statement.path] - 1, self.alive - 1, -1)
        ]
        yield from self.uncovered([*covers, *carried], "nothing has written it")

    def dimensions(self, shared: int) -> list[str]:
        free = free_dimensions(self.touch.statement, self.touch.use)
        return [*self.touch.statement.dimensions("x", shared), *free]

    def reads(self) -> str:
        """The instances that read, one for each index that an opaque subscript may take."""
        statement, use = self.touch
        limits = [f"0 <= {f} < {size}" for f, size in self.free_sizes()]
        return question(self.dimensions(0), [*reach(statement, use, "x"), *limits])

    def free_sizes(self) -> list[tuple[str, int]]:
        statement, use = self.touch
        texts = subscripts(use, statement.names("x"))
        sizes = [size for text, size in zip(texts, self.tensor.shape, strict=False) if text is None]
        return list(zip(free_dimensions(statement, use), sizes, strict=False))

    def cover(self, write: Touch, shared: int, extra: list[str], *, must: bool) -> str:
        """The reads whose element the write has written, in the same iteration of the `shared` loops."""
        statement, use = self.touch
        writer = write.statement
        guards = zip(writer.guards, statement.guards, strict=False)
        known = sum(1 for (a, _), (b, _) in guards if a == b and _loops_around(writer, a) <= shared)
        where = [*domain(writer, "y", shared, opaque=not must, known=known), *extra]
        where += [f"y{n} = x{n}" for n in range(shared, min(self.alive, len(writer.loops)))]
        free = iter(free_dimensions(statement, use))
        left = [next(free) if t is None else t for t in subscripts(use, statement.names("x", shared))]
        right = subscripts(write.use, writer.names("y", shared))
        where += [f"{a} = {b}" if b is not None else "false" for a, b in zip(left, right, strict=False)]
        own = writer.dimensions("y", shared)[shared:]
        return _projected(self.dimensions(shared), own, where)

    def uncovered(self, covers: Sequence[str], reason: str) -> Iterator[Diagnostic]:
        statement, use = self.touch
        text = expression_text(use.access)
        try:
            point = _ask(self.reads(), tuple(covers))
        except TooHard as limit:
            yield Diagnostic(
                "definedness-not-proven", f"{text}: too hard to say what has written it: {limit}", use.place
            )
            return
        if point is not None:
            when = at(iteration(statement, point))
            yield Diagnostic("read-before-write", f"{text} is read{when}, and {reason}", use.place)


def _loops_around(statement: Statement, path: tuple[int, ...]) -> int:
    return sum(1 for loop_path, _ in statement.loops if len(loop_path) < len(path))


def _projected(dimensions: Sequence[str], hidden: Sequence[str], where: Sequence[str]) -> str:
    return question(dimensions, [f"exists ({','.join(hidden)} : {conjunction(where)})"] if hidden else where)


@lru_cache(maxsize=20_000)
def _uncovered(reads: str, covers: tuple[str, ...]) -> Point | str | None:
    def ask() -> Point | None:
        left = a_set(reads)
        for cover in covers:
            if left.is_empty():
                return None
            left = left.subtract(a_set(cover))
        return point_of(left)

    try:
        return bounded(ask)
    except TooHard as limit:
        return str(limit)


def _ask(reads: str, covers: tuple[str, ...]) -> Point | None:
    """A point of `reads` outside all `covers`, or None. Raises TooHard."""
    answer = _uncovered(reads, covers)
    if isinstance(answer, str):
        raise TooHard(answer)
    return answer


def _covers_at_a_glance(write: Touch, read: Touch, shared: int, tensor: Tensor, *, guards: bool) -> bool:
    """Whether a write surely covers a read: no guards, each subscript a loop of its own that spans what is read.

    `guards`: False where guards that are not quasi-affine do not matter. Loops `shared` run the same iteration.
    """
    writer, reader = write.statement, read.statement
    if any(guards or condition(g.condition, names_at(writer, p, "y")) != "true" for p, g in writer.guards):
        return False
    if len(write.use.access.indices) != len(read.use.access.indices):
        return False
    numbers = {loop.variable: number for number, (_, loop) in enumerate(writer.loops)}
    used: list[int] = []
    for index, wanted, size in zip(write.use.access.indices, read.use.access.indices, tensor.shape, strict=False):
        if not isinstance(index, Variable) or index.name not in numbers or numbers[index.name] in used:
            return False
        number = numbers[index.name]
        used.append(number)
        loop = writer.loops[number][1]
        if number < shared:
            if wanted != index or _shadowed(reader, index.name, number):
                return False
            continue
        low, high = _span(read, wanted, size)
        if low < loop.first or high >= loop.first + loop.extent:
            return False
    return common_loops(writer, reader) >= shared


def _shadowed(statement: Statement, variable: str, number: int) -> bool:
    return statement.names("x").get(variable) != f"x{number}"


def _span(read: Touch, wanted: Expr, size: int) -> tuple[float, float]:
    """The interval of a subscript, which the checker of bounds keeps within its tensor."""
    low, high = interval(wanted, ranges_of(read.statement))
    return max(low, 0), min(high, size - 1)


def _check_output(tensor: str, shape: tuple[int, ...], writes: Sequence[Touch]) -> Iterator[Diagnostic]:
    place = Place(declaration=tensor)
    if not writes:
        yield Diagnostic("output-not-written", f"nothing writes the output {tensor}", place)
        return
    if any(_writes_whole(write, shape) for write in writes):
        return
    elements = [f"e{n}" for n in range(len(shape))]
    box = question(elements, [f"0 <= {e} < {size}" for e, size in zip(elements, shape, strict=True)])
    covers: list[str] = []
    for write in reversed(writes):
        texts = subscripts(write.use, write.statement.names("y"))
        where = domain(write.statement, "y", opaque=False)
        where += [f"{e} = {t}" if t is not None else "false" for e, t in zip(elements, texts, strict=False)]
        covers.append(_projected(elements, write.statement.dimensions("y"), where))
    try:
        point = _ask(box, tuple(covers))
    except TooHard as limit:
        message = f"too hard to say whether every element of the output {tensor} is written: {limit}"
        yield Diagnostic("definedness-not-proven", message, place)
        return
    if point is not None:
        element = tensor + (f"_{{{','.join(map(str, point))}}}" if point else "")
        yield Diagnostic("output-not-written", f"the output element {element} is not provably written", place)


def _writes_whole(write: Touch, shape: tuple[int, ...]) -> bool:
    """Whether an unguarded equation has a loop of its own over each dimension of the output."""
    loops = {loop.variable: (loop.first, loop.extent) for _, loop in write.statement.loops}
    names = [index.name for index in write.use.access.indices if isinstance(index, Variable)]
    return (
        not write.statement.guards
        and len(names) == len(set(names)) == len(write.use.access.indices) == len(shape)
        and all(loops.get(name) == (0, size) for name, size in zip(names, shape, strict=True))
    )
