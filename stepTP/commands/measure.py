"""The command measure: how long verified programs take, on a device that does nothing else."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepTP.commands.show import InputError, Json, Target, name_of, print_json, print_table, require_place

if TYPE_CHECKING:
    from stepTP.measurements import Phase, Request
    from stepTP.records import MeasurementRow


def measure(
    where: Annotated[str, typer.Argument(help="The folder of a run, or one LEIR program; - reads standard input.")],
    target: Annotated[Target, typer.Option(help="On what.")] = Target.llvm,
    limit: Annotated[int | None, typer.Option(help="So many states, of all sources in turn.", min=1)] = None,
    repeats: Annotated[int, typer.Option(help="Repeats that a figure is the median of.", min=3)] = 30,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE for a constant of the sources: at other sizes; may be given again."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure what the table has already, too.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds for one program.", min=1)] = 300.0,
    workers: Annotated[
        int | None, typer.Option(help="Processes that compile while nothing is timed; one a core by default.", min=1)
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="The file of the table; RUN/measurements.jsonl by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Time programs against their parents, their source and PyTorch. Continues where it was stopped.

    Let nothing else run meanwhile. Exit code 1 if a program has no latency that may be believed.
    """
    from stepTP.commands.translating import override
    from stepTP.measurements import Request
    from stepTP.verify.devices import cuda_devices
    from stepTP.verify.measure.timing import TimingPlan

    if target is Target.cuda and not cuda_devices():
        raise InputError(f"{where}: no CUDA device here: give --target llvm, or measure where there is a GPU")
    request = Request(target.value, TimingPlan(repeats=repeats), sizes=dict(override(text) for text in set_ or []))
    if Path(where).is_dir():
        if table is not None:
            require_place(table)
        rows = measured_run(
            Path(where), request, limit=limit, again=again, timeout=timeout, workers=workers, table=table
        )
    elif set_ or limit or again or workers or table:
        raise InputError(
            f"{name_of(where)}: --set, --limit, --again, --workers and --table are for the folder of a run"
        )
    else:
        rows = _file_rows(where, request, timeout)
    if json:
        print_json([row.model_dump(mode="json") for row in rows])
    else:
        show_rows(rows)
    if not rows or any(row.status != "ok" for row in rows if row.subject == "program"):
        raise typer.Exit(1)


def measured_run(
    folder: Path,
    request: "Request",
    *,
    limit: int | None = None,
    again: bool = False,
    timeout: float = 300.0,
    workers: int | None = None,
    table: Path | None = None,
) -> "list[MeasurementRow]":
    """`measure_run` with a progress bar, verified with the run's own draws."""
    from tqdm import tqdm

    from stepTP.measurements import measure_run, verified_as

    bar: Any = tqdm(unit="program", desc="measure", disable=None)

    def progress(done: int, of: int, phase: "Phase") -> None:
        bar.total = of
        bar.set_description(phase, refresh=False)
        bar.update(done - bar.n)
        bar.refresh()

    with bar:
        return measure_run(
            folder,
            verified_as(folder, request),
            limit=limit,
            again=again,
            timeout_s=timeout,
            workers=workers,
            progress=progress,
            table=table,
        )


def _file_rows(file: str, request: "Request", timeout: float) -> "list[MeasurementRow]":
    """The row of one program, which is its own reference: it has no parent, source or module to be compared with."""
    from leir.canonical import state_id
    from leir.printer import to_text
    from stepTP.commands.language import well_formed
    from stepTP.measurements import Source, measure_alone

    program = well_formed(file)
    source = Source(name_of(file), "", "", to_text(program), state_id(program))
    return measure_alone(source, request, timeout)


def show_rows(rows: "Sequence[MeasurementRow]") -> None:
    """The rows as a table, then what is wrong with those that are not ok."""
    if not rows:
        print("nothing to measure")
        return
    header = ("program", "source", "step", "us", "spread", "vs parent", "vs source", "vs eager", "roofline")
    print_table(header, [_cells(row) for row in rows])
    machine, wrong = rows[0].machine, [row for row in rows if row.status != "ok"]
    for row in wrong:
        print(f"{row.source_id} {row.state_id[:8]}: {row.status}: {row.message}")
    cold = sum(row.timing.cold for row in rows if row.timing)
    print(
        f"{len(rows) - len(wrong)} of {len(rows)} timed on {machine.device} ({machine.target}), {cold} from cold caches"
    )


def _cells(row: "MeasurementRow") -> tuple[str, ...]:
    from stepTP.report.terminal import compared

    timing, limit = row.timing, row.roofline
    return (
        "PyTorch eager" if row.subject == "eager" else row.state_id[:8],
        row.source_id,
        row.strategy or "",
        f"{timing.median_us:.4g}" if timing else row.status,
        f"{timing.spread_us:.2g}" if timing else "",
        *(compared(c) for c in (row.speedup_vs_parent, row.speedup_vs_source, row.speedup_vs_eager)),
        f"{limit.fraction:.1%} of {'memory' if limit.memory_us == limit.ceiling_us else 'compute'}" if limit else "",
    )
