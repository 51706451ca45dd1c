"""The scripts that train: kills change no loss, and a whole course at toy size, on a CPU."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepTP.learn.course import ORDER, SHARES

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "sample"


def script(name: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, str(ROOT / "scripts" / name), *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def started(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def killed_when(command: list[str], seen: str) -> bool:
    """Runs a command, and kills it when it has written a text; whether it got so far."""
    process = started(command)
    assert process.stdout is not None
    found = any(seen in line for line in process.stdout)
    if found:
        os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return found


def test_the_seconds_of_training_are_shared_out() -> None:
    assert sum(SHARES.values()) == pytest.approx(1)
    assert set(SHARES) < set(ORDER)


@pytest.mark.parametrize(
    ("name", "run", "out", "message"),
    [
        ("train_small.py", "none", "out", "none: no such run or file"),
        ("train_small.py", "text.jsonl", "out", "text.jsonl:1: the line: Invalid JSON"),
        ("train_small.py", SAMPLE, "text.jsonl/out", "Not a directory"),
        ("train_grpo_small.py", SAMPLE, "out", "none: no checkpoint"),
    ],
)
def test_what_cannot_be_learnt_from_is_one_line(
    tmp_path: Path, name: str, run: str | Path, out: str, message: str
) -> None:
    (tmp_path / "text.jsonl").write_text("text\n")
    end = ("--steps", "1") if name == "train_small.py" else ("--rounds", "1", "--model", tmp_path / "none")
    command = script(name, tmp_path / run, "--out", tmp_path / out, *end, "--device", "cpu")
    said = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert said.returncode == 1 and said.stdout == ""
    assert said.stderr.count("\n") == 1 and said.stderr.startswith(f"{name.removesuffix('.py')}: ")
    assert message in said.stderr


@pytest.mark.slow
def test_training_that_is_killed_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    """One run, and slices of which some are killed half-way: the same loss at every step."""
    common = (SAMPLE, "--steps", "6", "--size", "tiny", "--rows", "60", "--batch-tokens", "3000", "--device", "cpu")

    def losses(folder: str) -> list[tuple[int, float]]:
        told: list[tuple[int, float, float]] = json.loads((tmp_path / folder / "losses.json").read_text())
        return [(step, loss) for step, _, loss in told]

    subprocess.run(script("train_small.py", *common, "--out", tmp_path / "whole"), env=environment(), check=True)
    slices = script("train_small.py", *common, "--out", tmp_path / "parts", "--seconds", "0.001")  # a step each
    subprocess.run(slices, env=environment(), check=True)
    subprocess.run(slices, env=environment(), check=True)
    assert [step for step, _ in losses("parts")] == [1, 2]
    assert killed_when(script("train_small.py", *common, "--out", tmp_path / "parts"), "step 4:")
    assert [step for step, _ in losses("parts")] == [1, 2]
    subprocess.run(script("train_small.py", *common, "--out", tmp_path / "parts"), env=environment(), check=True)
    assert losses("parts") == losses("whole")
    assert [step for step, _ in losses("whole")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_a_course_at_toy_size(tmp_path: Path) -> None:
    """Every stage in calls of which one is killed; then all figures are there, in few and small files."""
    out = tmp_path / "out"
    command = script(
        "gpu_train.py", SAMPLE, "--folder", tmp_path / "course", "--out", out, "--seconds", "80", "--device", "cpu",
        "--size", "tiny", "--steps", "3", "--questions", "4", "--rows", "60", "--most", "60", "--states", "2",
        "--samples", "2", "--train", "60", "--reinforce", "3", "--workers", "1", "--encoders", "1",
        "--batch-tokens", "4000",
    )  # fmt: skip
    assert killed_when(command, "trained leir")
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    for _ in range(6):
        if ended.returncode == 3:  # something is left
            ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told: dict[str, Any] = json.loads((out / "train.json").read_text())
    assert told["errors"] == {}
    assert set(told["trained"]) == {"reasoning", "leir", "shuffled", "tir"}
    assert all(entry["steps"] == 3 and entry["of_plan"] == 1 for entry in told["trained"].values())
    assert {"untrained", "reasoning", "leir", "shuffled", "tir", "grpo", "grpo-seen", "leir-samples"} <= set(
        told["evaluated"]
    )
    for name in ("untrained", "reasoning", "grpo"):
        found = told["evaluated"][name]
        assert found["answers"] == 4 and found["rates"]["parsed"]["count"] == 4
        assert set(found["families"]) <= set(told["about"]["held_out_families"])
        for family in found["families"].values():
            assert {"value", "low", "high"} <= set(family["rates"]["bit_equal"])
    assert told["grpo"]["rounds"] and told["grpo"]["seconds"] > 0
    assert told["evaluated"]["grpo"]["moved"]["equal"]["count"] == told["evaluated"]["grpo"]["answers"]
    assert "moved" not in told["evaluated"]["reasoning"]
    files = [file for file in out.iterdir() if file.is_file()]
    assert len(files) <= 8 and all(file.stat().st_size < 16 << 20 for file in files)
    lines = gzip.decompress((out / "answers.jsonl.gz").read_bytes()).decode().splitlines()
    assert {(entry["exam"], entry["kind"]) for entry in map(json.loads, lines)} >= {
        ("reasoning", "replies"), ("reasoning", "scores"), ("tir", "scores"),
    }  # fmt: skip
    # Where the folder is lost, GRPO alone goes on from what was taken away, with further rounds.
    again = [*command, "--restore", str(out), "--stages", "grpo"]
    again[again.index(str(tmp_path / "course"))] = str(tmp_path / "other")
    again[again.index("--out") + 1] = str(tmp_path / "more")
    again[again.index("--reinforce") + 1] = str(told["grpo"]["seconds"] + 4)
    ended = subprocess.run(again, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    after = json.loads((tmp_path / "more" / "train.json").read_text())
    count = len(told["grpo"]["rounds"])
    assert after["grpo"]["rounds"][:count] == told["grpo"]["rounds"] and len(after["grpo"]["rounds"]) > count
    assert after["trained"] == told["trained"] and after["evaluated"]["tir"] == told["evaluated"]["tir"]
    assert after["evaluated"]["grpo"]["answers"] == 4 and after["errors"] == {}
    # From the parts alone, it begins with them.
    bare = tmp_path / "bare"
    bare.mkdir()
    for part in sorted(out.glob("decoder.part.*")):
        part.rename(bare / part.name)
    again[again.index("--restore") + 1] = str(bare)
    again[again.index(str(tmp_path / "other"))] = str(tmp_path / "third")
    again[again.index("--reinforce") + 1] = "3"
    ended = subprocess.run(again, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    third = json.loads((tmp_path / "more" / "train.json").read_text())
    assert third["trained"] == {} and third["grpo"]["rounds"][0]["round"] == 0
