"""Commands on the rows of a dataset: verify, replay, stats, show."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepTP.commands.show import InputError, Json, Target, print_json, print_table

if TYPE_CHECKING:
    from stepTP.records import MeasurementRow, ProgramRow, StepRow

RunOrFile = Annotated[Path, typer.Argument(help="The folder of a run, or a .jsonl file of its rows.")]
Workers = Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)]
BATCH = 16  # rows of one replay job


def verify(
    where: RunOrFile,
    target: Annotated[list[Target] | None, typer.Option(help="Only on this target; may be given again.")] = None,
    draws: Annotated[
        int | None, typer.Option(help="Input draws of each kind; a run's own by default, else 1.", min=1)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Keys the draws; a run's own by default, else 0.", min=0)] = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Compile and run the program of every step again, against its PyTorch source. Exit code 1 if one fails."""
    from pydantic import ValidationError

    from stepTP.config import Verify
    from stepTP.publish.published import identity_of
    from stepTP.verify.devices import cuda_devices
    from stepTP.verify.pool import Pool
    from stepTP.walk import Check, verify_all

    steps, programs = step_rows(where)
    recorded = {verdict.target for row in steps for verdict in row.verification}
    targets = tuple(sorted({t.value for t in target} if target else recorded))
    if "cuda" in targets and not cuda_devices():
        raise InputError(f"{where}: no CUDA device here: give --target llvm, or verify where there is a GPU")
    begun = identity_of(where) if where.is_dir() else None
    try:
        draws = draws or (Verify.model_validate(begun.config.get("verify", {})).draws if begun else 1)
        settings = Verify.model_validate({"targets": targets, "draws": draws})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        named = ".".join(map(str, first["loc"]))
        raise InputError(f"{where}: {named}: {first['msg']}: give --target and --draws, or rebuild it") from None
    key = seed if seed is not None else begun.seed if begun else 0
    problems: list[dict[str, str]] = []
    gpus = cuda_devices() if "cuda" in targets else ()
    with Pool(workers, gpus=gpus) as pool, _bar("verify", len(steps)) as bar:

        def one_source(rows: list["StepRow"]) -> list[dict[str, str]]:
            source = programs.get(rows[0].source.id)
            if source is None:
                raise InputError(f"{where}: {rows[0].source.id}: its program row is missing: verify the whole run")
            checks = [Check(row.leir_after, row.leir_before, row.bit_exact) for row in rows]
            answers = verify_all(pool, settings, key, source, checks)
            found = [(row.id, _verdict_problem(answer)) for row, answer in zip(rows, answers, strict=True)]
            return [{"id": name, "message": message} for name, message in found if message]

        groups = [list(rows) for _, rows in groupby(steps, lambda row: row.source.id)]
        threads = ThreadPoolExecutor(2 * pool.workers + 1)
        try:
            for rows, found in zip(groups, threads.map(one_source, groups), strict=True):
                problems += found
                bar.update(len(rows))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)  # threads at work end when the pool is killed
    _report("verified", len(steps), problems, json)


def _verdict_problem(answer: Any) -> str:
    """What speaks against a step; empty where nothing does."""
    from stepTP.verify.pool import Failure

    if isinstance(answer, Failure):
        return answer.message
    return "" if answer["ok"] else f"{answer['cause']}: {answer['message']}"


def replay(where: RunOrFile, workers: Workers = None, json: Json = False) -> None:
    """Take every step again from its JSON, and from its reasoning. Exit code 1 if a text differs."""
    from stepTP.verify.pool import Failure, Pool

    steps, _ = step_rows(where)
    problems: list[dict[str, str]] = []
    with Pool(workers) as pool, _bar("replay", len(steps)) as bar:
        batches = [steps[n : n + BATCH] for n in range(0, len(steps), BATCH)]
        asked = [pool.submit("stepTP.replay.replay", {"rows": [_replayed(row) for row in b]}) for b in batches]
        for batch, future in zip(batches, asked, strict=True):
            answer = future.result()
            bar.update(len(batch))
            if isinstance(answer, Failure):
                problems += [{"id": row.id, "message": answer.message} for row in batch]
            else:
                problems += answer
    _report("replayed", len(steps), problems, json)


def _replayed(row: "StepRow") -> dict[str, Any]:
    return {
        "id": row.id,
        "before": row.leir_before,
        "state_id_before": row.state_id_before,
        "step": {"strategy": row.strategy, "args": row.args},
        "facts": [fact.model_dump() for fact in row.facts],
        "after": row.leir_after,
        "state_id_after": row.state_id_after,
        "reasoning": row.reasoning,
        "answer": row.answer,
    }


def stats(run: Annotated[Path, typer.Argument(help="The folder of a run.")], json: Json = False) -> None:
    """Count what a run holds: strategies, families, depths, rejects, refusals, errors, tokens."""
    from stepTP.measurements import summary
    from stepTP.publish.published import measurements_of
    from stepTP.stats import statistics

    found = statistics(run)
    if measured := measurements_of(run):
        found["measurements"] = summary(measured)
    if json:
        print_json(found)
        return
    strategies = found.pop("strategies")
    rows = [(name, s["rows"], f"{s['share']:.1%}", s["families"]) for name, s in strategies.items()]
    print_table(("strategy", "rows", "share", "families"), rows)
    for title, value in found.items():
        print()
        if isinstance(value, dict):
            print_table(
                (title.replace("_", " "), ""), [(k, v if isinstance(v, int) else _short(v)) for k, v in value.items()]
            )
        else:
            print(f"{title.replace('_', ' ')}: {value}")


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_short(v)}" for k, v in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def show(
    row: Annotated[str, typer.Argument(help="RUN or FILE.jsonl, then # and a row's number (from 0) or id: runs/a#12.")],
    json: Json = False,
) -> None:
    """Print one step row for reading."""
    found, _ = find_row(row)
    measured = _measured(Path(row.partition("#")[0]), found)
    if json:
        joined = {"measurements": [m.model_dump(mode="json") for m in measured]} if measured else {}
        print_json(found.model_dump(mode="json") | joined)
        return
    from stepTP.report.terminal import describe_measurement, describe_row, terminal_width

    width = terminal_width()
    print(describe_row(found, colours=width is not None and "NO_COLOR" not in os.environ, width=width))
    if measured:
        print("\n" + "\n".join(("measured", *(describe_measurement(m, width) for m in measured))))


def _measured(where: Path, row: "StepRow") -> "list[MeasurementRow]":
    """What is known of how long the program after a step takes, on any machine and at any sizes."""
    from stepTP.publish.published import measurements_of

    key = (row.source.id, "program", row.state_id_after)
    table = measurements_of(where if where.is_dir() else where.parent)
    return [m for m in table if (m.source_id, m.subject, m.state_id) == key]


def step_rows(where: Path) -> tuple[list["StepRow"], dict[str, "ProgramRow"]]:
    """The step rows of a run or file, and the program rows beside them by source. Raises InputError."""
    from stepTP.records import ProgramRow, StepRow, read_rows
    from stepTP.stats import run_rows

    if where.is_dir():
        rows = [*run_rows(where, "steps"), *run_rows(where, "programs")]
    elif where.is_file():
        rows = list(read_rows(where))
        beside = where.parent / "programs.jsonl"
        if beside.is_file() and not any(isinstance(row, ProgramRow) for row in rows):
            rows += read_rows(beside)
    else:
        raise InputError(f"{where}: no such run or file: give a run's folder, like runs/quickstart")
    steps = [row for row in rows if isinstance(row, StepRow)]
    if not steps:
        raise InputError(f"{where}: holds no step rows: give a run's folder, or its steps.jsonl")
    return steps, {row.id: row for row in rows if isinstance(row, ProgramRow)}


def find_row(row: str) -> tuple["StepRow", "ProgramRow | None"]:
    """The step row that RUN#ROW names, and the program row of its source where the run has it. Raises InputError."""
    where, _, which = row.partition("#")
    steps, programs = step_rows(Path(where))
    found = _chosen(steps, Path(where), which or "0")
    return found, programs.get(found.source.id)


def _chosen(steps: list["StepRow"], where: Path, which: str) -> "StepRow":
    if which.isdecimal() and len(which) < 16:
        found = list(islice(steps, int(which), int(which) + 1))
        if not found:
            raise InputError(f"{where}#{which}: the rows are numbered 0 to {len(steps) - 1}")
        return found[0]
    found = [row for row in steps if row.id.startswith(which)]
    if len(found) != 1:
        problem = f"{len(found)} rows have such an id" if found else "no row has that id"
        raise InputError(f"{where}#{which}: {problem}: give all 16 digits, or a number from 0 to {len(steps) - 1}")
    return found[0]


def _bar(what: str, count: int) -> Any:
    """A progress bar over rows; none where nobody looks."""
    from tqdm import tqdm

    return tqdm(total=count, desc=what, unit="row", disable=None)


def _report(done: str, count: int, problems: list[dict[str, str]], json: bool) -> None:
    """What was found, in words or JSON; ends the command with code 1 where it was not clean."""
    if json:
        print_json({"rows": count, "failed": problems})
    else:
        for problem in problems:
            print(f"{problem['id']}: {problem['message']}")
        print(f"{done}: {count - len(problems)} of {count} rows")
    if problems:
        raise typer.Exit(1)
