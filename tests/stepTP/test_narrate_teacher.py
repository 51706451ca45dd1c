"""Rephrasing: what a teacher may say, what is asked again, and a table that goes on where it stopped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepTP.chat import ChatError, Endpoint
from stepTP.narrate.task import explain
from stepTP.narrate.teacher import Rephrasing, check, rephrased, rephrasing_id
from stepTP.records import FactRecord, RephrasingRow, StepRow, to_line
from stepTP.tables import appending, read_table
from tests.stepTP.standin import standin
from tests.stepTP.test_cli import Steptp, steptp
from tests.stepTP.test_narrate import SOFTMAX, steps_of
from tests.stepTP.test_score import row_of

__all__ = ["steptp"]  # a fixture

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
STEP = next(step for step in steps_of(SOFTMAX) if step["step"]["strategy"] == "loop_split")
OTHER = next(step for step in steps_of(SOFTMAX) if step["step"]["strategy"] == "loop_binding")


def row(step: dict[str, Any]) -> StepRow:
    given = {
        "id": step["id"],
        "leir_before": step["before"],
        "leir_after": step["after"],
        "strategy": step["step"]["strategy"],
        "args": step["step"]["args"],
        "facts": tuple(FactRecord(**fact) for fact in step["facts"]),
        "reasoning": explain(step)["reasoning"],
    }
    return row_of("").model_copy(update=given)


ROW = row(STEP)


def turned(reasoning: str) -> str:
    """The same paragraphs, the last one first: other words would do as well."""
    first, *middle, last = reasoning.split("\n\n")
    return "\n\n".join((last, *middle, first))


def problem(text: str) -> str:
    return check(
        {
            "text": text,
            "original": ROW.reasoning,
            "before": ROW.leir_before,
            "after": ROW.leir_after,
            "step": {"strategy": ROW.strategy, "args": ROW.args},
            "evidence": [fact.evidence for fact in ROW.facts],
        }
    )


def test_other_words_may_stand() -> None:
    assert problem(turned(ROW.reasoning)) == ""


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (lambda _: "", "empty"),
        (lambda text: text, "it is the original"),
        (lambda text: f"{text} It takes 12345 cycles.", "12345: neither in the programs"),
        (lambda text: f"{text} Tensor Q is kept.", "Q: neither in the programs"),
        (lambda text: f"{text} This is much faster.", "faster: the original claims nothing"),
        (lambda text: f"{text} It is Twice as good.", "Twice: the original claims nothing"),
        (lambda text: text.replace("`", ""), "must stand in it once"),
        (lambda text: f"{text} Then `loop_split(path=(0), factor=2)`.", "must stand in it once"),
        (lambda text: f"## State\n{text}", "headings"),
        (lambda text: f"- {text}", "headings"),
        (lambda text: f"{text} {text.replace('`', '')}", "longer than"),
    ],
)  # fmt: skip
def test_what_may_not_stand(reply: Callable[[str], str], expected: str) -> None:
    assert expected in problem(reply(ROW.reasoning))


def test_a_refused_reply_is_asked_for_again_with_the_reason() -> None:
    replies = iter((f"{ROW.reasoning} It is faster.", turned(ROW.reasoning)))
    with standin(lambda _: (200, next(replies))) as server:
        (found,) = rephrased([ROW], Endpoint(server.url, "m"), check)
    assert (found.status, found.attempts, found.text) == ("ok", 2, turned(ROW.reasoning))
    assert (found.prompt_tokens, found.completion_tokens) == (22, 14)
    assert "faster" in server.asked[1]["messages"][-1]["content"]


def test_what_never_passes_is_kept_as_refused() -> None:
    with standin(lambda _: (200, "It is better so.")) as server:
        (found,) = rephrased([ROW], Endpoint(server.url, "m"), check, Rephrasing(attempts=2))
    assert (found.status, found.attempts, found.text) == ("refused", 2, "It is better so.")
    assert "must stand in it once" in found.message and len(server.asked) == 2


def test_a_server_that_fails_is_named() -> None:
    with standin(lambda _: (400, "no such model")) as server:
        (found,) = rephrased([ROW], Endpoint(server.url, "m", retries=0), check)
    assert found.status == "failed" and "no such model" in found.message


def test_a_server_that_answers_nobody_ends_it() -> None:
    rows = [ROW.model_copy(update={"id": str(number)}) for number in range(20)]
    replies = iter([(400, "no"), (200, "It is better so.")])  # one failure is no end
    got: list[RephrasingRow] = []
    with standin(lambda _: next(replies, (400, "no such model"))) as server:
        told = rephrased(rows, Endpoint(server.url, "m", retries=0), check, Rephrasing(1, requests=1, failures=3))
        with pytest.raises(ChatError, match=r"no such model \(3 steps in a row\)"):
            got.extend(told)
    assert [row.status for row in got] == ["failed", "refused", "failed", "failed", "failed"]


def test_a_published_folder_gets_no_table(steptp: Steptp) -> None:
    said = steptp.fails("rephrase", SAMPLE, "--endpoint", "http://localhost:1", "--model", "m")
    assert "is a published dataset: give the folder of the build" in said
    assert not (SAMPLE / "rephrasings.jsonl").exists()


def test_only_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    rows, file = [ROW, row(OTHER)], tmp_path / "rephrasings.jsonl"
    originals = {r.leir_after: r.reasoning for r in rows}

    def answer(body: dict[str, Any]) -> tuple[int, str]:
        told = body["messages"][1]["content"]
        return 200, turned(next(text for after, text in originals.items() if after in told))

    with standin(answer) as server, appending(file) as append:
        teacher = Endpoint(server.url, "m")
        for found in rephrased(rows[:1], teacher, check):
            append(found)
        with file.open("a") as table:
            table.write('{"half": ')  # a process that was killed
        known = {r.id for r in read_table(file, RephrasingRow)}
        assert [r.step for r in rephrased(rows, teacher, check, known=known)] == [rows[1].id]
        assert len(server.asked) == 2
    assert rephrasing_id(ROW, "m") in known != {rephrasing_id(ROW, "another")}
    changed = ROW.model_copy(update={"reasoning": turned(ROW.reasoning)})
    assert rephrasing_id(changed, "m") != rephrasing_id(ROW, "m")


def test_a_table_is_cut_to_whole_lines_and_the_later_row_stands(tmp_path: Path) -> None:
    with standin(lambda _: (200, "no")) as server:
        (found,) = rephrased([ROW], Endpoint(server.url, "m"), check, Rephrasing(attempts=1))
    file = tmp_path / "rephrasings.jsonl"
    file.write_text(to_line(found) + '{"half": ')
    later = found.model_copy(update={"attempts": 2})
    with appending(file) as append:
        append(later)
    assert read_table(file, RephrasingRow) == [later]
    assert file.read_text() == to_line(found) + to_line(later)
