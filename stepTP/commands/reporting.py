"""Commands to look at runs: a page of one, and what two differ in."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepTP.commands.show import Json, print_json, print_table, require_place

if TYPE_CHECKING:
    from stepTP.report.difference import Difference


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or of a published dataset.")],
    out: Annotated[Path | None, typer.Option(help="The page; RUN/report.html by default.")] = None,
    rows: Annotated[int, typer.Option(help="So many rows to browse, of each strategy in turn.", min=1)] = 400,
) -> None:
    """Write one HTML page on a run that needs no network: balance, errors, refusals, speed, rows to browse."""
    from stepTP.manifest import is_published, write_whole
    from stepTP.publish.published import identity_of
    from stepTP.report.page import page

    identity_of(run)  # a run that is not there is told before a place that is not
    place = out or (Path(f"{run.resolve().name}.html") if is_published(run) else run / "report.html")
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
        _print(run, other, found)
    if not found.equal:
        raise typer.Exit(1)


def _print(run: Path, other: Path, found: "Difference") -> None:
    """The difference in parts, of which there are those that have something in them. Digests are cut to 12 digits."""
    from stepTP.report.terminal import terminal_width, wrapped

    width = terminal_width()
    print_table(("first", str(run)), [("second", str(other))])
    print()
    head = ("rows", "first", "second", "only first", "only second", "differ")
    print_table(head, [(config, *counts) for config, counts in found.rows.items()])
    made_with = [re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", line) for line in found.made_with]
    columns = [f"{config}: {_counted(tally)}" for config, tally in found.columns.items()]
    parts = {"made with": made_with, "columns that differ": columns, "for example": found.examples}
    for title, lines in parts.items():
        if lines:
            print(f"\n{title}\n" + "\n".join(part for line in lines for part in wrapped(line, width)))
    if found.strategies:
        print()
        print_table(("steps of", "first", "second"), found.strategies)
    print("\nequal" if found.equal else "\ndifferent")


def _counted(tally: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in tally.items())
