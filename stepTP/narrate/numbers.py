"""The computed numbers of a state that reasoning speaks of, and how they are written."""

from dataclasses import dataclass

from leir.analysis.cost import NestCost, ProgramCost, cost
from leir.analysis.footprint import Count
from leir.analysis.kernels import BYTES
from leir.syntax import Declaration, Equation, Program
from strategies.base import counted, listed


@dataclass(frozen=True, slots=True)
class StateNumbers:
    """A program's cost, what its top-level statements cost by their number, how many of these are equations without a
    loop, and the bytes of its signature."""

    cost: ProgramCost
    nests: dict[int, NestCost]
    alone: int
    boundary: int

    def nests_text(self) -> str:
        """How many nests there are, and equations beside them: `3 nests`, `3 nests and 1 equation`."""
        found = ((len(self.nests) - self.alone, "nest"), (self.alone, "equation"))
        return listed(counted(count, what) for count, what in found if count)

    def instances_text(self) -> str:
        """How often equations run, all of them counted."""
        return f"{count_text(self.cost.iterations)} equation instance{'' if self.cost.iterations.value == 1 else 's'}"

    @property
    def operations(self) -> Count:
        return self.cost.flops + self.cost.calls

    @property
    def traffic(self) -> int:
        """Bytes of all footprints in global memory: what two nests touch counts twice."""
        return self.cost.bytes_read + self.cost.bytes_written

    def traffic_text(self) -> str:
        """The traffic as it is written; a bound says so."""
        parts = (traffic for nest in self.nests.values() for traffic in (*nest.reads, *nest.writes))
        exact = all(traffic.elements.exact for traffic in parts if traffic.scope == "g")
        return f"{'' if exact else 'at most '}{data_text(self.traffic)}"

    def totals(self) -> dict[str, str]:
        """The totals by name, as they are written."""
        return {
            "nests": str(len(self.nests) - self.alone),
            "equation instances": count_text(self.cost.iterations),
            "operations": count_text(self.operations),
            "traffic": self.traffic_text(),
            "kernels": str(self.cost.kernels),
        }


def measure(program: Program) -> StateNumbers:
    """The numbers of a well-formed program."""
    found = cost(program)
    nests = {nest.path[0]: nest for nest in found.nests}
    alone = sum(isinstance(program.body[number], Equation) for number in nests)
    return StateNumbers(found, nests, alone, sum(_bytes(d) for d in (*program.inputs, *program.outputs)))


def operations(nest: NestCost) -> Count:
    """Float operations and calls of functions."""
    return nest.flops + nest.calls


def count_text(count: Count) -> str:
    """A count; one that is an upper bound says so."""
    return str(count.value) if count.exact else f"at most {count.value}"


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


def _bytes(declaration: Declaration) -> int:
    size = BYTES[declaration.dtype]
    for extent in declaration.shape:
        size *= extent
    return size
