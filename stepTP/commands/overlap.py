"""Commands that ask a run whether it is fit for use: its balance, and what it shares with a benchmark."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stepTP.commands.show import InputError, Json, print_json, print_table, require_place

RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.")]


def balance(run: RunFolder, json: Json = False) -> None:
    """Show how steps are spread before and after the filter. Exit code 1 where that is not as the configuration wants.

    What is wanted are `filter.min_share`, `max_share` and `min_rows`.
    """
    import json as json_module

    from stepTP.manifest import RunError, intact, load_manifest

    entry = load_manifest(run).outputs.get("balance.json")
    if entry is None or not intact(run / "balance.json", entry):
        raise RunError(f"{run}: balance.json is missing or damaged: run the same build again")
    found = json_module.loads((run / "balance.json").read_text(encoding="utf-8"))
    if json:
        print_json(found)
    else:
        for view, names in found["views"].items():
            bits = found["entropy_bits"][view]
            total = sum(sides["after"] for sides in names.values())
            print_table(
                (view, "before", "after", "share"),
                [(n, s["before"], s["after"], f"{s['after'] / max(1, total):.2%}") for n, s in names.items()],
            )
            print(f"entropy {bits['before']} bits before, {bits['after']} after\n")
        print_table(("dropped", "rows"), list(found["dropped"].items()))
        for sentence in found["outside"]:
            print(f"not as wanted: {sentence}")
    if found["outside"]:
        raise typer.Exit(1)


def decontaminate(
    run: RunFolder,
    against: Annotated[Path, typer.Option(help="A folder of PyTorch files in KernelBench's form.")],
    out: Annotated[Path | None, typer.Option(help="Write the whole report there, as JSON.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    json: Json = False,
) -> None:
    """Say which programs of a benchmark a run holds: as text, up to names and sizes, or in structure, in any state.

    Files are Python programs, and they run, in processes of their own. Exit code 1 where training shares something.
    """
    from tqdm import tqdm

    from stepTP.decontaminate import contamination
    from stepTP.records import ProgramRow, StepRow
    from stepTP.stats import run_rows

    if out is not None:
        require_place(out)
    if not against.is_dir() or not any(against.rglob("*.py")):
        raise InputError(f"{against}: no folder of Python files: name the benchmark's")
    programs = [row for row in run_rows(run, "programs") if isinstance(row, ProgramRow)]
    steps = (row for row in run_rows(run, "steps") if isinstance(row, StepRow))
    bar: Any = tqdm(unit="job", desc="decontaminate", disable=None)

    def progress(done: int, of: int) -> None:
        bar.total = of
        bar.update(done - bar.n)

    with bar:
        report = contamination(programs, steps, against, workers, progress)
    if out is not None:
        out.write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    if json:
        print_json(report.model_dump(mode="json"))
    else:
        print(f"{report.files} files against {report.sources} programs and {report.states} states")
        print_table(
            ("files", "count"), [(f"same {how}" if how != "none" else how, n) for how, n in report.found.items()]
        )
        print()
        print_table(
            ("file", "same", "source", "split"), [(o.file, o.how, o.source_id, o.split) for o in report.overlaps]
        )
        for cause, files in report.untranslated.items():
            print(f"compared by text alone, {cause}: {len(files)} files")
    if any(overlap.split == "train" for overlap in report.overlaps):
        raise typer.Exit(1)
