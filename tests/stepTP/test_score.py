"""Scoring answers: what each stage means, that nothing an answer writes does harm, and that callers notice nothing."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepTP.records import SourceRecord, StepRow, Tokens, to_line
from stepTP.verify import STAGES, Outcome, Scorer, ScoreReport, Task, TaskSource, scorer, task_of_row
from stepTP.verify import judge as judging
from tests.stepTP.test_verify_pool import wait_until_dead

SOFTMAX = (
    "in A_{4,8};out C_{4,8};\nL^{4,8}_{i,j}[D_i max=A_{i,j};]\nL^{4,8}_{i,j}[E_i+=exp(A_{i,j}-D_i);]\n"
    "L^{4,8}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]\n"
)
ONLINE = {"strategy": "online_softmax", "args": {"maximum": [0], "sum": [1]}}
SPLIT = {"strategy": "loop_split", "args": {"path": [0], "factor": 2}}
AFTER_SPLIT = SOFTMAX.replace(
    "L^{4,8}_{i,j}[D_i max=A_{i,j};]", "L^{2,2,8}_{k,m,j}[D_{k*2+m}max=A_{k*2+m,j};]"
)  # other names than the step gives
REVERSED = SOFTMAX.replace("[E_i+=exp(A_{i,j}-D_i);]", "[E_i+=exp(A_{i,7-j}-D_i);]")
WRONG = SOFTMAX.replace("L^{4,8}_{i,j}[E_i", "L^{4,7}_{i,j}[E_i")
RACE = SOFTMAX.replace("L^{4,8}_{i,j}[E_i", "P^{4,8}_{i,j}[E_i")

TASK = Task(source=TaskSource(id="softmax", leir=SOFTMAX), state=SOFTMAX)
FREE = TASK.model_copy(update={"needs_step": False})

TORCH = textwrap.dedent("""
    import torch
    import torch.nn as nn


    class Model(nn.Module):
        def forward(self, x):
            return torch.softmax(x, dim=-1)


    def get_inputs():
        return [torch.randn(4, 8)]


    def get_init_inputs():
        return []
""")


def reply(step: dict[str, Any] | None = None, leir: str | None = None) -> str:
    return json.dumps({**(step or {}), **({"leir": leir} if leir is not None else {})})


@pytest.fixture(scope="module")
def judge():
    with Scorer(workers=1, timeout_s=30) as judge:
        yield judge


def shown(report: ScoreReport) -> list[str]:
    """The stages up to `equal` that passed, and the code of the first that failed."""
    assert report.error is None, report.error
    result: list[str] = []
    for name in STAGES[:6]:
        outcome = report.outcome(name)
        result += {"pass": [name], "fail": [f"{name}: {outcome.code}"], "not-reached": []}[outcome.status]
    return result


NO_LOOP = reply({"strategy": "loop_split", "args": {"path": [3], "factor": 2}})
ALL = ["parsed", "well_formed", "legal", "lowers", "runs", "equal"]
NOT_LEGAL = ["lowers", "runs", "equal"]
READ = ["parsed", "well_formed"]

CASES: dict[str, tuple[Task, str, list[str], bool]] = {
    "a legal step and its program": (TASK, reply(SPLIT, AFTER_SPLIT), ALL, True),
    "a legal step alone": (TASK, reply(ONLINE), ALL, True),
    "a legal step alone, where the program is wanted": (
        TASK.model_copy(update={"needs_leir": True}), reply(ONLINE), ["parsed: no-leir"], False,
    ),
    "a right program that is another step's": (
        TASK, reply(ONLINE, AFTER_SPLIT), [*READ, "legal: another-program", *NOT_LEGAL], False,
    ),
    "a wrong program under a legal step": (
        TASK, reply(SPLIT, WRONG), [*READ, "legal: another-program", "lowers", "runs", "equal: wrong-result"], False,
    ),
    "a copy of the state": (TASK, reply(SPLIT, SOFTMAX), [*READ, "legal: another-program", *NOT_LEGAL], False),
    "a program alone": (TASK, reply(None, AFTER_SPLIT), [*READ, "legal: no-step", *NOT_LEGAL], False),
    "a program alone, where no step is wanted": (FREE, reply(None, AFTER_SPLIT), [*READ, *NOT_LEGAL], True),
    "a copy alone, where no step is wanted": (
        FREE, reply(None, SOFTMAX), [*READ, "legal: changes-the-program", *NOT_LEGAL], False,
    ),
    "a false claim, where no step is wanted": (
        FREE, reply(ONLINE, AFTER_SPLIT), [*READ, "legal: another-program", *NOT_LEGAL], False,
    ),
    "a refused step": (
        TASK, NO_LOOP,
        ["parsed", "legal: path-is-a-loop"], False,
    ),
    "arguments of another type": (
        TASK, reply({"strategy": "loop_split", "args": {"path": "0", "factor": 2.5}}),
        ["parsed", "legal: bad-arguments"], False,
    ),
    "a strategy that nobody has": (
        TASK, reply({"strategy": "../../etc", "args": {}}), ["parsed", "legal: unknown-strategy"], False,
    ),
    "a strategy that is not asked for": (
        TASK.model_copy(update={"strategies": ("loop_split",)}), reply(ONLINE),
        ["parsed", "legal: strategy-not-allowed"], False,
    ),
    "a program that does not parse": (TASK, reply(SPLIT, "in A"), ["parsed", "well_formed: parse-error"], False),
    "a race": (TASK, reply(SPLIT, RACE), ["parsed", "well_formed: reduction-across-loop"], False),
    "another signature": (
        TASK, reply(SPLIT, SOFTMAX.replace("_{4,8};out", "_{8,4};out")),
        ["parsed", "well_formed: other-signature"], False,
    ),
    "no answer": (TASK, "I cannot do that.", ["parsed: no-object"], False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_stages(judge: Scorer, name: str) -> None:
    task, text, stages, accepted = CASES[name]
    report = judge.score(text, task)
    assert (shown(report), report.accepted) == (stages, accepted)
    assert ScoreReport.model_validate_json(report.model_dump_json()) == report
    assert judge.score(text, task.model_dump()) == report  # from a dict, and again


def test_a_report_has_facts_diagnostics_and_verdicts(judge: Scorer) -> None:
    legal = judge.score(reply(ONLINE), TASK)
    assert {fact.holds for fact in legal.facts} == {True}
    assert legal.facts[0].name == "paths-are-of-one-equation-each"
    (verdict,) = legal.verification
    assert 0 < verdict.max_abs <= verdict.tolerance
    assert legal.bit_equal.code == "other-bits"
    assert legal.leir is not None
    assert "H=max(F,A_{i,j})" in legal.leir
    refused = judge.score(NO_LOOP, TASK)
    assert (refused.facts[-1].name, refused.facts[-1].holds) == ("path-is-a-loop", False)
    raced = judge.score(reply(SPLIT, RACE), TASK)
    assert [(d.code, d.line) for d in raced.diagnostics] == [("reduction-across-loop", 3)]


def test_bits_are_compared_with_the_state_before(judge: Scorer) -> None:
    assert judge.score(reply(SPLIT), TASK).bit_equal.status == "pass"
    other = judge.score(reply(None, REVERSED), FREE)
    assert (other.equal.status, other.bit_equal.code) == ("pass", "other-bits")
    assert judge.score(reply(None, WRONG), FREE).bit_equal.status == "not-reached"


def test_the_reference_is_the_torch_module(judge: Scorer) -> None:
    """The state computes something else than the source: then a step that keeps its meaning is not equal."""
    source = TaskSource(id="torch", torch_code=TORCH)
    right = judge.score(reply(SPLIT), Task(source=source, state=SOFTMAX))
    assert (shown(right), right.accepted) == (ALL, True)
    wrong = judge.score(reply(SPLIT), Task(source=source, state=WRONG))
    assert shown(wrong) == [*ALL[:5], "equal: wrong-result"]


@pytest.mark.parametrize(
    ("task", "kind", "message"),
    [
        ({"state": SOFTMAX}, "task", "source: Field required"),
        ({**TASK.model_dump(), "draws": 0}, "task", "draws: Input should be greater than or equal to 1"),
        ({"source": {}, "state": SOFTMAX}, "task", "source: neither torch_code nor leir is given"),
        ({"source": {"leir": SOFTMAX}, "state": "in A"}, "task", "ParseError: state:1:5"),
        ({"source": {"leir": SOFTMAX}, "state": RACE}, "task", "IllFormed: reduction-across-loop"),
        (
            {"source": {"torch_code": "import nowhere"}, "state": SOFTMAX},
            "task",
            "SourceError: source:1: import raises",
        ),
        (
            {"source": {"leir": "in A_4;out C_4;L^4_i[C_i=A_i;]"}, "state": SOFTMAX},
            "task",
            "Unverified: the program has",
        ),
        (None, "task", "task: Input should be a valid dictionary"),
    ],
)
def test_what_is_not_the_answers_doing_is_an_error(judge: Scorer, task: Any, kind: str, message: str) -> None:
    report = judge.score(reply(SPLIT, AFTER_SPLIT), task)
    assert report.error is not None
    assert (report.error.kind, report.accepted) == (kind, False)
    assert report.error.message.startswith(message)


def test_a_bug_is_an_error_with_its_traceback(judge: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "TAKE", "tests.stepTP.faults.raise_bug")
    bug, fine = judge.score_many([(reply(SPLIT), TASK), (reply(None, AFTER_SPLIT), FREE)])
    assert bug.error is not None
    assert (bug.error.kind, bug.error.message) == ("bug", "KeyError: 'not there'")
    assert "raise_bug" in bug.error.detail
    assert fine.accepted
    monkeypatch.setattr(scorer, "_excess", lambda work: work["nothing"])
    ours = judge.score(reply(None, AFTER_SPLIT), FREE)
    assert ours.error is not None
    assert (ours.error.kind, ours.error.message) == ("bug", "KeyError: 'nothing'")


def test_a_program_that_kills_its_worker_costs_itself_only(judge: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "VERIFY", "tests.stepTP.faults.verify_or_abort")
    monkeypatch.setattr(scorer, "LOWER", "tests.stepTP.faults.nothing")
    killer = SOFTMAX.replace("-D_i)/E_i", "-D_i)/E_i+7.0-7.0")
    reports = judge.score_many([(reply(None, text), FREE) for text in (AFTER_SPLIT, killer, REVERSED)])
    assert [report.accepted for report in reports] == [True, False, True]
    assert shown(reports[1]) == [*READ, "lowers", "runs: crash"]
    assert reports[1].runs.message == "killed by SIGABRT"
    monkeypatch.setattr(scorer, "VERIFY", "tests.stepTP.faults.abort_all")
    lost = judge.score(reply(None, AFTER_SPLIT), FREE)  # the state before is lost as well: not the answer's doing
    assert lost.error is not None
    assert lost.error.kind == "task"


MOST = 2**63 - 1
HOSTILE = {
    "brackets": "[" * 3_000_000,
    "objects": '{"leir":' * 30_000,
    "beyond what is read": "{" * (1 << 24) + "}",
    "zero bytes": reply(SPLIT, "in A_4\0;"),
    "lone surrogates": reply(SPLIT, "\ud800\udfff"),
    "surrogates in names": json.dumps({"strategy": "\ud800" * 500, "args": {"\udfff": "\ud800"}}),
    "a huge integer": '{"strategy": "loop_split", "args": {"path": [0], "factor": 1' + "0" * 60_000 + "}}",
    "a large integer": reply({"strategy": "loop_split", "args": {"path": [0], "factor": 10**18}}),
    "an endless path": reply({"strategy": "loop_split", "args": {"path": [0] * 60_000, "factor": 2}}),
    "a negative path": reply({"strategy": "loop_split", "args": {"path": [-1], "factor": 2}}),
    "deep parentheses": reply(None, "in A_4;out C_4;L^4_i[C_i=" + "(" * 15_000 + "A_i" + ")" * 15_000 + ";]"),
    "deep loops": reply(None, "in A_4;out C_4;" + "L^1_i[" * 5_000),
    "deep negations": reply(None, "in A_4;out C_4;L^4_i[C_i=" + "-" * 30_000 + "A_i;]"),
    "a long program": reply(None, SOFTMAX + "L^4_i[D_i=1.0;]" * 20_000),
    "many equations": reply(None, SOFTMAX + "D=1;" * 7_000),
    "an endless loop": reply(None, SOFTMAX.replace("L^{4,8}_{i,j}[D", "L^{2000000000,4,8}_{k,i,j}[D")),
    "an endless allocation": reply(None, SOFTMAX + "Z^{f32,g}_{2000000000};Z_0=1.0;"),
    "a subscript past i64": reply(None, SOFTMAX + f"L^4_i[Z_{{(i*{MOST})//{MOST}*1000000}}=1.0;]"),
    "a guard past i64": reply(
        None, SOFTMAX + "Z^{f32,g}_8;L^8_i[Z_i=0.0;]L^{16000000}_i(i*1000000000000<8000000000000)[Z_i=1.0;]"
    ),
    "an index past i32": reply(
        None,
        SOFTMAX + "I^{i32,g}_4;Z^{f32,g}_{4000000};L^4_i[I_i=i;]L^4_i[Z_{I_i*2000000000//2000000000*1000000}=1.0;]",
    ),
    "65 dimensions": reply(None, SOFTMAX + "Z_{" + ",".join("0" * 65) + "}=1.0;"),
    "a wide temporary": reply(None, SOFTMAX + "Z_{1999999999}=1.0;"),
    "other letters": reply(None, SOFTMAX.replace("A", "А")),  # a Cyrillic letter
    "text in another direction": reply(SPLIT, "\u202e" + SOFTMAX),
    "a report": ScoreReport().model_dump_json().replace("not-reached", "pass"),
    "a report in the answer": json.dumps({**SPLIT, "equal": {"status": "pass"}, "accepted": True}),
    "one key twice": '{"strategy": "loop_split", "args": {"path": [0], "factor": 2, "factor": 4}}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_gets_a_report_soon(judge: Scorer, name: str) -> None:
    begun = time.monotonic()
    for task in (TASK, FREE):
        report = judge.score(HOSTILE[name], task)
        assert report.error is None, report.error
        assert not report.accepted
        assert len(report.model_dump_json()) < 20_000
    assert time.monotonic() - begun < 120  # seconds where nothing else runs: the limit is that of a busy machine
    assert judge.score(reply(SPLIT), TASK).accepted


PIECES = st.sampled_from(
    [
        "2000000000",
        "-1",
        "[",
        "]",
        "{",
        "}",
        "A_{i,j}",
        "L^2_k[",
        "P",
        "B",
        "0",
        ";",
        '\\"',
        "\0",
        "//",
        "%",
        "null",
        "1e9",
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([reply(SPLIT, AFTER_SPLIT), reply(ONLINE), reply(None, REVERSED)]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), PIECES | st.text(max_size=3)), max_size=4),
)
def test_a_damaged_answer_gets_an_outcome(text: str, changes: list[tuple[float, int, str]]) -> None:
    """In this process, where an error would show that the workers report as a bug."""
    for place, length, piece in changes:
        start = int(place * len(text))
        text = text[:start] + piece + text[start + length :]
    answer = judging.read({"text": text})["answer"]
    outcomes = []
    if answer is not None and answer["leir"] is not None:
        outcomes.append(judging.inspect({"state": SOFTMAX, "leir": answer["leir"]}))
    if answer is not None and answer["strategy"] is not None:
        step = {"strategy": answer["strategy"], "args": answer["args"]}
        outcomes.append(judging.take({"state": SOFTMAX, "step": step, "strategies": None}))
    for found in outcomes:
        outcome = Outcome(**found["outcome"])
        assert (outcome.status == "pass") == (found["leir"] is not None)
        assert json.loads(json.dumps(found)) is not None


@pytest.mark.parametrize("text", [None, 5, b"bytes", ["a", "list"]])
def test_what_is_no_text_fails_to_parse(judge: Scorer, text: Any) -> None:
    assert shown(judge.score(text, TASK)) == ["parsed: not-text"]


def test_speed_is_measured_on_request_and_of_accepted_programs_alone(judge: Scorer) -> None:
    asked = [(reply(SPLIT), TASK), (reply(None, AFTER_SPLIT), TASK)]
    (timed, illegal), unasked = judge.score_many(asked, measure=True), judge.score(reply(SPLIT), TASK)
    assert timed.speedup_vs_state is not None
    assert timed.speedup_vs_state > 0
    assert " us before, " in timed.speedup.message
    assert (illegal.speedup.status, illegal.speedup_vs_state) == ("not-reached", None)
    assert (unasked.speedup.code, unasked.speedup_vs_state) == ("not-measured", None)


def test_many_keep_their_order(judge: Scorer) -> None:
    names = [*CASES] * 2
    reports = judge.score_many((CASES[name][1], CASES[name][0]) for name in names)
    assert [(shown(report), report.accepted) for report in reports] == [CASES[name][2:] for name in names]
    assert judge.score_many([]) == []


def test_threads_share_a_scorer(judge: Scorer) -> None:
    names = [*CASES][:8]
    with ThreadPoolExecutor(8) as threads:
        reports = list(threads.map(lambda name: judge.score(CASES[name][1], CASES[name][0]), names))
    assert [shown(report) for report in reports] == [CASES[name][2] for name in names]


def test_a_closed_scorer_says_so() -> None:
    closed = Scorer(workers=1)
    closed.close()
    report = closed.score(reply(SPLIT), TASK)
    assert report.error is not None
    assert (report.error.kind, report.error.message) == ("pool", "the scorer is closed")


def row_of(torch_code: str) -> StepRow:
    """A row whose state is SOFTMAX."""
    return StepRow(
        id="0123456789abcdef", split="train", held_out=None,
        source=SourceRecord(id="s", family="f", torch_code=torch_code, torch_sha="", license=""),
        names={}, program_signature="", depth=1, path=(), state_id_before="", leir_before=SOFTMAX, strategy="",
        level="", args={}, bit_exact=True, undoes=0, inverse_of=None, structure="", facts=(), leir_after="",
        state_id_after="", diff="", reasoning="", answer="", verification=(),
        tokens=Tokens(leir=None, tir=None, cuda=None, reasoning=None), tool_versions={},
    )  # fmt: skip


def test_a_task_is_made_from_a_row() -> None:
    wanted = Task(source=TaskSource(id="s", torch_code=TORCH), state=SOFTMAX, strategies=("loop_split",), draws=2)
    assert task_of_row(row_of(TORCH), strategies=("loop_split",), draws=2) == wanted


def command(*arguments: str | Path, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "stepTP.cli", "score", *map(str, arguments)],
        input=text, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, capture_output=True, text=True,
    )  # fmt: skip


def test_the_command_names_what_is_missing(tmp_path: Path) -> None:
    rows = tmp_path / "steps.jsonl"
    rows.write_text(to_line(row_of(TORCH)))
    for arguments, message in (
        ((tmp_path / "none.txt", "--row", f"{rows}#0"), "none.txt: no such file"),
        (("-", "--row", f"{rows}#1"), "the rows are numbered 0 to 0"),
        (("-", "--row", f"{tmp_path / 'run'}#0"), "no such run or file"),
    ):
        done = command(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr


@pytest.mark.slow
def test_the_command_says_what_became_of_an_answer(tmp_path: Path) -> None:
    rows = tmp_path / "steps.jsonl"
    rows.write_text(to_line(row_of(TORCH)) + to_line(row_of("import nowhere")))
    good = command("-", "--row", f"{rows}#0", "--json", text=reply(SPLIT, AFTER_SPLIT))
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["accepted"] is True
    bad = command("-", "--row", f"{rows}#0", text=NO_LOOP)
    assert bad.returncode == 1, bad.stderr
    assert "legal       fail         path-is-a-loop: no statement stands at (3)" in bad.stdout
    broken = command("-", "--row", f"{rows}#1", text=reply(SPLIT))
    assert broken.returncode == 2
    assert "cannot be scored (task): SourceError" in broken.stderr


CALLER = textwrap.dedent("""
    import json, os, signal, sys, threading
    def state():
        handlers = [signal.getsignal(number) for number in (2, 10, 15, 17)]
        return os.getcwd(), dict(os.environ), handlers, sorted(os.listdir("."))
    before, threads = state(), threading.active_count()
    from stepTP.verify import score
    from stepTP.verify.scorer import default_scorer
    task, text, forks = json.loads(sys.argv[1])
    report = score(text, task)
    assert report.legal.code == "path-is-a-loop", report
    assert state() == before
    heavy = [name for name in ("torch", "tvm", "islpy", "lark", "numpy") if name in sys.modules]
    assert heavy == [], heavy
    if forks:
        child = os.fork()
        if child == 0:
            sys.exit(7 if score(text, task) == report else 8)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7, status
        assert score(text, task) == report  # the child's end took nothing of ours
    def below(process):
        children = open(f"/proc/{process}/task/{process}/children").read().split()
        return [found for child in children for found in (child, *below(child))]
    started = [p for t in os.listdir("/proc/self/task") for p in open(f"/proc/self/task/{t}/children").read().split()]
    print(*[found for process in started for found in (process, *below(process))], file=sys.stderr, flush=True)
    if not forks:
        os.kill(os.getpid(), signal.SIGKILL)
    default_scorer().close()
    assert threading.active_count() == threads
""")


@pytest.mark.parametrize("forks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_caller_notices_nothing_and_leaves_nothing(tmp_path: Path, forks: bool) -> None:
    """It may be killed, or fork: workers end with it, and a child's end takes none of its parent's."""
    done = subprocess.run(
        [sys.executable, "-c", CALLER, json.dumps([TASK.model_dump(), NO_LOOP, forks])],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0 if forks else -signal.SIGKILL, ""), done.stderr
    workers = [int(process) for process in done.stderr.split()]
    assert len(workers) >= 2
    assert wait_until_dead(workers) == []
