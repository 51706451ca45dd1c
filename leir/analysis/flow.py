"""The flow of values of two programs compared: does every read still find what the same statement instance wrote?

Storage, order and loops may differ; what counts is which instance wrote the value that an instance reads. The flow of
each tensor (`leir.analysis.dataflow`) is mapped through a correspondence of equations and compared as a relation.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from leir.analysis.affine import affine, constant
from leir.analysis.dataflow import (
    Side,
    final_values,
    free_dimensions,
    tensor_written,
)
from leir.analysis.equality import SameValue, opaque_conditions
from leir.analysis.isl import TooHard, conjunction, union
from leir.analysis.model import Statement, domain, element_text
from leir.analysis.order import Suspect, keeps_order
from leir.analysis.relations import Instance, reads_unwritten, wrong_instance, wrong_writer
from leir.names import substitute_in
from leir.printer import equation_text, expression_text
from leir.syntax import Equation, Expr, Path, Place, Program, Variable, integer


class Origin(NamedTuple):
    """Where an equation of `after` comes from.

    `path`: the equation of `before`. `variables`: the values of the loop variables around it there, from the outside
    in, in terms of the variables around the equation of `after`. `reads`: False for an equation that stores the same
    value by other means: what it reads is for the caller to argue, and it need not run once for each instance.
    """

    path: Path
    variables: tuple[Expr, ...]
    reads: bool = True


Code = Literal["instances-differ", "expression-differs", "writer-differs", "fill-differs", "not-provable"]
Correspondence = Mapping[Path, Origin | None]


@dataclass(frozen=True, slots=True)
class FlowDifference:
    """Why the flow of values is not the same, or not provably so."""

    code: Code
    message: str
    before: Place | None = None
    after: Place | None = None


class _Differs(Exception):
    def __init__(self, code: Code, message: str, before: Place | None = None, after: Place | None = None) -> None:
        super().__init__(message)
        self.difference = FlowDifference(code, message, before, after)


def flow_difference(
    before: Program,
    after: Program,
    correspondence: Correspondence,
    *,
    removed: Collection[Path] = (),
    unordered: Collection[Path] = (),
) -> FlowDifference | None:
    """None if every value read, and every output at the end, is provably written by the same instance as before.

    Both programs must be well formed but for loop kinds; dtypes of temporaries are the caller's to compare.
    `correspondence` says for each equation of `after` where it comes from: None, or no entry, for a new one. Equations
    of the top-level statements that both programs begin or end with need no entry. Every instance of an equation of
    `before` must run exactly once, but for equations in `removed`. Reads of new equations are not compared, and nothing
    that is compared may read what a new equation wrote. `unordered` names accumulations of `after` whose own order is
    free (reassociation): their readers must still find the same set of terms.
    """
    pairs = tuple(sorted(correspondence.items()))
    return _flow_difference(before, after, pairs, tuple(removed), tuple(unordered))


@lru_cache(maxsize=256)
def _flow_difference(
    before: Program,
    after: Program,
    correspondence: tuple[tuple[Path, Origin | None], ...],
    removed: tuple[Path, ...],
    unordered: tuple[Path, ...],
) -> FlowDifference | None:
    comparison = _Comparison(before, after, dict(correspondence), unordered)
    try:
        comparison.compare_instances(removed)
        comparison.compare_expressions()
        comparison.compare_writers()
    except _Differs as differs:
        return differs.difference
    except TooHard as reason:
        return FlowDifference("not-provable", f"the flow of values is too hard to compare: {reason}")
    return None


def unchanged_ends(before: Program, after: Program) -> tuple[int, int]:
    """How many top-level statements both programs begin with, and how many of the others both end with."""
    shortest = min(len(before.body), len(after.body))
    first = 0
    while first < shortest and before.body[first] == after.body[first]:
        first += 1
    last = 0
    while last < shortest - first and before.body[-1 - last] == after.body[-1 - last]:
        last += 1
    return first, last


def same_origin(statement: Statement, path: Path) -> Origin:
    """The origin of an equation that stands in loops of the same variables as at `path` before."""
    return Origin(path, tuple(Variable(loop.variable) for _, loop in statement.loops))


class _Comparison:
    """Both programs, matched equation by equation. `same` are the equations of `after` in the unchanged ends."""

    def __init__(
        self, before: Program, after: Program, correspondence: Correspondence, unordered: Collection[Path]
    ) -> None:
        if (before.inputs, before.outputs) != (after.inputs, after.outputs):
            raise ValueError("the programs have different signatures")
        self.before = Side(before)
        self.after = Side(after)
        self.origins: dict[Path, Origin] = {}
        self.same: set[Path] = set()
        first, last = unchanged_ends(before, after)
        for path, statement in self.after.equations.items():
            at_end = path[0] >= len(after.body) - last
            moved = (path[0] + len(before.body) - len(after.body), *path[1:]) if at_end else path
            unmoved = same_origin(statement, moved) if path[0] < first or at_end else None
            origin = correspondence.get(path, unmoved)
            if origin is not None:
                self.origins[path] = self.valid(origin)
                if origin == unmoved:
                    self.same.add(path)
        self.unordered = self.valid_unordered(unordered)
        self.unordered_before = tuple(self.origins[path].path for path in self.unordered if path in self.origins)

    def valid(self, origin: Origin) -> Origin:
        if origin.path not in self.before.equations:
            raise ValueError(f"the correspondence names {origin.path}, which is no equation")
        depth = len(self.before.equations[origin.path].loops)
        if len(origin.variables) != depth:
            raise ValueError(f"{len(origin.variables)} values for the {depth} loops around {origin.path}")
        return origin

    def valid_unordered(self, unordered: Collection[Path]) -> tuple[Path, ...]:
        """The unordered accumulations, but for those into a tensor that two operators accumulate into."""
        ops: dict[str, set[str]] = {}
        for path in unordered:
            node = self.after.equations[path].node
            if not isinstance(node, Equation) or node.op == "=":
                raise ValueError(f"{path} is no accumulation")
            ops.setdefault(node.target.tensor, set()).add(node.op)
        return tuple(p for p in unordered if len(ops[tensor_written(self.after.equations[p])]) == 1)

    def compare_instances(self, removed: Collection[Path]) -> None:
        """Raise unless every instance of every equation runs exactly once."""
        images: dict[Path, list[Path]] = {path: [] for path in self.before.equations}
        for path, origin in self.origins.items():
            if origin.reads:
                images[origin.path].append(path)
        for path, found in images.items():
            statement = self.before.equations[path]
            if not found and path not in removed:
                raise _Differs("instances-differ", f"{equation_text(statement.node)} no longer runs", Place(path))
            if found and not (len(found) == 1 and (found[0] in self.same or self.is_permuted(statement, found[0]))):
                self.compare_images(statement, found)

    def is_permuted(self, statement: Statement, image: Path) -> bool:
        """Whether the loops around the image are those around the statement, in some order, without guards."""
        other = self.after.equations[image]
        ranges = {loop.variable: (loop.first, loop.extent) for _, loop in other.loops}
        values = [e.name if isinstance(e, Variable) else "" for e in self.origins[image].variables]
        return (
            not statement.guards
            and not other.guards
            and len(ranges) == len(other.loops) == len(values) == len(set(values))
            and all(
                ranges.get(value) == (loop.first, loop.extent)
                for value, (_, loop) in zip(values, statement.loops, strict=True)
            )
        )

    def compare_images(self, statement: Statement, images: list[Path]) -> None:
        whole = f"{{ S[{','.join(statement.dimensions('x'))}] : {conjunction(domain(statement, 'x'))} }}"
        pieces = union([self.instances(image, f"A{number}", "S") for number, image in enumerate(images)])
        wrong = wrong_instance(whole, pieces)
        if wrong is not None:
            reason, values = wrong
            shown = f"{equation_text(statement.node)}{_at(statement, values)} {reason}"
            raise _Differs("instances-differ", shown, Place(statement.path), Place(images[0]))

    def instances(self, path: Path, source: str, target: str, free: tuple[str, ...] = ()) -> str:
        """The map from the instances of an equation of `after` to those of its origin, as isl text without braces."""
        statement = self.after.equations[path]
        names = statement.names("x")
        values: list[str] = []
        for value in self.origins[path].variables:
            text = affine(value, names)
            if text is None:
                raise _Differs("not-provable", f"{expression_text(value)} is not quasi-affine", after=Place(path))
            values.append(text)
        where = conjunction(domain(statement, "x"))
        dimensions = [*statement.dimensions("x"), *free]
        return f"{source}[{','.join(dimensions)}] -> {target}[{','.join([*values, *free])}] : {where}"

    def compare_expressions(self) -> None:
        """Raise unless corresponding equations compute the same, up to where temporaries are stored."""
        for path, origin in self.origins.items():
            if path in self.same or not origin.reads:
                continue
            old, new = self.before.equations[origin.path], self.after.equations[path]
            if not self.computes_the_same(old, new, origin):
                shown = f"{equation_text(old.node)} became {equation_text(new.node)}"
                raise _Differs("expression-differs", shown, Place(old.path), Place(path))

    def computes_the_same(self, old: Statement, new: Statement, origin: Origin) -> bool:
        assert isinstance(old.node, Equation) and isinstance(new.node, Equation)
        values = {loop.variable: e for (_, loop), e in zip(old.loops, origin.variables, strict=True)}
        was = [*opaque_conditions(old), old.node.target, old.node.value]
        becomes = [*opaque_conditions(new), new.node.target, new.node.value]
        inputs = {declaration.tensor for declaration in self.before.program.inputs}
        same = SameValue(inputs, new)
        return (
            old.node.op == new.node.op
            and _tensors_read(self.before, old) == _tensors_read(self.after, new)
            and len(was) == len(becomes)
            and all(same.holds(substitute_in(a, values), b) for a, b in zip(was, becomes, strict=True))
        )

    def compare_writers(self) -> None:
        """Raise unless every tensor that a changed equation writes flows as before; no other tensor can differ."""
        kept = {self.origins[path].path for path in self.same}
        changed = [s for path, s in self.before.equations.items() if path not in kept]
        changed += [s for path, s in self.after.equations.items() if path not in self.same]
        compared = [path for path, origin in self.origins.items() if origin.reads]
        for tensor in dict.fromkeys(tensor_written(statement) for statement in changed):
            if self.is_kept_by_order(tensor):
                continue
            old = self.before.question(tensor, [self.origins[path].path for path in compared], self.unordered_before)
            new = self.after.question(tensor, compared, self.unordered)
            wrong = wrong_writer(old, new, self.matched(tensor, compared))
            if wrong is not None:
                raise self.writer_differs(tensor, *wrong)
            was, becomes = self.before.fills.get(tensor), self.after.fills.get(tensor)
            if was != becomes and reads_unwritten(old):
                raise _Differs(
                    "fill-differs", f"{tensor} was filled for {was or 'nothing'}, now for {becomes or 'nothing'}"
                )

    def is_kept_by_order(self, tensor: str) -> bool:
        """Whether the order of accesses proves that a tensor flows as before; a difference at a suspect is raised."""
        origins = {path: (o.path, o.variables) for path, o in self.origins.items() if o.reads}
        found = keeps_order(self.before, self.after, tensor, origins, self.same, self.unordered)
        if isinstance(found, Suspect):
            self.compare_suspect(tensor, found)
        return found is True and self.before.fills.get(tensor) == self.after.fills.get(tensor)

    def compare_suspect(self, tensor: str, suspect: Suspect) -> None:
        """Raise if one instance of a read finds another writer."""
        origin, statement = self.origins[suspect.path], self.after.equations[suspect.path]
        here = {loop.variable: integer(value) for (_, loop), value in zip(statement.loops, suspect.values, strict=True)}
        values = [constant(substitute_in(value, here)) for value in origin.variables]
        there = tuple(value for value in values if value is not None)
        old = self.before.question(tensor, [origin.path], self.unordered_before, (suspect.read, there))
        new = self.after.question(tensor, [suspect.path], self.unordered, (suspect.read, suspect.values))
        wrong = wrong_writer(old, new, self.matched(tensor, [suspect.path]))
        if wrong is not None:
            raise self.writer_differs(tensor, *wrong)

    def matched(self, tensor: str, compared: list[Path]) -> str:
        """The map from readers and writers of a tensor in `after` to those in `before`, as isl text."""
        parts: list[str] = []
        for path, statement in self.after.equations.items():
            number, origin = self.after.numbers[path], self.origins.get(path)
            if tensor_written(statement) == tensor:
                free = tuple(free_dimensions(statement, statement.uses[-1]))
                if origin is None:
                    dimensions = ",".join([*statement.dimensions("x"), *free])
                    parts.append(f"W{number}[{dimensions}] -> N{number}[{dimensions}]")
                else:
                    parts.append(self.instances(path, f"W{number}", f"W{self.before.numbers[origin.path]}", free))
            if origin is not None and path in compared:
                target = self.before.numbers[origin.path]
                for n, read in enumerate(self.after.reads(statement)):
                    if read.use.access.tensor == tensor:
                        free = tuple(free_dimensions(read.reader, read.use))
                        parts.append(self.instances(path, f"R{number}_{n}", f"R{target}_{n}", free))
        if tensor in self.before.outputs:
            instance, _, _ = final_values(self.before.outputs[tensor])
            parts.append(f"{instance} -> {instance}")
        return union(parts)

    def writer_differs(self, tensor: str, reader: Instance, old: list[Instance], new: list[Instance]) -> _Differs:
        name, values = reader
        changed = f"is written by {self.shown(old)} before the step, and by {self.shown(new)} after it"
        if name == "End":
            element = tensor + (f"_{{{','.join(map(str, values))}}}" if values else "")
            return _Differs("writer-differs", f"at the end {element} {changed}")
        number, n = (int(part) for part in name[1:].split("_"))
        statement = self.before.listed[number]
        read = self.before.reads(statement)[n]
        access = expression_text(read.use.access)
        what = f"{access} in {equation_text(statement.node)}{_at(statement, values)}"
        here = {loop.variable: value for (_, loop), value in zip(read.reader.loops, values, strict=False)}
        element = element_text(read.use.access, here, values[len(statement.loops) :])
        if element not in ("", access):
            what += f", the element {element},"
        return _Differs("writer-differs", f"{what} {changed}", read.use.place)

    def shown(self, writers: list[Instance]) -> str:
        texts: list[str] = []
        for name, values in writers[:2]:
            side, new = (self.after, "the new ") if name[0] == "N" else (self.before, "")
            statement = side.listed[int(name[1:])]
            texts.append(f"{new}{equation_text(statement.node)}{_at(statement, values)}")
        return (" and ".join(texts) if texts else "nothing") + (" and others" if len(writers) > 2 else "")


def _tensors_read(side: Side, statement: Statement) -> list[str]:
    return [read.use.access.tensor for read in side.reads(statement)]


def _at(statement: Statement, values: tuple[int, ...]) -> str:
    named = [f"{loop.variable}={value}" for (_, loop), value in zip(statement.loops, values, strict=False)]
    return f" at {', '.join(named)}" if named else ""
