"""The commands of `steptp eval`: a model's single steps, and searches."""

import json as json_module
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepTP.commands.export import AnswerChoice, TextChoice
from stepTP.commands.show import InputError, Json, Target, print_json, print_table

if TYPE_CHECKING:
    from stepTP.evaluate.questions import Question, Reply
    from stepTP.evaluate.single import Asking
    from stepTP.records import ProgramRow, StepRow


evaluation = typer.Typer(help="Evaluate models and policies on held-out programs.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="A folder for replies, scores, summary.json and index.html; continues one.")]


@evaluation.command("single")
def single(
    where: Annotated[Path, typer.Argument(help="The folder of a run, or a .jsonl file of its rows: the states.")],
    out: Out,
    answers: Annotated[
        Path | None, typer.Option(help="A JSONL file of replies: question, sample, text, and tokens if known.")
    ] = None,
    endpoint: Annotated[str | None, typer.Option(help="An OpenAI-compatible server: http://localhost:8000/v1.")] = None,
    model: Annotated[str | None, typer.Option(help="The model that the server is asked for.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="A policy of stepTP.search: cost_model, heuristic, random.")
    ] = None,
    ask: Annotated[
        bool, typer.Option("--questions", help="Only write questions.jsonl, with prompts, for replies made elsewhere.")
    ] = False,
    family: Annotated[list[str] | None, typer.Option(help="Only this family; may be given again.")] = None,
    split: Annotated[str | None, typer.Option(help="Only rows of this split: train, validation, test.")] = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="Only rows of families, or of programs, that training does not see: family, program."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="So many states, of all families in turn.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Keys the choice of states, and the intervals.", min=0)] = 0,
    samples: Annotated[int, typer.Option(help="Replies that an endpoint is asked for, a state.", min=1)] = 1,
    temperature: Annotated[float | None, typer.Option(help="Of the endpoint's samples.", min=0)] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Of an endpoint's reply.", min=1)] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="List the strategies in the prompt, for a model that has not learnt them.")
    ] = False,
    answer: Annotated[
        AnswerChoice, typer.Option(help="The step with the program after it, or alone.")
    ] = AnswerChoice.program,
    reasoning: Annotated[bool, typer.Option(help="Whether the prompt asks for a thought before the answer.")] = True,
    text: Annotated[
        TextChoice, typer.Option(help="How prompts spell programs; with tir and cuda, answers are the step alone.")
    ] = TextChoice.leir,
    target: Annotated[list[Target] | None, typer.Option(help="Verify on this target; may be given again.")] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Time what is accepted; let nothing else run.")] = False,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    requests: Annotated[int, typer.Option(help="Requests that an endpoint has at once.", min=1)] = 8,
    timeout: Annotated[float, typer.Option(help="Seconds that each part of scoring an answer may take.", min=1)] = 60.0,
    json: Json = False,
) -> None:
    """Judge single steps: parsed, well-formed, legal, executable, equal, bit-equal; by family, with intervals.

    Run again with the same --out, it asks only for the replies that are missing there; a folder holds those of
    one model to one way of asking.
    """
    from stepTP.evaluate.metrics import summarise
    from stepTP.evaluate.page import single_page
    from stepTP.evaluate.questions import Reply, read_lines, replies_to
    from stepTP.evaluate.settings import require_same
    from stepTP.evaluate.single import SCORES, ask_endpoint, judge
    from stepTP.verify.devices import cuda_devices
    from stepTP.verify.scorer import Scorer

    if sum((answers is not None, endpoint is not None, policy is not None, ask)) != 1:
        raise InputError("eval single: give one of --answers FILE, --endpoint URL, --policy NAME and --questions")
    if (endpoint is None) != (model is None):
        raise InputError("eval single: --endpoint and --model go together: give both")
    targets = tuple(sorted({t.value for t in target or [Target.llvm]}))
    if "cuda" in targets and not cuda_devices():
        raise InputError("eval single: no CUDA device here: give --target llvm, or evaluate where there is a GPU")
    program = answer is AnswerChoice.program and text is TextChoice.leir
    questions = _questions(where, family, split, held_out, limit, seed, targets=targets, needs_leir=program)
    out.mkdir(parents=True, exist_ok=True)
    if ask:
        _write_questions(out / "questions.jsonl", questions, _asking(questions, explain, reasoning, text, workers))
        print(f"{len(questions)} questions: {out / 'questions.jsonl'}")
        return
    replies: list[Reply]
    if answers is not None:
        if not answers.is_file():
            raise InputError(f"{answers}: no such file: give a JSONL file of replies")
        replies = replies_to(questions, read_lines(answers, Reply), answers)
    elif policy is not None:
        replies = _policy_replies(where, questions, policy, samples, seed, workers)
    else:
        from stepTP.chat import Endpoint

        server = Endpoint(endpoint or "", model or "", temperature=temperature, max_tokens=max_tokens)
        put = {"explain": explain, "program": program, "reasoning": reasoning, "text": text.value}
        require_same(out, {"model": model, "temperature": temperature, "max_tokens": max_tokens, **put})
        with _bar("ask", "reply") as told:
            asking = _asking(questions, explain, reasoning, text, workers)
            replies = ask_endpoint(questions, server, out, samples, requests, asking, told)
    with Scorer(workers, timeout) as scorer, _bar("judge", "answer") as told:
        judged = list(judge(questions, replies, scorer, measure, step_alone=True, progress=told))
    (out / SCORES).write_text("".join(j.model_dump_json() + "\n" for j in judged), encoding="utf-8")
    about = {
        "run": str(where), "answers": str(answers or endpoint or policy), "model": model or "",
        "families": ", ".join(family or []),
        "split": split or "", "seed": seed, "targets": ", ".join(targets), "explained": explain,
        "program wanted": program, "programs as": text.value, "held out": held_out or "", "thought wanted": reasoning,
        "temperature": "" if temperature is None else temperature,
        "unanswered": len(questions) - len({reply.question for reply in replies}),
    }  # fmt: skip
    summary = summarise(judged, seed)
    _write_summary(
        out, about, summary, single_page(f"Single steps: {model or policy or (answers or Path()).stem}", about, summary)
    )
    if json:
        print_json({"about": about, **summary})
    else:
        _show_single(summary)
        print(f"\n{out / 'index.html'}")


@evaluation.command("search")
def search(
    where: Annotated[Path, typer.Argument(help="The folder of a run, or a .jsonl file of its program rows.")],
    out: Out,
    search: Annotated[list[str] | None, typer.Option(help="A search; may be given again. Default: beam.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="A policy; may be given again. Default: cost_model.")] = None,
    family: Annotated[list[str] | None, typer.Option(help="Only this family; may be given again.")] = None,
    split: Annotated[str | None, typer.Option(help="Only programs of this split.")] = None,
    limit: Annotated[int | None, typer.Option(help="So many programs, of all families in turn.", min=1)] = None,
    evaluations: Annotated[int, typer.Option(help="States that a search may verify on a program.", min=1)] = 50,
    measurements: Annotated[
        int | None, typer.Option(help="Programs it may time; given, states are valued by timing them.", min=1)
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="That a search may take on a program.", min=1)] = None,
    width: Annotated[int, typer.Option(help="Moves of a state that are taken; states that a beam keeps.", min=1)] = 4,
    depth: Annotated[int, typer.Option(help="Moves in a row.", min=1)] = 8,
    target: Annotated[Target, typer.Option(help="Whose costs count.")] = Target.llvm,
    endpoint: Annotated[str | None, typer.Option(help="Of --policy llm: an OpenAI-compatible server's URL.")] = None,
    model: Annotated[str | None, typer.Option(help="Of --policy llm: the model that the server is asked for.")] = None,
    samples: Annotated[int, typer.Option(help="Of --policy llm: replies asked for at a state.", min=1)] = 4,
    temperature: Annotated[float, typer.Option(help="Of --policy llm.", min=0)] = 0.8,
    timeout: Annotated[float, typer.Option(help="Of --policy llm: seconds to wait for a reply.", min=1)] = 600.0,
    seed: Annotated[int, typer.Option(help="Keys every draw.", min=0)] = 0,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    json: Json = False,
) -> None:
    """Compare searches and policies at equal budgets: speedups over the source and PyTorch, efficiency, cost.

    Run again with the same --out, it searches only where it has not, and with the same budget; what a model has replied
    is not asked again. Where states are timed, PyTorch's eager and compiled modules are too.
    """
    from stepTP.evaluate.page import search_lines, search_page
    from stepTP.evaluate.questions import read_lines
    from stepTP.evaluate.searching import FOUND, Found, journal_of, keep, search_program, summarise_searches
    from stepTP.evaluate.settings import require_same
    from stepTP.measurements import Request, Source, measure_compiled
    from stepTP.search import OFFLINE, SEARCHES, policy_of
    from stepTP.search.objectives import Measured, Predicted
    from stepTP.search.protocol import Budget, Policy, Settings
    from stepTP.verify.devices import cuda_devices
    from stepTP.verify.pool import Pool
    from strategies.index import names

    searches, policies = search or ["beam"], policy or ["cost_model"]
    for chosen, known, what in ((searches, SEARCHES, "search"), (policies, (*OFFLINE, "llm"), "policy")):
        if unknown := [name for name in chosen if name not in known]:
            raise InputError(f"--{what} {unknown[0]}: choose of {', '.join(known)}")
    if ("llm" in policies) != bool(endpoint) or bool(endpoint) != bool(model):
        raise InputError("eval search: --policy llm, --endpoint URL and --model NAME go together: give all three")
    gpus = cuda_devices()[:1] if target is Target.cuda and measurements else ()
    if target is Target.cuda and measurements and not gpus:
        raise InputError("eval search: no CUDA device here: give --target llvm, or no --measurements")
    programs = _programs(where, family, split, limit, seed)
    out.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = {
        "evaluations": evaluations, "measurements": measurements, "seconds": seconds, "width": width, "depth": depth,
        "target": target.value, "seed": seed,
    }  # fmt: skip
    if "llm" in policies:
        kept |= {f"llm {model}": {"samples": samples, "temperature": temperature}}
    require_same(out, kept)
    file = out / FOUND
    have = {found.key: found for found in read_lines(file, Found)} if file.is_file() else {}
    file.write_text("".join(found.model_dump_json() + "\n" for found in have.values()), encoding="utf-8")
    settings = Settings(
        strategies=tuple(sorted(names())), budget=Budget(evaluations, seconds, measurements), seed=seed,
        target=target.value, width=width, depth=depth,
    )  # fmt: skip

    def proposing(name: str) -> Policy:
        if name != "llm":
            return policy_of(name)
        options = {"url": endpoint, "model": model, "count": samples, "temperature": temperature, "timeout_s": timeout}
        return policy_of(name, **options, name=f"llm {model}")

    pairs = [(program, s, proposing(p)) for program in programs for s in searches for p in policies]
    results: list[Found] = []
    compiled: dict[str, float | None] = {}
    with Pool(workers) as pool, Pool(1, gpus=gpus) as device, _bar("search", "search") as told:
        request = Request(target.value)
        objective = Measured(device, request) if measurements else Predicted()
        for number, (program, name, proposer) in enumerate(pairs, 1):
            key = (program.id, name, proposer.name, objective.name)
            if key not in have:
                if measurements and program.id not in compiled:
                    source = Source(
                        program.id, program.source.family, program.source.torch_code, program.leir, program.state_id
                    )
                    compiled[program.id] = measure_compiled(device, source, request)
                with journal_of(out, key) as journal:
                    have[key] = search_program(
                        program, name, proposer, objective, settings, pool, journal, compiled.get(program.id)
                    )
                keep(have[key], out)
            results.append(have[key])
            told(number, len(pairs))
    rows = summarise_searches(results, seed)
    about = {
        "run": str(where), "programs": len(programs), "families": ", ".join(family or []), "split": split or "",
        "seed": seed, "evaluations": evaluations, "measurements": measurements or "none", "seconds": seconds or "",
        "width": width, "depth": depth, "target": target.value, "model": model or "", "endpoint": endpoint or "",
    }  # fmt: skip
    _write_summary(out, about, {"searches": rows}, search_page("Searches", about, rows))
    if json:
        print_json({"about": about, "searches": rows})
    else:
        print_table(*search_lines(rows))
        print(f"\n{out / 'index.html'}")


def _programs(
    where: Path, family: list[str] | None, split: str | None, limit: int | None, seed: int
) -> "list[ProgramRow]":
    """The programs that searches begin at, of all families in turn. Raises InputError where there is none."""
    from stepTP.draw import digest
    from stepTP.evaluate.bootstrap import by
    from stepTP.records import ProgramRow, of_shape, read_rows
    from stepTP.stats import run_rows

    if not where.exists():
        raise InputError(f"{where}: no such run or file: give a run's folder, like runs/quickstart")
    rows = run_rows(where, "programs") if where.is_dir() else read_rows(where)
    found = [row for row in of_shape(rows, "programs") if isinstance(row, ProgramRow)]
    found = [row for row in found if split is None or row.split == split]
    found = [row for row in found if not family or row.source.family in family]
    if not found:
        raise InputError(f"{where}: no program rows{' of these families or split' if family or split else ''}")
    groups = by(found, lambda row: row.source.family)
    for group in groups.values():
        group.sort(key=lambda row: digest("program", seed, row.id))
    turns = [(n, digest("family", seed, name), row) for name, group in groups.items() for n, row in enumerate(group)]
    return [row for *_, row in sorted(turns, key=lambda entry: entry[:2])][:limit]


def _policy_replies(
    where: Path, questions: "list[Question]", policy: str, samples: int, seed: int, workers: int | None
) -> "list[Reply]":
    from stepTP.commands.rows import step_rows
    from stepTP.evaluate.proposing import ask_policy
    from stepTP.search import OFFLINE, policy_of
    from stepTP.search.protocol import Settings
    from stepTP.verify.pool import Pool
    from strategies.index import names

    if policy not in OFFLINE:
        raise InputError(f"--policy {policy}: choose of {', '.join(OFFLINE)}")
    settings = Settings(strategies=tuple(sorted(names())), seed=seed, width=max(4, samples))
    with Pool(workers) as pool:
        return ask_policy(questions, step_rows(where)[1], policy_of(policy), settings, pool, samples)


def _questions(
    where: Path,
    family: list[str] | None,
    split: str | None,
    held_out: str | None,
    limit: int | None,
    seed: int,
    **wanted: Any,
) -> "list[Question]":
    """The states asked about. Raises InputError where there is none."""
    from stepTP.commands.rows import step_rows
    from stepTP.evaluate.questions import questions_of

    steps, programs = step_rows(where)
    steps = _chosen(_chosen(steps, "split", split, where), "held_out", held_out, where)
    if unknown := sorted(set(family or []) - {row.source.family for row in steps}):
        known = ", ".join(sorted({row.source.family for row in steps}))
        raise InputError(f"{where}: no rows of family {unknown[0]!r}: choose of {known}")
    return questions_of(steps, programs, family, limit, seed, **wanted)


def _chosen(steps: "list[StepRow]", column: str, value: str | None, where: Path) -> "list[StepRow]":
    """The rows with a value in a column; all where none is asked for. Raises InputError where there is none."""
    if value is None:
        return steps
    found = [row for row in steps if getattr(row, column) == value]
    if not found:
        known = ", ".join(sorted({str(v) for row in steps if (v := getattr(row, column)) is not None}))
        raise InputError(
            f"{where}: no rows with {column} {value!r}: {f'choose of {known}' if known else 'it has none'}"
        )
    return found


def _asking(
    questions: "list[Question]", explain: bool, thought: bool, text: TextChoice, workers: int | None
) -> "Asking":
    from stepTP.evaluate.single import Asking
    from stepTP.export.programs import spelled

    states = [question.task.state for question in questions]
    texts: Mapping[str, str] = {} if text is TextChoice.leir else spelled(states, text.value, workers)
    return Asking(explain, thought, text.value, texts)


def _write_questions(file: Path, questions: "list[Question]", asking: "Asking") -> None:
    """Questions with their prompts, for replies that are made elsewhere."""
    with file.open("w", encoding="utf-8") as lines:
        for question in questions:
            entry = {"question": question.id, "family": question.family, "messages": asking.messages(question)}
            lines.write(json_module.dumps(entry) + "\n")


def _write_summary(out: Path, about: dict[str, Any], summary: dict[str, Any], html: str) -> None:
    text = json_module.dumps({"about": about, **summary}, indent=1) + "\n"
    (out / "summary.json").write_text(text, encoding="utf-8")
    (out / "index.html").write_text(html, encoding="utf-8")


def _show_single(summary: dict[str, Any]) -> None:
    from stepTP.evaluate.metrics import LABELS
    from stepTP.evaluate.page import shown
    from stepTP.evaluate.plots import number

    rates = summary["rates"]
    print_table(("stage", "share [95%]", "answers"), [(LABELS[n], shown(e), e["count"]) for n, e in rates.items()])
    print()
    shown_rates = ("legal", "equal", "bit_equal")
    print_table(
        ("family", "answers", *(LABELS[name] for name in shown_rates)),
        [
            (family, f["answers"], *(number(f["rates"][name]["value"], True) for name in shown_rates))
            for family, f in summary["families"].items()
        ],
    )
    for kind, count in summary["errors"].items():
        print(f"{count} answers could not be judged, through no fault of theirs: {kind}")


class _bar:
    """A progress bar that is told (done, of); none where nobody looks."""

    def __init__(self, what: str, unit: str) -> None:
        self._what, self._unit = what, unit

    def __enter__(self) -> Any:
        from tqdm import tqdm

        self._tqdm: Any = tqdm(desc=self._what, unit=self._unit, disable=None)

        def told(done: int, of: int) -> None:
            self._tqdm.total = of
            self._tqdm.update(done - self._tqdm.n)

        return told

    def __exit__(self, *_: object) -> None:
        self._tqdm.close()
