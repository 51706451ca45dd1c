"""The computed numbers of a state that reasoning speaks of, and how they are written."""

from dataclasses import dataclass

from leir.syntax import Program


@dataclass(frozen=True, slots=True)
class NestNumbers:
    """One top-level statement. `iterations`: how often its equations run, together; `operations`: arithmetic and
    function calls in all; `traffic`: bytes of its footprint in memory, each element once; `touches`: how often it
    accesses each tensor, and how many elements that tensor has; `parallel`: iterations that do not depend on each
    other."""

    iterations: int
    operations: int
    traffic: int
    accesses: dict[str, tuple[int, int]]
    parallel: int


@dataclass(frozen=True, slots=True)
class StateNumbers:
    """A program: its top-level statements in order, and the bytes of its inputs and outputs."""

    nests: tuple[NestNumbers, ...]
    boundary: int

    @property
    def iterations(self) -> int:
        return sum(nest.iterations for nest in self.nests)

    @property
    def operations(self) -> int:
        return sum(nest.operations for nest in self.nests)

    @property
    def traffic(self) -> int:
        return sum(nest.traffic for nest in self.nests)


def measure(program: Program) -> StateNumbers:
    import math

    from leir.edit import accesses, iterations_around, walk, walk_expression
    from leir.syntax import Binary, Call, Equation, Unary

    shapes = {d.tensor: d.shape for d in (*program.inputs, *program.outputs)}
    nests = []
    for number, st in enumerate(program.body):
        its = ops = 0
        acc = {}
        for path, node in [((number,), st), *walk(st, (number,))]:
            if isinstance(node, Equation):
                n = iterations_around(program, path)
                its += n
                ops += n * sum(isinstance(e, Binary | Call | Unary) for _, e in walk_expression(node.value))
                for a in accesses(node):
                    size = math.prod(shapes.get(a.tensor, (1,)))
                    acc[a.tensor] = (acc.get(a.tensor, (0, 0))[0] + n, size)
        nests.append(NestNumbers(its, ops, sum(4 * s for _, s in acc.values()), acc, 1))
    return StateNumbers(tuple(nests), sum(4 * math.prod(s) for s in shapes.values()))


def data_text(value: int) -> str:
    """Bytes, in the largest unit that leaves at least 1, with one digit after the point where it is not whole."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{short_text(value / size)} {unit}"
    return f"{value} bytes"


def short_text(value: float) -> str:
    """A quotient: one digit after the point where it is not whole, two digits that count below 1."""
    if value < 1:
        return f"{value:.2g}"
    rounded = round(value, 1)
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)
