"""Exports: what a model would be trained on is what it is asked, what it is judged by, and what each tool documents."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepTP import pipeline
from stepTP.answer import Answer, read_answer
from stepTP.config import Filter
from stepTP.export import write
from stepTP.export.formats import FORMATS, FormatName, Wanted
from stepTP.export.programs import spell
from stepTP.export.tools import FOLDER_CHECKS, ROW_CHECKS, problems_of
from stepTP.export.write import ExportError, default_folder, export_run
from stepTP.learn.trial import read_parts
from stepTP.manifest import RunError
from stepTP.prompt import prompt
from stepTP.records import RefusalRow, RejectedRow, Step, StepRow, TrajectoryRow, read_rows, row_id
from stepTP.rewards.tasks import task_data
from stepTP.second_pass import unfiltered
from stepTP.stats import run_rows
from stepTP.verify.report import Task
from tests.stepTP.conftest import CONFIG, VariedPool

Line = dict[str, Any]


def lines_of(folder: Path) -> dict[str, list[Line]]:
    return {f.stem: [json.loads(line) for line in f.read_text().splitlines()] for f in sorted(folder.glob("*.jsonl"))}


def steps_of(run: Path) -> dict[str, StepRow]:
    return {row.id: row for row in run_rows(run, "steps") if isinstance(row, StepRow)}


def exported(run: Path, name: FormatName, out: Path, wanted: Wanted | None = None) -> dict[str, list[Line]]:
    export_run(run, name, wanted or Wanted(), out / name, workers=1)
    return lines_of(out / name)


def test_a_conversation_asks_and_answers(small_run: Path, tmp_path: Path) -> None:
    found, rows = exported(small_run, "sft", tmp_path), steps_of(small_run)
    assert {split: [line["id"] for line in lines] for split, lines in found.items()} == {
        split: [row.id for row in rows.values() if row.split == split] for split in ("test", "train", "validation")
    }
    for line in found["train"]:
        row = rows[line["id"]]
        *asked, said = line["messages"]
        assert asked == prompt(row.leir_before)
        assert said["content"].startswith(f"<think>\n{row.reasoning}\n</think>")
        answer = read_answer(said["content"])
        assert (answer.step, answer.leir) == (Step(strategy=row.strategy, args=row.args), row.leir_after)


def test_the_reasoning_may_stand_apart(small_run: Path, tmp_path: Path) -> None:
    rows = steps_of(small_run)
    for line in exported(small_run, "sft_reasoning_content", tmp_path)["train"]:
        row = rows[line["id"]]
        assert line["messages"][-1] == {
            "role": "assistant", "content": row.answer, "reasoning_content": row.reasoning
        }  # fmt: skip
        assert set(line["messages"][0]) == {"role", "content"}


def test_sharegpt_says_the_same(small_run: Path, tmp_path: Path) -> None:
    plain, theirs = exported(small_run, "sft", tmp_path), exported(small_run, "sharegpt", tmp_path)
    for one, other in zip(plain["train"], theirs["train"], strict=True):
        said = [{"from": "human", "value": one["messages"][1]["content"]}]
        said += [{"from": "gpt", "value": one["messages"][2]["content"]}]
        assert other == {"id": one["id"], "system": one["messages"][0]["content"], "conversations": said}
    info = json.loads((tmp_path / "sharegpt" / "dataset_info.json").read_text())
    assert {name: entry["file_name"] for name, entry in info.items()} == {
        "small_train": "train.jsonl", "small_validation": "validation.jsonl", "small_test": "test.jsonl"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "keys", "thinks"),
    [
        (Wanted(reasoning=False), {"strategy", "args", "leir"}, False),
        (Wanted(program=False), {"strategy", "args"}, True),
        (Wanted(reasoning=False, program=False), {"strategy", "args"}, False),
    ],
)
def test_ablations_leave_parts_out_of_prompt_and_answer(
    small_run: Path, tmp_path: Path, wanted: Wanted, keys: set[str], thinks: bool
) -> None:
    for line in exported(small_run, "sft", tmp_path, wanted)["train"]:
        system, _, said = (message["content"] for message in line["messages"])
        assert ("<think>" in said, "<think>" in system) == (thinks, thinks)
        assert set(json.loads(said.rpartition("\n")[2])) == keys
        assert ("LEIR text." in system.rpartition("Answer with")[2]) == ("leir" in keys)
    assert not any("reasoning_content" in line["messages"][-1] for line in exported(
        small_run, "sft_reasoning_content", tmp_path, Wanted(reasoning=False))["train"])  # fmt: skip


def test_what_the_filter_left_out_may_be_exported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the filter: every step of the raw shards once, but for what a stronger split has."""
    run = tmp_path / "run"
    monkeypatch.setattr(pipeline, "Pool", VariedPool)
    pipeline.build(CONFIG.model_copy(update={"filter": Filter(cap_per_strategy=4)}), run, workers=1)
    raw = [row for file in (run / "raw").glob("*.jsonl") for row in read_rows(file) if isinstance(row, StepRow)]
    assert len({row.id for row in raw}) == len(raw)
    dropped = [row for row in read_rows(run / "rejected.jsonl") if isinstance(row, RejectedRow)]
    always = [row for row in dropped if row.cause in ("double", "leak")]
    counts = {}
    for filtered in (True, False):
        lines = exported(run, "sft", tmp_path / str(filtered), Wanted(filtered=filtered))
        counts[filtered] = sum(map(len, lines.values()))
    assert counts[False] == len(raw) - len(always) > counts[True] == len(list(read_rows(run / "steps.jsonl")))
    assert default_folder(run, "sft", Wanted(filtered=False)).name == "sft-unfiltered"
    learnt = [read_parts(run, filtered=filtered) for filtered in (True, False)]
    assert {row.id for row in learnt[0].learnt} < {row.id for row in learnt[1].learnt}
    assert [row.id for row in learnt[0].held_out] == [row.id for row in learnt[1].held_out]
    (tmp_path / "published").mkdir()
    with pytest.raises(RunError, match="no manifest"):
        list(unfiltered(tmp_path / "published"))
    (tmp_path / "published" / "manifest.json").write_text('{"published_version": 1}')
    with pytest.raises(RunError, match="is a published folder: give that of the build"):
        list(unfiltered(tmp_path / "published"))


def test_programs_in_another_spelling(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def instead(programs: Any, spelling: str, _workers: int | None) -> dict[str, str]:
        asked.append(spelling)
        return {program: f"{spelling} of {program}" for program in programs}

    monkeypatch.setattr(write, "spelled", instead)
    rows = steps_of(small_run)
    for line in exported(small_run, "sft", tmp_path, Wanted("tir"))["train"]:
        system, question, said = (message["content"] for message in line["messages"])
        row = rows[line["id"]]
        assert question == f"tir of {row.leir_before}".rstrip("\n")
        assert ("TIR" in system, "LEIR" in system) == (True, False)
        assert read_answer(said).leir is None
    assert exported(small_run, "rl", tmp_path, Wanted("tir"))["train"][0]["state"].startswith("in A_")
    assert asked == ["tir", "tir"]


def test_tir_and_cuda_are_tvms_own() -> None:
    program = "in A_{4,8};out C_4;\nL^{4,8}_{i,j}[C_i+=A_{i,j};]\n"
    (tir,) = spell({"spelling": "tir", "programs": [program]})
    (cuda,) = spell({"spelling": "cuda", "programs": [program]})
    assert "T.prim_func" in tir
    assert "__global__" in cuda


def test_chains_hold_until_their_last_proposal(small_run: Path, tmp_path: Path) -> None:
    found = {line["id"]: line for lines in exported(small_run, "stepwise", tmp_path).values() for line in lines}
    chains = [row for row in run_rows(small_run, "trajectories") if isinstance(row, TrajectoryRow)]
    refusals = [row for row in run_rows(small_run, "refusals") if isinstance(row, RefusalRow)]
    ends = 0
    for chain in chains:
        whole = found.pop(chain.id)
        assert whole["prompt"].endswith(f"\n\n{chain.leir.rstrip()}")
        assert whole["labels"] == [True] * chain.length
        assert [read_answer(text).step for text in whole["completions"]] == [
            Step(strategy=step.strategy, args=step.args) for step in chain.steps
        ]
        states = [(chain.state_id, chain.leir), *((step.state_id_after, step.leir_after) for step in chain.steps)]
        shown = [text.rpartition("\n")[0] for text in whole["completions"]]
        assert shown == ["", *(leir.rstrip() for _, leir in states[1:-1])]
        for n, (state_id, leir) in enumerate(states):
            here = [row for row in refusals if (row.source_id, row.state_id) == (chain.source.id, state_id)]
            made = [(row, line) for row in here if (line := found.pop(row_id(chain.id, row.id), None))]
            assert len(made) == bool(here)
            for row, line in made:
                assert line["labels"] == [True] * n + [False]
                assert line["completions"][:-1] == whole["completions"][:n]
                text, _, proposal = line["completions"][-1].rpartition("\n")
                assert text == (leir.rstrip() if n else "")
                assert read_answer(proposal) == Answer(strategy=row.strategy, args=row.args)
                ends += 1
    assert not found
    assert ends


def test_questions_carry_what_judges_their_answers(small_run: Path, tmp_path: Path) -> None:
    found, rows = exported(small_run, "rl", tmp_path), steps_of(small_run)
    states = [(row.source.id, row.state_id_before) for row in rows.values()]
    lines = [line for name in ("train", "validation", "test") for line in found.get(name, [])]
    assert len(lines) == len(dict.fromkeys(states))
    for line in lines:
        row = rows[line["id"]]
        task = Task.model_validate(task_data(line["state"], line["source"]))
        assert task == Task.model_validate_json(line["reward_model"]["ground_truth"])
        assert (task.state, task.source.torch_code) == (row.leir_before, row.source.torch_code)
        assert task.source.leir is not None
        assert task.needs_leir
        assert line["prompt"] == prompt(row.leir_before)
    step_only = exported(small_run, "rl", tmp_path, Wanted(program=False))["train"][0]
    assert not Task.model_validate(task_data(step_only["state"], step_only["source"])).needs_leir


@pytest.mark.parametrize("name", FORMATS)
def test_the_schema_is_that_of_the_lines(small_run: Path, tmp_path: Path, name: FormatName) -> None:
    found = exported(small_run, name, tmp_path)
    schema = json.loads((tmp_path / name / "schema.json").read_text())
    for line in found["train"]:
        assert set(schema["required"]) <= set(line) <= set(schema["properties"])
    assert json.loads((tmp_path / name / "export.json").read_text())["examples"] == {
        split: len(lines) for split, lines in found.items()
    }


def test_the_same_run_gives_the_same_bytes(small_run: Path, tmp_path: Path) -> None:
    texts = [
        {file.name: file.read_bytes() for file in (exported(small_run, "stepwise", out), out / "stepwise")[1].iterdir()}
        for out in (tmp_path / "a", tmp_path / "b")
    ]
    assert texts[0] == texts[1]


def test_where_an_export_goes(small_run: Path, tmp_path: Path) -> None:
    assert default_folder(Path("r"), "sft", Wanted()) == Path("r/export/sft")
    assert default_folder(Path("r"), "rl", Wanted("tir", reasoning=False)) == Path("r/export/rl-tir-no-reasoning")
    assert default_folder(Path("r"), "sft", Wanted(program=False)) == Path("r/export/sft-step")
    exported(small_run, "sft", tmp_path)
    (tmp_path / "sft" / "dataset_info.json").write_text("of an earlier export\n")
    exported(small_run, "sft", tmp_path)
    assert not (tmp_path / "sft" / "dataset_info.json").exists()
    (tmp_path / "sft" / "notes.txt").write_text("mine")
    with pytest.raises(ExportError, match="holds files that are no export"):
        exported(small_run, "sft", tmp_path)


SAID = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
WRONG: list[tuple[str, Line, str]] = [
    ("sft", {"messages": []}, "a list of messages"),
    ("sft", {"messages": SAID[:1]}, "the last message is the assistant's"),
    ("sft", {"messages": [*SAID, {"role": "system", "content": "s"}, SAID[1]]}, "a system message stands first"),
    ("sft", {"messages": [SAID[0], SAID[0], SAID[1]]}, "two messages of user in a row"),
    ("sft", {"messages": [SAID[0], {"role": "assistant", "content": ""}]}, "a text, not empty"),
    ("sft", {"messages": [{"role": "human", "content": "q"}, SAID[1]]}, "role is"),
    ("sft", {"messages": SAID, "text": "t"}, "a column of another type"),
    ("sft", {"messages": [SAID[0], {**SAID[1], "reasoning_content": "r"}]}, "keys are role and content"),
    ("sft_reasoning_content", {"messages": [{**SAID[0], "reasoning_content": "r"}, SAID[1]]}, "of the assistant's"),
    ("sft_reasoning_content", {"messages": [SAID[0], {**SAID[1], "content": "<think>r</think>"}]}, "holds a thought"),
    ("sft_reasoning_content", {"messages": [SAID[0], {**SAID[1], "thinking": "r"}]}, "unknown keys"),
    ("sharegpt", {"conversations": [{"from": "human", "value": "q"}]}, "a list of pairs"),
    ("sharegpt", {"conversations": [{"from": "gpt", "value": "a"}, {"from": "human", "value": "q"}]}, "from is human"),
    ("sharegpt", {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "text": "a"}]}, "from and value"),
    ("stepwise", {"prompt": "p", "completions": ["a"], "labels": [1]}, "true and false"),
    ("stepwise", {"prompt": "p", "completions": ["a", "b"], "labels": [True]}, "1 for 2"),
    ("stepwise", {"prompt": "", "completions": [], "labels": []}, "prompt: a text"),
    ("rl", {"prompt": SAID, "data_source": "s", "reward_model": {}}, "the last message is the user's"),
    ("rl", {"prompt": SAID[:1], "data_source": "s", "reward_model": {"style": "rule"}}, "ground_truth"),
    ("rl", {"prompt": SAID[:1], "completions": [], "data_source": "s"}, "the trainer's own name"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line", "message"), WRONG, ids=range(len(WRONG)))
def test_what_a_tool_would_not_take_is_told(tmp_path: Path, name: str, line: Line, message: str) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps(line) + "\n")
    if name in FOLDER_CHECKS:
        (tmp_path / "dataset_info.json").write_text("{}")
    assert any(message in problem for problem in problems_of(tmp_path, name)), list(problems_of(tmp_path, name))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"file_name": "other.jsonl", "formatting": "sharegpt"}, "no file of"),
        ({"file_name": "train.jsonl"}, "formatting: sharegpt, not None"),
        ({"file_name": "train.jsonl", "formatting": "sharegpt", "columns": {"message": "x"}}, "no such column message"),
        ({"file_name": "train.jsonl", "formatting": "sharegpt", "tags": {"role": "from"}}, "no such tag role"),
    ],
)
def test_a_description_that_names_what_is_not_there(tmp_path: Path, entry: Line, message: str) -> None:
    (tmp_path / "train.jsonl").write_text("")
    (tmp_path / "dataset_info.json").write_text(json.dumps({"d": entry}))
    assert any(message in problem for problem in problems_of(tmp_path, "sharegpt"))


def test_every_format_is_checked() -> None:
    assert set(ROW_CHECKS) == set(FORMATS)
    checks: list[Callable[..., list[str]]] = [check for found in ROW_CHECKS.values() for check in found]
    assert all(check({}) for check in checks)
