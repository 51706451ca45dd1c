"""Everything that the reasoning of one step may speak of, computed once."""

from dataclasses import dataclass

from leir.analysis.footprint import Count
from leir.edit import tensors_read, tensors_written
from leir.parser import parse
from leir.syntax import Program, Stmt
from stepTP.narrate.difference import Change, changes
from stepTP.narrate.next_step import next_step
from stepTP.narrate.numbers import StateNumbers, measure, operations
from stepTP.narrate.shorten import SHOWN, shortened, shortened_apart
from stepTP.records import FactRecord, Step
from strategies.base import Strategy, usable
from strategies.catalog import parse_step
from strategies.grid import Grid

MOST_EVIDENCE = 200  # characters of evidence that a sentence carries, where it has several findings
GENERIC_FACTS = ("changes-the-program", "stays-well-formed")  # of every step: they say nothing about this one


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """A step that was tried at the state, with the fact that does not hold."""

    step: Step
    fact: FactRecord


@dataclass(frozen=True, slots=True)
class Context:
    """A step with its surroundings. `key` chooses phrasings; `enabled`: a step that only the program after it takes.

    Expressions in terms and evidence are as long as a sentence can carry.
    """

    key: str
    step: Step
    level: str
    bit_exact: bool
    facts: tuple[FactRecord, ...]
    before: Program
    after: Program
    numbers_before: StateNumbers
    numbers_after: StateNumbers
    changed: tuple[Change, ...]
    others: tuple[Step, ...]
    refused: tuple[RefusedStep, ...]
    enabled: Step | None
    choice: tuple[str, ...]
    change: tuple[str, ...]
    effect: tuple[str, ...]
    terms: dict[str, str]

    @property
    def touched(self) -> tuple[int, ...]:
        """The top-level statements of `before` that the step changes, by number."""
        return tuple(
            line - 1 for change in self.changed for line in range(change.at, change.at + len(change.old)) if line > 0
        )


def gather(
    key: str,
    before: str,
    step: Step,
    bit_exact: bool,
    facts: tuple[FactRecord, ...],
    after: str,
    others: tuple[Step, ...],
    refused: tuple[RefusedStep, ...],
    grid: Grid,
    shown: int = SHOWN,
) -> Context:
    """The context of a legal step between two texts, in a build that tries the sizes of a grid.

    `shown`: characters of an expression that a sentence carries.
    """
    old, new = parse(before), parse(after)
    taken: Strategy = parse_step(step.model_dump())
    terms, changed = shortened_apart(taken.terms(old, new), shown), changes(before, after)
    return Context(
        key=key,
        step=step,
        level=taken.level,
        bit_exact=bit_exact,
        facts=tuple(_short(fact, shown) for fact in facts if fact.name not in GENERIC_FACTS),
        before=old,
        after=new,
        numbers_before=measure(old),
        numbers_after=measure(new),
        changed=changed,
        others=others,
        refused=tuple(RefusedStep(one.step, _short(one.fact, shown)) for one in refused),
        enabled=next_step(key, old, new, step, changed, grid),
        choice=usable(taken.choice[:-1], terms) or usable(taken.choice[-1:], terms),
        change=usable(taken.change, terms),
        effect=usable(taken.effect, terms),
        terms=terms,
    )


def _short(fact: FactRecord, shown: int) -> FactRecord:
    """The fact with its evidence as a sentence can carry it: short expressions, and of many findings the first few."""
    found = shortened(fact.evidence, shown).split("; ")
    kept = max((n for n in range(1, len(found) + 1) if sum(map(len, found[:n])) <= MOST_EVIDENCE), default=1)
    rest = [f"and {len(found) - kept} more"] if kept < len(found) else []
    return fact.model_copy(update={"evidence": "; ".join([*found[:kept], *rest])})


def touched_operations(context: Context) -> Count:
    """The operations of the nests that the step changes."""
    nests = context.numbers_before.nests
    found = (operations(nests[number]) for number in context.touched if number in nests)
    return sum(found, Count(0, True))


def idle(program: Program) -> tuple[int, ...]:
    """The top-level statements of which nothing reaches an output, by number; one that is overwritten is not told."""
    needed = {declaration.tensor for declaration in program.outputs}
    found: list[int] = []
    for number, statement in reversed(list(enumerate(program.body))):
        if needed.isdisjoint(tensors_written(statement)):
            found.append(number)
        else:
            needed.update(tensors_read(statement))
    return tuple(number for number in reversed(found) if tensors_written(program.body[number]))


def readers(program: Program, tensor: str) -> tuple[int, ...]:
    """The top-level statements that read a tensor, by number."""
    return tuple(number for number, statement in enumerate(program.body) if tensor in tensors_read(statement))


def temporaries(program: Program, statement: Stmt) -> tuple[str, ...]:
    """The tensors that a statement writes and that are no output."""
    outputs = {declaration.tensor for declaration in program.outputs}
    return tuple(name for name in tensors_written(statement) if name not in outputs)
