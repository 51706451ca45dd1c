"""The command that scores a model's answer."""

from typing import Annotated

import typer

from stepTP.commands.show import InputError, Json, Target, print_json, read_text


def score(
    answer: Annotated[str, typer.Argument(help="A file with a model's reply; - reads standard input.")],
    row: Annotated[str, typer.Option(help="The row whose state is asked about: runs/a#12, or an id after the #.")],
    target: Annotated[list[Target] | None, typer.Option(help="Verify on this target; may be given again.")] = None,
    needs_step: Annotated[
        bool, typer.Option("--needs-step/--any-program", help="Whether a legal step is wanted.")
    ] = True,
    timeout: Annotated[float, typer.Option(help="Seconds that each part of the work may take.", min=1)] = 60.0,
    measure: Annotated[bool, typer.Option("--measure", help="Time an accepted program and the state before.")] = False,
    json: Json = False,
) -> None:
    """Say what becomes of an answer: parsed, legal, equal. Exit code 1 unless it is equal, and legal as asked."""
    from stepTP.commands.rows import find_row
    from stepTP.verify import STAGES, Scorer, task_of_row
    from stepTP.verify.devices import cuda_devices

    text = read_text(answer)
    step, program = find_row(row)
    targets = tuple(sorted({t.value for t in target or [Target.llvm]}))
    if "cuda" in targets and not cuda_devices():
        raise InputError(f"{row}: no CUDA device here: give --target llvm, or score where there is a GPU")
    with Scorer(workers=1, timeout_s=timeout) as scorer:
        report = scorer.score(text, task_of_row(step, program, targets=targets, needs_step=needs_step), measure=measure)
    if json:
        print_json({**report.model_dump(mode="json"), "accepted": report.accepted})
    else:
        for name in STAGES:
            outcome = report.outcome(name)
            why = ": ".join(part for part in (outcome.code, outcome.message) if part)
            print(f"{name.replace('_', '-'):12}{outcome.status:13}{why}".rstrip())
        for verdict in report.verification:
            used = f"{verdict.bound_used:.3g} of a bound used at most"
            print(f"{verdict.target}: max abs error {verdict.max_abs:.3g}, {used}")
        print("accepted" if report.accepted else "not accepted")
    if report.error is not None:
        raise InputError(f"{row}: cannot be scored ({report.error.kind}): {report.error.message}: verify the row first")
    if not report.accepted:
        raise typer.Exit(1)
