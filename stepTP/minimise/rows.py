"""What may fail in a row: the subjects that show it, the most telling first."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from leir.parser import parse
from stepTP.minimise.failing import Stage
from stepTP.minimise.subject import Inputs, Subject
from stepTP.records import ProgramRow, RejectedRow, Row, Step, StepRow, TrajectoryRow, row_id, step_json

_STAGES: dict[str, tuple[Stage, ...]] = {
    "expand": ("step",),
    "verify": ("check", "lower", "run"),
    "narrate": ("narrate",),
}


class NothingFails(ValueError):
    """The row is none that can be shrunk; the message says why."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """How a row says that it fails; no cause where it does not say so. `target`: None where the row names none."""

    stages: tuple[Stage, ...] = ()
    cause: str = ""
    target: str | None = None


def recorded(row: Row) -> Recorded:
    """Raises NothingFails for a row of something else than a failure of a program or of a step."""
    match row:
        case RejectedRow(cause="unverified"):
            raise NothingFails("unverified: no results of its source can be judged: nothing is known to be wrong")
        case RejectedRow(stage=stage) if stage in _STAGES:
            target = row.verification[-1].target if row.verification else None
            return Recorded(_STAGES[stage], row.cause, target)
        case RejectedRow(stage="translate"):
            raise NothingFails(f"{row.cause}: it has no program: steptp translate FILE names the line of the source")
        case RejectedRow():
            raise NothingFails(f"{row.stage} left it out ({row.cause}), nothing of it fails: name another row")
        case StepRow() | TrajectoryRow():
            return Recorded()
        case _:
            raise NothingFails(
                f"a {row.row} row has no step that could fail: name a row of rejected, steps or trajectories"
            )


def source_of(row: Row, rows: Iterable[Row]) -> tuple[str, ProgramRow | None]:
    """The id of the source of a rejected row, a step or a trajectory, and its program row, if it is among others."""
    match row:
        case RejectedRow(source_id=key):
            pass
        case StepRow(source=source) | TrajectoryRow(source=source):
            key = source.id
        case _:
            raise ValueError(f"a {row.row} row has no source here")
    return key, next((other for other in rows if isinstance(other, ProgramRow) and other.id == key), None)


def subjects(row: Row, source: ProgramRow | None, others: Iterable[Row], inputs: Inputs) -> Iterator[Subject]:
    """The last step alone; the whole trajectory, if it is known; the recorded programs, one against the other.

    `source`: the row of its program, `others`: rows of the same run, among which the steps before a rejected one are.
    """
    match row:
        case StepRow():
            step = Step(strategy=row.strategy, args=row.args)
            yield from _of_step(row.leir_before, step, row.leir_after, inputs, bit_exact=row.bit_exact)
            if source is not None and row.path:
                yield Subject(parse(source.leir), (*row.path, step), inputs=inputs)
        case TrajectoryRow():
            steps = tuple(Step(strategy=s.strategy, args=s.args) for s in row.steps)
            texts = [row.leir, *(s.leir_after for s in row.steps)]
            for before, step, taken in zip(texts, steps, row.steps, strict=False):
                yield from _of_step(before, step, taken.leir_after, inputs, bit_exact=taken.bit_exact)
            yield Subject(parse(row.leir), steps, inputs=inputs)
        case RejectedRow(leir_before=str(before), step=Step() as step):
            narrated = None
            if row.stage == "narrate":
                narrated = row_id(row.source_id, row.state_id_before or "", step_json(step))
            exact = row.cause == "not-bit-exact"
            yield from _of_step(before, step, row.leir_after, inputs, bit_exact=exact, narrated=narrated)
            if source is not None and row.leir_after is not None:
                path = _steps_to(before, source, others)
                if path:
                    yield Subject(parse(source.leir), (*path, step), inputs=inputs)
                yield Subject(parse(row.leir_after), against=parse(source.leir), inputs=inputs)
        case RejectedRow(leir_after=str(program)):
            yield Subject(parse(program), inputs=inputs)
        case _:
            return


def _of_step(
    before: str, step: Step, after: str | None, inputs: Inputs, *, bit_exact: bool, narrated: str | None = None
) -> Iterator[Subject]:
    yield Subject(parse(before), (step,), narrated=narrated, inputs=inputs)
    if after is not None and narrated is None:
        yield Subject(parse(after), against=parse(before), bit_exact=bit_exact, inputs=inputs)


def _steps_to(text: str, source: ProgramRow, rows: Iterable[Row]) -> tuple[Step, ...]:
    """The steps from the source to a program, which the filter may have left out; none where they are not known."""
    taken: dict[str, tuple[str, Step]] = {}
    for row in rows:
        if isinstance(row, StepRow) and row.source.id == source.id and not row.undoes:
            taken.setdefault(row.leir_after, (row.leir_before, Step(strategy=row.strategy, args=row.args)))
            continue
        match row:
            case RejectedRow(stage="filter", leir_before=str(before), step=Step() as step, leir_after=str(after)):
                if row.source_id == source.id:
                    taken.setdefault(after, (before, step))
            case _:
                pass
    return _back(text, source.leir, taken)


def _back(text: str, start: str, taken: Mapping[str, tuple[str, Step]]) -> tuple[Step, ...]:
    path: list[Step] = []
    seen: set[str] = set()
    while text != start:
        if text not in taken or text in seen:
            return ()
        seen.add(text)
        text, step = taken[text]
        path.insert(0, step)
    return tuple(path)
