"""Commands on a build: make or continue one, and see how far it is."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepTP.commands.measure import show_rows
from stepTP.commands.show import Json, print_json, print_table

if TYPE_CHECKING:
    from stepTP.config import Measure
    from stepTP.records import MeasurementRow


class Executor(StrEnum):
    local = "local"
    slurm = "slurm"
    ray = "ray"


def build(
    config: Annotated[Path, typer.Argument(help="A YAML file, like configs/quickstart.yaml.")],
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; runs/<name of the configuration> by default.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    cache: Annotated[
        bool,
        typer.Option(help="Keep verdicts for later builds, and use those of earlier ones, in $STEPTP_CACHE."),
    ] = True,
    executor: Annotated[
        Executor | None, typer.Option(help="Build by ranks: on this machine, by Slurm, or on a Ray cluster.")
    ] = None,
    tasks: Annotated[int | None, typer.Option(help="Ranks in all; one for each shard by default.", min=1)] = None,
    at_once: Annotated[int, typer.Option(help="Ranks that run together.", min=1)] = 1,
    partition: Annotated[str, typer.Option(help="Of Slurm.")] = "",
    time: Annotated[str, typer.Option(help="Of one rank, as Slurm writes it.")] = "04:00:00",
    environment: Annotated[str, typer.Option(help="A shell command that sets up Python on Slurm's nodes.")] = "",
    json: Json = False,
) -> None:
    """Build a dataset. The same command continues one that was stopped, and does nothing to one that is done."""
    from tqdm import tqdm

    from stepTP.config import ConfigError, load_config
    from stepTP.pipeline import build as build_run
    from stepTP.pipeline import default_folder
    from stepTP.verify.kept import default_folder as cache_folder

    settings = load_config(config)
    if settings.tokens:
        from stepTP.tokens import vocabulary

        vocabulary()
    folder = out or default_folder(settings)
    if executor is not None:
        from stepTP.pipeline import planned_shards
        from stepTP.scale import Ranks, launch

        ranks = Ranks(
            tasks or len(planned_shards(settings)), at_once, workers or 1,
            settings.verify.memory_mb / 1024 * (workers or 1) + 1, partition, time, environment,
        )  # fmt: skip
        if launch(settings, folder, executor.value, ranks) is None:
            print(f"{folder}: {ranks.tasks} ranks are queued, and a job that finishes; see `steptp status {folder}`")
            return
    bar: Any = tqdm(unit="source", desc=settings.name, disable=None)  # None: no bar where nobody looks

    def progress(done: int, of: int) -> None:
        bar.total = of
        bar.update(done - bar.n)

    try:
        with bar:
            report = build_run(settings, folder, workers, progress, cache_folder() if cache else None)
    except ConfigError as error:
        raise ConfigError(f"{config}: {error}") from None
    measured = _measured(folder, settings.measure, workers) if settings.measure.targets else []
    if json:
        counts = {"shards_made": report.shards_made, "shards": report.shards, "second_pass": report.second_pass}
        print_json(
            {
                "run": str(folder),
                **counts,
                "rows": report.rows,
                "rejected": report.rejected,
                "measurements": len(measured),
            }
        )
        return
    if report.shards_made:
        print(f"{folder}: made {report.shards_made} of {report.shards} shards")
    elif report.second_pass:
        print(f"{folder}: all {report.shards} shards were there; made the files from them again")
    else:
        print(f"{folder}: nothing to do: all {report.shards} shards and the files made from them are whole")
    print_table(("rows", "count"), list(report.rows.items()))
    print()
    print_table(("rejected", "count"), list(report.rejected.items()))
    if measured:
        print()
        show_rows(measured)


def _measured(folder: Path, settings: "Measure", workers: int | None) -> "list[MeasurementRow]":
    """Times the finished run, with the machine to itself: all workers of the build have ended."""
    from stepTP.commands.measure import measured_run
    from stepTP.measurements import Request
    from stepTP.verify.measure.timing import TimingPlan

    plan = TimingPlan(repeats=settings.repeats)
    return [
        row
        for target in settings.targets
        for row in measured_run(folder, Request(target, plan), limit=settings.limit, workers=workers)
    ]


def status(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    json: Json = False,
) -> None:
    """Say how far a run is and whether its files are whole. Exit code 0 when it is done, else 1."""
    from stepTP.manifest import Run, intact, load_manifest
    from stepTP.pipeline import OUTPUTS

    manifest = load_manifest(run)
    whole = [name for name, entry in manifest.shards.items() if intact(run / name, entry)]
    damaged = [
        name for name, entry in (*manifest.shards.items(), *manifest.outputs.items()) if not intact(run / name, entry)
    ]
    rows = {name: sum(e.counts.values()) for name, e in manifest.outputs.items() if name.endswith(".jsonl")}
    made_from = Run(run, manifest).raw_digest()
    selected = all(name in manifest.outputs and manifest.outputs[name].made_from == made_from for name in OUTPUTS)
    done = manifest.planned == len(whole) and selected and not damaged
    state = {
        "run": str(run),
        "done": done,
        "shards": len(whole),
        "planned": manifest.planned,
        "missing_or_damaged": damaged,
        "rows": rows,
        "identity": manifest.identity.model_dump(mode="json"),
    }
    if json:
        print_json(state)
    else:
        word = "done" if done else "not done: run the same build again"
        print(f"{run}: {word}, {len(whole)} of {manifest.planned} shards")
        for name in damaged:
            print(f"{run / name}: missing or damaged: run the same build again")
        print_table(("file", "rows"), list(rows.items()))
    if not done:
        raise typer.Exit(1)
