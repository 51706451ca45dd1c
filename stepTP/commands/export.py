"""The command export: training files for the tools that people train with."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stepTP.commands.show import Json, print_json, print_table


class FormatChoice(StrEnum):
    sft = "sft"
    sft_reasoning_content = "sft_reasoning_content"
    sharegpt = "sharegpt"
    stepwise = "stepwise"
    rl = "rl"


class TextChoice(StrEnum):
    leir = "leir"
    tir = "tir"
    cuda = "cuda"


class AnswerChoice(StrEnum):
    program = "program"
    step = "step"


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    format_: Annotated[FormatChoice, typer.Option("--format", help="Whose files; the README has a table.")],
    out: Annotated[Path | None, typer.Option(help="The folder; RUN/export/<format> by default.")] = None,
    text: Annotated[TextChoice, typer.Option(help="How prompts spell programs.")] = TextChoice.leir,
    reasoning: Annotated[bool, typer.Option("--reasoning/--no-reasoning", help="Whether to think first.")] = True,
    answer: Annotated[
        AnswerChoice, typer.Option(help="The step with the program after it, or alone; alone with tir and cuda.")
    ] = AnswerChoice.program,
    filtered: Annotated[
        bool, typer.Option("--filtered/--unfiltered", help="The run's steps, or those that its filter left out, too.")
    ] = True,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    json: Json = False,
) -> None:
    """Write a run's rows as training examples: train, validation and test, a line of JSON each."""
    from stepTP.export.formats import Wanted
    from stepTP.export.write import default_folder, export_run

    wanted = Wanted(text.value, reasoning, answer is AnswerChoice.program, filtered)
    made = export_run(run, format_.value, wanted, out or default_folder(run, format_.value, wanted), workers)
    if json:
        print_json({"folder": str(made.folder), "examples": made.examples})
    else:
        print_table(("file", "examples"), [(f"{made.folder}/{name}.jsonl", n) for name, n in made.examples.items()])
