"""The command rephrase: the reasoning of a run's steps in the words of a teacher model, under the same checks."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from stepTP.commands.show import InputError, Json, print_json


def rephrase(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    endpoint: Annotated[str, typer.Option(help="An OpenAI-compatible server: http://localhost:8000/v1.")],
    model: Annotated[str, typer.Option(help="The model that the server is asked for.")],
    limit: Annotated[int | None, typer.Option(help="Only the first so many steps.", min=1)] = None,
    attempts: Annotated[int, typer.Option(help="Replies a step, until one passes the checks.", min=1)] = 3,
    requests: Annotated[int, typer.Option(help="Steps that are asked about at once.", min=1)] = 8,
    temperature: Annotated[float | None, typer.Option(help="Of the model.", min=0)] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Of a reply.", min=1)] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that check; one a core by default.", min=1)] = None,
    json: Json = False,
) -> None:
    """Let a teacher model rephrase the reasoning, into a table of its own: RUN/rephrasings.jsonl.

    A reply stands only if it names nothing new and gives the step back. Continues where it was stopped; exit code 1 if
    a step has none. A server that does not answer ends it.
    """
    from tqdm import tqdm

    from stepTP.chat import Endpoint
    from stepTP.manifest import is_published, locked
    from stepTP.narrate.teacher import CHECK, Rephrasing, rephrased, rephrasing_id
    from stepTP.records import RephrasingRow, StepRow
    from stepTP.stats import run_rows
    from stepTP.tables import appending, read_table
    from stepTP.verify.pool import Failure, Pool

    if is_published(run):
        raise InputError(f"{run}: is a published dataset: give the folder of the build itself, and publish that again")
    steps = [row for row in run_rows(run, "steps") if isinstance(row, StepRow)][:limit]
    teacher = Endpoint(endpoint, model, temperature=temperature, max_tokens=max_tokens)
    file = run / "rephrasings.jsonl"
    with locked(run), Pool(workers, tasks=(CHECK,)) as pool:
        known = {row.id: row for row in read_table(file, RephrasingRow) if row.status != "failed"}

        def judge(payload: dict[str, Any]) -> str:
            answer = pool.submit(CHECK, payload).result()
            return answer.message if isinstance(answer, Failure) else answer

        wanted = {rephrasing_id(row, model): row for row in steps}
        with appending(file) as append, tqdm(total=len(wanted), unit="step", desc="rephrase", disable=None) as bar:
            bar.update(len(known.keys() & wanted.keys()))
            for row in rephrased(steps, teacher, judge, Rephrasing(attempts, requests), known):
                append(row)
                known[row.id] = row
                bar.update(1)
    found = [known[name] for name in wanted if name in known]
    counts = Counter(row.status for row in found)
    causes = Counter(row.message.split(": ")[-1] for row in found if row.status != "ok")
    if json:
        print_json({"steps": len(wanted), **dict(sorted(counts.items())), "causes": dict(causes.most_common())})
    else:
        print(f"{counts['ok']} of {len(wanted)} steps rephrased: {file}")
        for cause, count in causes.most_common(5):
            print(f"{count} without: {cause}")
    if counts["ok"] < len(wanted):
        raise typer.Exit(1)
