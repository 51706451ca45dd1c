"""The command that shrinks what fails."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepTP.commands.language import Engine
from stepTP.commands.show import InputError, Json, name_of, print_json, read_text, require_place

if TYPE_CHECKING:
    from stepTP.minimise.failing import Outcome, Trial
    from stepTP.minimise.rows import Recorded
    from stepTP.minimise.search import Search
    from stepTP.minimise.subject import Subject
    from stepTP.records import Row

_INTERRUPTED = 130
_DEFAULT_TARGETS = (Engine.llvm, Engine.interpreter)


def minimise(
    what: Annotated[
        str,
        typer.Argument(
            help="A LEIR program, or a row: RUN#ID, FILE.jsonl#N, or a file of its line alone; - reads standard input.",
            metavar="FILE|ROW",
        ),
    ],
    target: Annotated[
        list[Engine] | None,
        typer.Option(help="Where it fails; may be given again. A row's own, else llvm, interpreter."),
    ] = None,
    step: Annotated[
        list[str] | None, typer.Option(help="A step from the program, as JSON; several are taken one after the other.")
    ] = None,
    against: Annotated[str | None, typer.Option(help="The program that it should compute the same as.")] = None,
    cause: Annotated[str, typer.Option(help="Which of several diagnostics is to stay; the first by default.")] = "",
    draws: Annotated[
        int | None, typer.Option(help="Input draws of each kind; the run's, else 1.", min=1, max=100)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Keys the draws; the run's, else 0.", min=0)] = None,
    trials: Annotated[int, typer.Option(help="Candidates tried at most.", min=0)] = 3000,
    seconds: Annotated[float, typer.Option(help="Seconds after which no other is tried.", min=0)] = 900.0,
    timeout: Annotated[float, typer.Option(help="Seconds that each part of a trial may take.", min=0.1)] = 60.0,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the program, in place of standard output.")] = None,
    json: Json = False,
) -> None:
    """Shrink a program or a trajectory that fails to the smallest that still fails the same way. Ctrl-C prints the best
    so far; what is printed can be given again. Exit code 2 if it does not fail."""
    from stepTP.minimise.failing import TASKS, Trial
    from stepTP.minimise.reductions import REDUCTIONS
    from stepTP.minimise.search import Budget, Search
    from stepTP.verify.devices import cuda_devices
    from stepTP.verify.pool import Pool
    from stepTP.walk import EXPAND

    if out:
        require_place(out)
    suspects, recorded = _suspects(what, step or [], against, draws, seed)
    targets = target or ([Engine(recorded.target)] if recorded.target else [*_DEFAULT_TARGETS])
    gpus = cuda_devices() if Engine.cuda in targets else ()
    if Engine.cuda in targets and not gpus:
        raise InputError(f"{name_of(what)}: no CUDA device here: give --target llvm, or go where there is a GPU")
    search: Search | None = None
    try:
        with Pool(workers, timeout, gpus=gpus, tasks=(f"{TASKS}.run", EXPAND)) as pool, _bar(trials) as bar:
            trial = Trial(pool, tuple(dict.fromkeys(t.value for t in targets)))
            subject, outcome = _failing(name_of(what), trial, suspects, recorded, cause)
            search = Search(trial, subject, outcome, Budget(trials, seconds), pool.workers, lambda s: _tell(bar, s))
            search.run(REDUCTIONS)
            pool.kill()  # what is still tried is of no use
    except BaseException as error:
        if search is None:
            raise
        interrupted = isinstance(error, KeyboardInterrupt)
        search.stopped = "Ctrl-C" if interrupted else "an error"
        _show(search, out, json)
        if interrupted:
            raise typer.Exit(_INTERRUPTED) from None
        raise
    _show(search, out, json)


def _suspects(
    what: str, steps: Sequence[str], against: str | None, draws: int | None, seed: int | None
) -> "tuple[list[Subject], Recorded]":
    """What may fail, and how a row says that it does."""
    from dataclasses import replace

    from stepTP.minimise.rows import Recorded
    from stepTP.minimise.subject import read_step, read_subject

    given = {name: value for name, value in (("draws", draws), ("seed", seed)) if value is not None}
    where, mark, which = what.partition("#")
    is_row = bool(mark) and not Path(what).exists()
    text = "" if is_row else read_text(what)
    if is_row or text.lstrip().startswith("{"):
        if steps or against is not None:
            raise InputError(f"{name_of(what)}: a row has its own steps: give --step and --against to a program")
        return _of_reference(where, which, given) if is_row else _of_line(text, name_of(what), given)
    subject = read_subject(text, name_of(what))
    if steps:
        subject = replace(subject, steps=tuple(read_step(line, "--step") for line in steps))
    if against is not None:
        subject = replace(subject, against=read_subject(read_text(against), name_of(against)).program)
    if subject.steps and subject.against is not None:
        raise InputError(f"{name_of(what)}: steps lead on from the program itself: give --step or --against, not both")
    return [replace(subject, inputs=subject.inputs.model_copy(update=given))], Recorded()


def _of_line(text: str, name: str, given: dict[str, Any]) -> "tuple[list[Subject], Recorded]":
    from stepTP.records import rows_of_lines

    rows = list(rows_of_lines(text.strip().encode().split(b"\n"), name))
    if len(rows) != 1:
        raise InputError(f"{name}: holds {len(rows)} rows: name one, like {name}#0 for the first")
    return _of(rows[0], rows, given, name)


def _of_reference(where: str, which: str, given: dict[str, Any]) -> "tuple[list[Subject], Recorded]":
    """The row that RUN#ID or FILE#ROW names."""
    from stepTP.publish.published import identity_of
    from stepTP.records import read_rows
    from stepTP.stats import run_rows

    folder, rows = Path(where), list["Row"]()
    if folder.is_dir():
        for config in ("rejected", "steps", "trajectories", "programs"):
            rows += run_rows(folder, config)
        begun = identity_of(folder)
        given = {"draws": begun.config.get("verify", {}).get("draws", 1), "seed": begun.seed, **given}
    elif folder.is_file():
        rows += read_rows(folder)
        if which.isdecimal() and len(which) < 16:
            if int(which) >= len(rows):
                raise InputError(f"{where}#{which}: the rows are numbered 0 to {len(rows) - 1}")
            return _of(rows[int(which)], rows, given, f"{where}#{which}")
    else:
        raise InputError(f"{where}: no such run or file: give a run's folder, like runs/quickstart")
    found = [row for row in rows if which and row.row != "program" and row.id.startswith(which)]
    if len(found) != 1:
        problem = f"{len(found)} rows have such an id" if found else "no row has that id"
        raise InputError(f"{where}#{which}: {problem}: give all 16 digits of a step, a rejected one or a trajectory")
    return _of(found[0], rows, given, f"{where}#{which}")


def _of(row: "Row", rows: "list[Row]", given: dict[str, Any], name: str) -> "tuple[list[Subject], Recorded]":
    from leir.parser import ParseError
    from stepTP.minimise.rows import NothingFails, recorded, source_of, subjects
    from stepTP.minimise.subject import Inputs

    try:
        how = recorded(row)
    except NothingFails as error:
        raise InputError(f"{name}: {error}") from None
    key, source = source_of(row, rows)
    try:
        return list(subjects(row, source, rows, Inputs(id=key, **given))), how
    except ParseError as error:
        raise InputError(f"{name}: a program of this row is no LEIR: {error}: build the run again") from None


def _failing(
    name: str, trial: "Trial", suspects: "list[Subject]", recorded: "Recorded", cause: str
) -> "tuple[Subject, Outcome]":
    """The first of the suspects that fails, as it is said to. Raises InputError."""
    said: list[str] = []
    for subject in suspects:
        outcome = trial.outcome(subject, code=cause)
        failing = outcome.failing
        if failing is None:
            said.append(outcome.why)
        elif recorded.cause and (failing.cause != recorded.cause or failing.stage not in recorded.stages):
            said.append(f"it fails otherwise now, {failing}")
        elif cause and failing.cause != cause:
            raise InputError(f"{name}: does not fail by {cause}: {failing}: leave --cause out, or name another")
        else:
            return subject, outcome
    what = f"does not fail as recorded ({recorded.cause})" if recorded.cause else "does not fail"
    why = "; ".join(dict.fromkeys(" ".join(text.split()) for text in said))
    raise InputError(f"{name}: {what}: {why}: give a program or a row that fails, or --target where it does")


def _show(search: "Search", out: Path | None, json: bool) -> None:
    """The smallest that was found, and what it took. Where it cannot be written, it is printed. Raises OSError."""
    from leir.printer import to_text
    from stepTP.manifest import write_whole
    from stepTP.minimise.subject import figures

    best, failing = search.best, search.failing
    text = f"# fails: {' '.join(str(failing).split())}\n{best.text}"
    before, after = figures(search.original), figures(best)
    if json:
        print_json(
            {
                "failing": {
                    "stage": failing.stage,
                    "cause": failing.cause,
                    "target": failing.target,
                    "where": failing.where,
                    "message": failing.message,
                },
                "leir": to_text(best.program),
                "steps": [step.model_dump() for step in best.steps],
                "against": None if best.against is None else to_text(best.against),
                "text": text,
                "before": before,
                "after": after,
                "trials": search.trials,
                "stopped": search.stopped,
            }
        )
    elif not out:
        print(text, end="")
    sizes = ", ".join(f"{name} {before[name]} to {after[name]}" for name in before)
    typer.echo(f"{search.trials} trial{'' if search.trials == 1 else 's'}: {sizes}", err=True)
    if search.stopped:
        found = "nothing smaller is known yet" if best == search.original else "it may not be the smallest yet"
        more = ", with more --trials or --seconds," if search.spent else ""
        typer.echo(f"stopped by {search.stopped}, at {search.at}: {found}: give it again{more} to go on", err=True)
    if out:
        try:
            write_whole(out, text.encode())
        except OSError:
            if not json:
                print(text, end="")
            raise


def _bar(trials: int) -> Any:
    """A progress bar over trials; none where nobody looks."""
    from tqdm import tqdm

    return tqdm(total=trials, desc="minimise", unit="trial", disable=None)


def _tell(bar: Any, search: "Search") -> None:
    bar.update(search.trials - bar.n)
    bar.set_postfix(nodes=search.size.nodes, characters=search.size.characters, refresh=False)
