"""Builds with everything real: translation, strategies, compiled verification, reasoning."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepTP.config import Verify
from stepTP.records import ProgramRow
from stepTP.verify.kept import default_folder, open_kept
from stepTP.walk import Check, verify_all

ROOT = Path(__file__).parents[2]
TINY = (
    "name: tiny\nsources: {families: [softmax], per_family: 1}\n"
    "walk: {depth: 2, breadth: 1, per_strategy: 1}\nsources_per_shard: 1\n"
)


def steptp(*arguments: str | Path, code: int = 0) -> Any:
    """A command's JSON."""
    command = [sys.executable, "-m", "stepTP.cli", *map(str, arguments), "--json"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.yaml").write_text(TINY)
    report = steptp("build", folder / "tiny.yaml", "--out", folder / "run", "--workers", "2")
    assert report["rows"]["programs"] == 1 and report["rows"]["steps"] >= 4, report
    assert not any("bug" in cause or "crash" in cause for cause in report["rejected"]), report
    return folder / "run"


def test_rows_replay_and_changed_ones_do_not(tiny: Path, tmp_path: Path) -> None:
    steps = rows(tiny / "steps.jsonl")
    other = json.loads(json.dumps(steps[0]))
    other["leir_after"] = steps[1]["leir_after"]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (other, *steps[1:])))
    report = steptp("replay", tmp_path / "steps.jsonl", "--workers", "1", code=1)
    assert report["rows"] == len(steps)
    assert {problem["id"] for problem in report["failed"]} == {steps[0]["id"]}


@dataclass
class Forger:
    """Says of every program that all is well."""

    asked: list[str]

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        raise AssertionError(f"{task} is not verification: {payload} near {near}")

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]":
        del task, payload, near
        self.asked += [item["leir"] for item in items]
        futures: list[Future[Any]] = [Future() for _ in items]
        for future in futures:
            future.set_result({"ok": True, "cause": "", "message": "", "verdicts": []})
        return futures


def test_rows_verify_and_wrong_ones_do_not(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where a kept verdict, with its right key and digest, says of the wrong row that all is well."""
    steps, programs = rows(tiny / "steps.jsonl"), (tiny / "programs.jsonl").read_text()
    wrong = json.loads(json.dumps(steps[0]))
    head, output = wrong["leir_before"].rsplit("=", 1)  # the last equation's value is an output's
    wrong["leir_after"] = f"{head}=1.001*({output.replace(';', ');', 1)}"
    assert wrong["leir_after"] != wrong["leir_before"]
    text = "".join(json.dumps(row) + "\n" for row in (wrong, *steps[1:]))
    (tmp_path / "steps.jsonl").write_text(text + programs)
    monkeypatch.setenv("STEPTP_CACHE", str(tmp_path / "cache"))
    program = ProgramRow.model_validate_json(programs.splitlines()[0])
    check = [Check(wrong["leir_after"], wrong["leir_before"], wrong["bit_exact"])]
    for said in ([check[0].leir], []):  # forged, and then believed by whoever reads the store
        jobs = Forger([])
        with open_kept(default_folder()) as kept:
            (answer,) = verify_all(jobs, Verify(), 0, program, check, kept)
        assert answer["ok"] and jobs.asked == said
    report = steptp("verify", tmp_path / "steps.jsonl", "--workers", "1", code=1)
    assert report["rows"] == len(steps)
    assert [problem["id"] for problem in report["failed"]] == [wrong["id"]]
    assert "wrong-result" in report["failed"][0]["message"]


@pytest.mark.slow
def test_workers_change_no_byte(tiny: Path, tmp_path: Path) -> None:
    steptp("build", tiny.parent / "tiny.yaml", "--out", tmp_path / "one", "--workers", "1")
    assert contents(tmp_path / "one") == contents(tiny)


@pytest.mark.slow
def test_quickstart(tmp_path: Path) -> None:
    """What the README promises of the sample, and that it survives a lost shard."""
    config, folder = ROOT / "configs/quickstart.yaml", tmp_path / "run"
    start = time.monotonic()
    report = steptp("build", config, "--out", folder)
    print(f"quickstart: {time.monotonic() - start:.0f} s, {report}")
    steps = rows(folder / "steps.jsonl")
    assert len(steps) >= 1000
    assert len({row["source"]["id"] for row in steps}) >= 30
    assert len({row["source"]["family"] for row in steps}) >= 12
    assert {row["depth"] for row in steps} == {1, 2, 3, 4}
    counts = Counter(row["strategy"] for row in steps)
    catalog = [entry["name"] for entry in steptp("strategies", "list")]
    assert all(counts[name] >= 20 for name in catalog), counts
    for name in catalog:
        assert len({row["source"]["family"] for row in steps if row["strategy"] == name}) >= 3, name
    assert not any("bug" in cause or "crash" in cause for cause in report["rejected"]), report
    before = contents(folder)
    assert steptp("build", config, "--out", folder)["shards_made"] == 0
    (folder / "raw/00003.jsonl").unlink()
    assert steptp("build", config, "--out", folder)["shards_made"] == 1
    assert contents(folder) == before
    assert steptp("replay", folder)["failed"] == []
    assert steptp("verify", folder)["failed"] == []


GIVEN = """
import torch
from torch import nn

batch_size = 64
features = 48


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)
        self.dropout = nn.Dropout(0.5)
        self.linear = nn.Linear(features, 4)

    def forward(self, x):
        return torch.softmax(self.linear(self.dropout(self.norm(x))), dim=-1)


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features]
"""
FROM_A_FOLDER = (
    "name: given\nsources: {families: none, folders: [{path: %s, license: MIT, fit: 20000, eval: true}]}\n"
    "walk: {depth: 1, breadth: 1, per_strategy: 1, strategies: [loop_split, loop_reorder, online_softmax]}\n"
    "measure: {targets: [llvm], limit: 2, repeats: 3}\ntokens: false\n"
)


@pytest.mark.slow
def test_files_of_a_folder_are_built_timed_verified_and_timed_again(tmp_path: Path) -> None:
    """The run stands alone: it is verified and measured once the folder is gone, at its sizes and at the file's own."""
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "model.py").write_text(GIVEN)
    (tmp_path / "given.yaml").write_text(FROM_A_FOLDER % (tmp_path / "given"))
    run = tmp_path / "run"
    report = steptp("build", tmp_path / "given.yaml", "--out", run, "--workers", "2")
    assert report["rows"]["programs"] == 1 and report["rows"]["steps"] >= 2 and report["measurements"] >= 3, report
    (program,) = rows(run / "programs.jsonl")
    assert "batch_size = 64" not in program["source"]["torch_code"]  # it was made to fit
    (tmp_path / "given" / "model.py").unlink()
    assert steptp("verify", run, "--workers", "1") == {"rows": report["rows"]["steps"], "failed": []}
    measured = steptp("measure", run, "--repeats", "3", "--limit", "3")
    assert {row["status"] for row in measured if row["subject"] == "program"} == {"ok"}
    table = rows(run / "measurements.jsonl")
    eager = [row for row in table if row["subject"] == "eager"]
    steps = [row for row in table if row["strategy"]]
    assert (len(eager), len(steps), len(table)) == (1, 2, 4), table  # and the source; none of them twice
    for row in steps:
        assert row["timing"]["median_us"] > 0 and row["timing"]["repeats"] == 3
        for compared in ("speedup_vs_parent", "speedup_vs_source", "speedup_vs_eager"):
            assert row[compared]["ratio"] > 0 and row[compared]["bin"]
        assert row["roofline"]["fraction"] <= 1
    before = (run / "measurements.jsonl").read_bytes()
    steptp("measure", run, "--repeats", "3", "--limit", "3")
    assert (run / "measurements.jsonl").read_bytes() == before
