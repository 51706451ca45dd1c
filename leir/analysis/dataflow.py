"""Array dataflow of one program: which statement instance wrote the value that an instance reads.

isl computes it (Feautrier, "Dataflow analysis of array and scalar references", 1991) on storage expanded by lifetime.
What is not quasi-affine stays exact by quantification: an opaque subscript stands for every index (a *free* dimension
of the instance), and a write under an opaque guard or at an opaque subscript is "the new value or the old one", so that
it also reads its target.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from leir.analysis.affine import is_exact
from leir.analysis.isl import TooHard, a_union, bounded, conjunction, library, union
from leir.analysis.model import (
    Statement,
    Use,
    domain,
    fills,
    lifetimes,
    names_at,
    reach,
    statements_of,
    subscripts,
    time,
)
from leir.syntax import Equation, Guard, Path, Program


@dataclass(frozen=True, slots=True)
class Read:
    """A read of an equation, or of an opaque guard around it: `reader` is the equation or the guard."""

    reader: Statement
    use: Use


class FlowQuestion(NamedTuple):
    """The flow of one tensor, as isl texts; equal texts have equal answers.

    Readers are `R<equation>_<read>[loops, free]` and `End[element]`, the outputs' final values; writers are
    `W<equation>[loops, free]`. `own_sinks` are unordered accumulations, which do not see each other's writes, the
    `free_sources`; readers find the whole set of those, and the last ordinary write before them.
    """

    sinks: str
    own_sinks: str
    sources: str
    free_sources: str
    schedule: str


class Side:
    """A program's equations by path, with a number each, and the reads that decide what each computes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        statements = statements_of(program)
        self.equations = {s.path: s for s in statements if isinstance(s.node, Equation)}
        self.listed = tuple(self.equations.values())
        self.numbers = {path: number for number, path in enumerate(self.equations)}
        self.guards = {s.path: s for s in statements if isinstance(s.node, Guard)}
        self.life = lifetimes(program)
        self.fills = fills(program)
        self.outputs = {declaration.tensor: declaration.shape for declaration in program.outputs}
        self.found: dict[Path, list[Read]] = {}

    def reads(self, statement: Statement) -> list[Read]:
        """Reads of the guards around an equation, its own, and its target's old value where that may matter."""
        if statement.path not in self.found:
            self.found[statement.path] = self.find_reads(statement)
        return self.found[statement.path]

    def find_reads(self, statement: Statement) -> list[Read]:
        around = [self.guards[path] for path, _ in statement.guards if path in self.guards]
        own = [use for use in statement.uses if use.mode != "write" or is_partial(statement)]
        return [Read(guard, use) for guard in around for use in guard.uses] + [Read(statement, use) for use in own]

    def question(
        self,
        tensor: str,
        readers: Collection[Path],
        unordered: Collection[Path],
        only: tuple[int, tuple[int, ...]] | None = None,
    ) -> FlowQuestion:
        """The flow of a tensor into the equations `readers`; `unordered` are accumulations whose own order is free.

        `only`: the number of one read and the values of the loops around it; all other reads are left out.
        """
        sinks: list[str] = []
        own_sinks: list[str] = []
        sources: list[str] = []
        free_sources: list[str] = []
        schedule: list[tuple[str, list[str]]] = []
        for number, statement in enumerate(self.listed):
            names, is_free = statement.dimensions("x"), statement.path in unordered
            if tensor_written(statement) == tensor:
                written = statement.uses[-1]
                instance = f"W{number}[{','.join([*names, *free_dimensions(statement, written)])}]"
                entry = f"{instance} -> {self.element(statement, written)} : {conjunction(domain(statement, 'x'))}"
                (free_sources if is_free else sources).append(entry)
                schedule.append((instance, [*time(statement, "x"), "1"]))
            if statement.path not in readers:
                continue
            for n, read in enumerate(self.reads(statement)):
                if read.use.access.tensor != tensor or (only and only[0] != n):
                    continue
                instance = f"R{number}_{n}[{','.join([*names, *free_dimensions(read.reader, read.use)])}]"
                fixed = [f"{name} = {value}" for name, value in zip(names, only[1], strict=True)] if only else []
                where = conjunction([*domain(statement, "x"), *reach(read.reader, read.use, "x"), *fixed])
                entry = f"{instance} -> {self.element(read.reader, read.use)} : {where}"
                (own_sinks if is_free and read.use.mode == "update" else sinks).append(entry)
                schedule.append((instance, [*time(read.reader, "x"), "0"]))
        if tensor in self.outputs and only is None:
            instance, element, box = final_values(self.outputs[tensor])
            sinks.append(f"{instance} -> {element} : {box}")
            schedule.append((instance, [str(len(self.program.body))]))
        parts = (union(sinks), union(own_sinks), union(sources), union(free_sources))
        return FlowQuestion(*parts, _schedule(schedule))

    def element(self, statement: Statement, use: Use) -> str:
        """What an access touches, in isl text: the iteration of its tensor's lifetime, then the subscripts."""
        lifetime = statement.dimensions("x")[: self.life.get(use.access.tensor, 0)]
        free = iter(free_dimensions(statement, use))
        indices = [next(free) if text is None else text for text in subscripts(use, statement.names("x"))]
        return f"T[{','.join([*lifetime, *indices])}]"


def tensor_written(statement: Statement) -> str:
    """The tensor that an equation writes."""
    return statement.uses[-1].access.tensor


def is_partial(statement: Statement) -> bool:
    """Whether an equation's instance may leave its target as it was, as far as the model can tell."""
    opaque_guard = any(not is_exact(g.condition, names_at(statement, p, "x")) for p, g in statement.guards)
    return opaque_guard or bool(free_dimensions(statement, statement.uses[-1]))


def free_dimensions(statement: Statement, use: Use) -> list[str]:
    """One name for each opaque subscript of an access."""
    names = statement.names("x")
    return [f"f{n}" for n, text in enumerate(subscripts(use, names)) if text is None]


def final_values(shape: tuple[int, ...]) -> tuple[str, str, str]:
    """The reader of an output's final values: its instances, the elements they read, and their domain."""
    elements = [f"e{n}" for n in range(len(shape))]
    listed = ",".join(elements)
    return (
        f"End[{listed}]",
        f"T[{listed}]",
        conjunction([f"0 <= {e} < {n}" for e, n in zip(elements, shape, strict=True)]),
    )


def _schedule(times: list[tuple[str, list[str]]]) -> str:
    """The schedule as isl text: times padded to one length, without the positions that are the same for all."""
    length = max((len(when) for _, when in times), default=0)
    padded = [(instance, [*when, *["0"] * (length - len(when))]) for instance, when in times]
    kept = [
        n
        for n in range(length)
        if len({when[n] for _, when in padded}) > 1 or not padded[0][1][n].lstrip("-").isdigit()
    ]
    return union([f"{instance} -> [{','.join(when[n] for n in kept)}]" for instance, when in padded])


@lru_cache(maxsize=2_000)
def flow(question: FlowQuestion) -> tuple[Any, Any]:
    """The relation from writers to readers, and the reads that find nothing, as isl unions. Raises TooHard."""

    def compute(sinks: str, free_sources: str) -> tuple[Any, Any]:
        access = library().UnionAccessInfo.from_sink(a_union(sinks))
        access = access.set_must_source(a_union(question.sources)).set_may_source(a_union(free_sources))
        found = access.set_schedule_map(a_union(question.schedule)).compute_flow()
        writers, nothing = found.get_may_dependence(), found.get_must_no_source()
        # isl's dataflow was seen to lose reads whose subscripts have remainders: it is trusted where it lost none
        if not a_union(sinks).domain().is_subset(writers.range().union(nothing.domain())):
            raise TooHard("isl's dataflow lost a read")
        if free_sources == union([]) and not writers.reverse().is_single_valued():
            raise TooHard("isl's dataflow found two last writers")
        return writers, nothing

    def ask() -> tuple[Any, Any]:
        found, nothing = compute(question.sinks, question.free_sources)
        if question.own_sinks != union([]):
            own_found, own_nothing = compute(question.own_sinks, union([]))
            return found.union(own_found), nothing.union(own_nothing)
        return found, nothing

    return bounded(ask)
