"""Answers: what is written is read back, and any text gives an answer or a reason, quickly."""

import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepTP.answer import FORM, LONGEST, Answer, NotAnAnswer, form, read_answer, with_thought, write_answer
from stepTP.records import Step

PROGRAM = "in A_4;out C_4;\nL^4_i[C_i=A_i;]\n"
STEP = Step(strategy="loop_split", args={"path": [0], "factor": 2})
WRITTEN = write_answer(STEP, PROGRAM)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@example("</think>", {"<think>": "</think>"}, "<think>")
@given(st.text(), st.dictionaries(st.text(), values, max_size=3), st.text())
def test_what_is_written_is_read_back(strategy: str, args: dict[str, Any], leir: str) -> None:
    step = Step(strategy=strategy, args=args)
    found = read_answer(write_answer(step, leir))
    assert (found.step, found.leir) == (step, leir)


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>{{not an answer}} of C_{{i,j}}</think>\n{WRITTEN}",
        f"{WRITTEN}</think>no, rather:\n```json\n{WRITTEN}\n```\nThat is all of C_{{i,j}}.",
        f'First {{"strategy": "loop_split", "args": {{}}}}, but better: {WRITTEN}',
        f'{WRITTEN} and {{"strategy": "loop_split", "args": {{',
        f'{{"parsed": {{"status": "pass"}}}} {WRITTEN} {{"accepted": true}}',
        json.dumps(json.loads(WRITTEN), indent=4),
    ],
)
def test_what_stands_around_an_answer_does_not_matter(reply: str) -> None:
    assert read_answer(reply) == Answer(strategy=STEP.strategy, args=STEP.args, leir=PROGRAM)


def test_a_step_or_a_program_alone_is_an_answer() -> None:
    assert read_answer('{"strategy": "s", "args": {}}').leir is None
    assert read_answer('{"leir": "x"}').step is None


def test_a_step_without_its_program_after_a_thought() -> None:
    reply = with_thought(' {"strategy": "other", "args": {}}\n', write_answer(STEP, None))
    assert reply.startswith('<think>\n{"strategy": "other"')
    assert read_answer(reply) == Answer(strategy=STEP.strategy, args=STEP.args)


def test_the_prompt_names_the_keys_of_the_schema() -> None:
    assert all(f'"{key}"' in FORM for key in Answer.model_fields)
    assert "<think>" in FORM
    bare = form(leir=False, thought=False)
    assert '"args"' in bare
    assert not any(part in bare for part in ("leir", "LEIR", "think"))


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("", "no-object"),
        ("loop_split(path=(0), factor=2)", "no-object"),
        (f"<think>{WRITTEN}", "unfinished-thought"),
        (f"{WRITTEN}</think>", "no-object"),
        ('{"strategy": "s", "args": {}, "leir": "x"', "no-object"),
        ('{"strategy": "s", "args": [0]}', "other-schema"),
        ('{"strategy": "s"}', "other-schema"),
        ('{"args": {}}', "other-schema"),
        ('{"strategy": null, "args": null, "leir": null}', "other-schema"),
        ('{"strategy": "s", "args": {}, "accepted": true}', "other-schema"),
        ('{"strategy": 5, "args": {}}', "other-schema"),
        ('{"strategy": "s", "args": {"n": 1, "n": 2}}', "duplicate-key"),
        ('{"strategy": "s", "args": {}, "strategy": "t"}', "duplicate-key"),
        ('{"strategy": "s", "args": {"n": NaN}}', "number-out-of-range"),
        ('{"strategy": "s", "args": {"n": -Infinity}}', "number-out-of-range"),
        ('{"strategy": "s", "args": {"n": 1e999}}', "number-out-of-range"),
        ('{"strategy": "s", "args": {"n": 1' + "0" * 100_000 + "}}", "number-out-of-range"),
        ('{"strategy": "s", "args": {"n": ' + "[" * 40 + "]" * 40 + "}}", "too-deep"),
        ('{"strategy": "s", "args": {"n": ' + "[" * 50_000 + "]" * 50_000 + "}}", "no-object"),
        ('{"args": ' * 20_000, "no-object"),
        ('{"args": [{"leir": ' + "[]," * 60_000, "no-object"),
        ("{" * (LONGEST + 1), "too-long"),
        ('{"leir": "line\nbreak"}', "no-object"),
    ],
)
def test_what_is_no_answer_has_a_reason(reply: str, code: str) -> None:
    begun = time.process_time()
    with pytest.raises(NotAnAnswer) as caught:
        read_answer(reply)
    assert caught.value.code == code
    assert caught.value.reason
    assert time.process_time() - begun < 2


PIECES = st.sampled_from(
    [
        '{"strategy":',
        '"args":',
        '{"leir":',
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        ",",
        "1e9",
        "</think>",
        "<think>",
        "\0",
        "NaN",
    ]
)


@settings(max_examples=300, deadline=2000)
@given(st.lists(PIECES | st.text(st.characters(), max_size=5), max_size=60).map("".join))
def test_any_text_is_an_answer_or_none(text: str) -> None:
    try:
        found = read_answer(text)
    except NotAnAnswer as problem:
        assert problem.code
    else:
        assert found.step is not None or found.leir is not None


def test_a_thought_may_be_long() -> None:
    assert read_answer("<think>" + "{" * 5_000_000 + f"</think>{WRITTEN}").leir == PROGRAM
