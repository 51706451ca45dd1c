"""What every strategy is: named facts that gate a rewrite, and one way to apply it.

A strategy is a class; a *step* is an instance, with every argument fixed. A step is a frozen pydantic model, so it
prints as `{"strategy": name, "args": {...}}` and `apply` replays it exactly. `strategies.catalog` finds the classes and
reads steps back.

A module's docstring is its page in the catalog: one sentence; Before and After in LEIR with metavariables; "Legal
when"; "Pays when"; "Leads to", the strategies that often follow, which reasoning looks at first (may be left out);
"Inverse".

For the reasoning text a strategy gives `choice` (why this step, here), `change` (what becomes of the program) and
`effect` (what it costs or saves, what it makes possible): sentences with `{placeholders}`, which `terms` computes from
the program before and after. A sentence may be used where `terms` gives every placeholder in it; at least one of each
kind always may (`usable`). Of `choice` that is the last, which is used only where no other may be. Nothing stands in a
sentence that was not computed or is not true of every legal step.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, ClassVar, final

from pydantic import BaseModel, ConfigDict

from leir.analysis.flow import Origin, flow_difference
from leir.canonical import state_id
from leir.edit import (
    allocations_in,
    equation_paths,
    has_statement,
    loops_around,
    statement_at,
    tensors_written,
)
from leir.syntax import Alloc, Equation, Expr, Guard, Loop, Path, Program, Stmt, Variable
from strategies.grid import DEFAULT, Grid
from strategies.index import BitExact, Level, first_sentence


@dataclass(frozen=True, slots=True)
class Fact:
    """A precondition by name (kebab-case, what must hold), whether it holds, and what was computed to know it."""

    name: str
    holds: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class Applied:
    """A step that was taken: the program after it, the facts it rests on, and whether results keep every bit."""

    program: Program
    facts: tuple[Fact, ...]
    bit_exact: bool


class Refused(Exception):
    """A step is illegal: `step`, the first `fact` that does not hold, and those before it, which `held`."""

    def __init__(self, step: "Strategy", fact: Fact, held: tuple[Fact, ...] = ()) -> None:
        self.step = step
        self.fact = fact
        self.held = held
        super().__init__(f"{step.name} is refused, {fact.name} does not hold: {fact.evidence}")


class Strategy(BaseModel):
    """A rewrite with preconditions; the fields of a subclass are its arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    level: ClassVar[Level]
    bit_exact: ClassVar[BitExact]
    choice: ClassVar[tuple[str, ...]]
    change: ClassVar[tuple[str, ...]]
    effect: ClassVar[tuple[str, ...]]

    @classmethod
    def candidates(cls, program: Program) -> "Iterator[Strategy]":
        """Steps worth trying on a well-formed program, in a fixed order; some may be illegal."""
        raise NotImplementedError

    @classmethod
    def proposed(cls, program: Program, grid: Grid) -> "Iterator[Strategy]":
        """The candidates that a build asks for. Its grid is for strategies that are `Gridded`."""
        del grid
        return cls.candidates(program)

    def facts(self, program: Program) -> Iterator[Fact]:
        """The preconditions one by one. Each may rely on those before it; the first that fails ends the step."""
        raise NotImplementedError

    def rewrite(self, program: Program) -> Program:
        """The program after the step. Called only where every fact holds."""
        raise NotImplementedError

    def is_bit_exact(self, program: Program) -> bool:  # noqa: ARG002 (strategies that say "depends" need it)
        """Whether this legal step keeps every bit of every output, on one target, without contraction."""
        if self.bit_exact == "depends":
            raise NotImplementedError
        return self.bit_exact == "always"

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        """What the sentences' placeholders stand for, computed from the program before and after this step."""
        raise NotImplementedError

    @final
    def apply(self, program: Program) -> Applied:
        """Facts, rewrite, and the checks that hold for every strategy. Raises Refused.

        The program must be well-formed. The result is another state and is well-formed, loop kinds proved again: a
        fusion can be legal in sequence and a race between threads.
        """
        facts: list[Fact] = []
        for fact in self.facts(program):
            if not fact.holds:
                raise Refused(self, fact, tuple(facts))
            facts.append(fact)
        after = self.rewrite(program)
        for fact in _facts_of_any_step(program, after):
            if not fact.holds:
                raise Refused(self, fact, tuple(facts))
            facts.append(fact)
        return Applied(after, tuple(facts), self.is_bit_exact(program))

    @classmethod
    def page(cls) -> str:
        """The module's docstring."""
        return sys.modules[cls.__module__].__doc__ or ""

    @classmethod
    def summary(cls) -> str:
        """The docstring's first sentence, in one line, without its full stop."""
        return first_sentence(cls.page())

    def to_json(self) -> dict[str, Any]:
        """`{"strategy": name, "args": {...}}`, plain data."""
        return {"strategy": self.name, "args": self.model_dump(mode="json")}


class Gridded(Strategy):
    """A strategy that proposes sizes of a grid: factors, tiles, parts and the like."""

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> "Iterator[Strategy]":
        raise NotImplementedError

    @final
    @classmethod
    def proposed(cls, program: Program, grid: Grid) -> "Iterator[Strategy]":
        return cls.candidates(program, grid)


def _facts_of_any_step(before: Program, after: Program) -> Iterator[Fact]:
    from leir.check import check  # the analyses behind it are slow to import: listing strategies does without

    old, new = state_id(before), state_id(after)
    yield Fact("changes-the-program", old != new, f"state {old[:8]} becomes {new[:8]}")
    diagnostics = check(after)
    evidence = "; ".join(f"{d.code}: {d.message}" for d in diagnostics) or "every check passes, loop kinds proved again"
    yield Fact("stays-well-formed", not diagnostics, evidence)


def ordered(facts: Iterable[Fact], names: Sequence[str]) -> Iterator[Fact]:
    """The facts in the order of `names`, once they are known to hold; as they come, up to the first that fails."""
    found: list[Fact] = []
    for fact in facts:
        found.append(fact)
        if not fact.holds:
            yield from found
            return
    yield from sorted(found, key=lambda fact: names.index(fact.name))


def flow_preserved(
    before: Program,
    after: Program,
    correspondence: Mapping[Path, Origin | None],
    *,
    removed: Collection[Path] = (),
    unordered: Collection[Path] = (),
    because: str = "",
) -> Fact:
    """The fact that every read, and every output, gets the value of the same write, or the same fill, as before.

    The arguments are those of `leir.analysis.flow.flow_difference`; `because` says how the values flow that the step is
    about, and opens the evidence where the fact holds.
    """
    difference = flow_difference(before, after, correspondence, removed=removed, unordered=unordered)
    if difference is not None:
        return Fact("flow-preserved", False, f"{difference.code}: {difference.message}")
    evidence = "every read and every output gets the value of the same write or fill as before"
    if because:
        evidence = f"{because}; every read and every output keeps its writer or fill"
    if unordered and flow_difference(before, after, correspondence, removed=removed) is not None:
        targets = [statement_at(after, path) for path in unordered]
        names = dict.fromkeys(s.target.tensor for s in targets if isinstance(s, Equation))
        evidence += f", up to the order of the terms of {listed(names)}"
    return Fact("flow-preserved", True, evidence)


def same_loops(before: Program, after: Program) -> dict[Path, Origin]:
    """The correspondence where equations keep their order in the text, and the loops around each their names."""
    pairs = zip(equation_paths(before), equation_paths(after), strict=True)
    return {new: Origin(old, _variables(before, old)) for old, new in pairs}


def renamed_loops(before: Program, after: Program) -> dict[Path, Origin]:
    """The correspondence where equations keep their order in the text, and the loops around each theirs."""
    pairs = zip(equation_paths(before), equation_paths(after), strict=True)
    return {new: Origin(old, _variables(after, new)) for old, new in pairs}


def _variables(program: Program, path: Path) -> tuple[Expr, ...]:
    return tuple(Variable(loop.variable) for loop in loops_around(program, path))


def listed(names: Iterable[str]) -> str:
    """`A`, `A and C`, `A, C and D`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def either(names: Iterable[str]) -> str:
    """What a sentence that denies all of them says: `A`, `A or C`, `any of A, C and D`."""
    found = list(names)
    return " or ".join(found) if len(found) < 3 else f"any of {listed(found)}"


def capitalised(text: str) -> str:
    """The text as a sentence begins; unlike `str.capitalize`, the rest keeps its case, as names of tensors do."""
    return text[:1].upper() + text[1:]


def counted(count: int, noun: str) -> str:
    """`1 nest`, `2 nests`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def numbered(count: int, noun: str) -> str:
    """`no place`, `one place`, `2 places`."""
    return counted(count, noun) if count > 1 else f"{'one' if count else 'no'} {noun}"


def path_text(path: Path) -> str:
    """A path as evidence and reasoning write it: `(0,1)`."""
    return "(" + ",".join(str(number) for number in path) + ")"


def statement_or_none(program: Program, path: Path) -> Stmt | None:
    """The statement at a path, or None: arguments may address anything."""
    return statement_at(program, path) if path and has_statement(program, path) else None


def describe_at(program: Program, path: Path) -> str:
    """What stands at a path, in words, for evidence."""
    statement = statement_or_none(program, path)
    if statement is None:
        return f"no statement stands at {path_text(path)}"
    return f"{path_text(path)} is {describe(statement)}"


def describe(statement: Stmt) -> str:
    match statement:
        case Loop(kind, variable, extent, first):
            start = f" from {first}" if first else ""
            return f"the {kind} loop {variable} of {extent}{start}"
        case Guard():
            return "a guard"
        case Alloc(tensor):
            return f"the allocation of {tensor}"
        case Equation(target):
            return f"an equation for {target.tensor}"


def called(statement: Stmt) -> str:
    """What a sentence calls a statement: by the tensors that it writes or declares, `the nest of Q`."""
    match statement:
        case Alloc(tensor):
            return f"the declaration of {tensor}"
        case Equation(target):
            return f"the equation for {target.tensor}"
        case Loop() | Guard():
            tensors = dict.fromkeys((*tensors_written(statement), *(a.tensor for _, a in allocations_in(statement))))
            return f"the nest of {listed(tensors)}"


def placeholders(sentence: str) -> tuple[str, ...]:
    """The names that a sentence needs from `terms`."""
    return tuple(name for _, name, _, _ in Formatter().parse(sentence) if name)


def usable(sentences: Iterable[str], terms: dict[str, str]) -> tuple[str, ...]:
    """The sentences whose every placeholder has a term, filled in, in their order."""
    fits = (sentence for sentence in sentences if all(name in terms for name in placeholders(sentence)))
    return tuple(sentence.format(**terms) for sentence in fits)
