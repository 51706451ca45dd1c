"""Commands to look at runs: a page of one, and what two differ in."""

from pathlib import Path
from typing import Annotated

import typer

from stepTP.commands.show import Json, print_json, print_table, require_place


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or of a published dataset.")],
    out: Annotated[Path | None, typer.Option(help="The page; RUN/report.html by default.")] = None,
    rows: Annotated[int, typer.Option(help="So many rows to browse, of each strategy in turn.", min=1)] = 400,
) -> None:
    """Write one HTML page on a run that needs no network: balance, errors, refusals, speed, rows to browse."""
    from stepTP.manifest import is_published, write_whole
    from stepTP.report.page import page

    place = out or (Path(f"{run.name}.html") if is_published(run) else run / "report.html")
    require_place(place)
    write_whole(place, page(run, rows).encode())
    print(place)


def diff(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or of a published dataset.")],
    other: Annotated[Path, typer.Argument(help="Another.")],
    json: Json = False,
) -> None:
    """Say what two runs differ in: what they were made with, and rows by id. Exit code 1 if they differ."""
    from stepTP.report.difference import difference_of

    found = difference_of(run, other)
    if json:
        print_json(found.as_json())
    else:
        for line in found.made_with:
            print(line)
        head = ("rows", str(run), str(other), "only first", "only second", "differ")
        print_table(head, [(config, *counts) for config, counts in found.rows.items()])
        if found.strategies:
            print()
            print_table(("strategy", str(run), str(other)), found.strategies)
        for line in found.examples:
            print(line)
        print("equal" if found.equal else "different")
    if not found.equal:
        raise typer.Exit(1)
