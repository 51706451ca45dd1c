"""A build gives the same bytes whatever the workers, the timing and the interruptions, and loses nothing."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepTP import pipeline
from stepTP.config import Config, ConfigError, parse_config
from stepTP.draw import uniform
from stepTP.manifest import RunError, load_manifest
from stepTP.records import (
    CONFIGS,
    ChoicesRow,
    ProgramRow,
    RefusalRow,
    RejectedRow,
    Row,
    StepRow,
    TrajectoryRow,
    read_rows,
)
from strategies.grid import Grid
from tests.stepTP.fakes import FakePool

CONFIG = parse_config(
    "name: tiny\nseed: 3\nsources: {families: [mlp, softmax, pooling, attention, losses], per_family: 2}\n"
    "walk: {depth: 3, breadth: 3, per_strategy: 4, attempts: 6, "
    "strategies: [expression_reorder, loop_reorder, loop_split]}\n"
    "tokens: false\nsources_per_shard: 3\nfilter: {near_duplicates: 2, caps: {loop_split: 40}}\n"
)


@pytest.fixture(autouse=True)
def _fake_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "Pool", FakePool)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("built") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Pool", FakePool)
        report = pipeline.build(CONFIG, folder, workers=1)
    assert (report.shards_made, report.shards) == (4, 4)
    yield folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


def test_every_kind_of_row_is_there(built: Path) -> None:
    rows = {name: list(read_rows(built / f"{name}.jsonl")) for name in CONFIGS}
    causes = {(row.stage, row.cause) for row in rows["rejected"] if isinstance(row, RejectedRow)}
    assert {
        ("translate", "unsupported-op"),
        ("walk", "state-seen"),
        ("verify", "wrong-result"),
        ("verify", "crash"),
        ("filter", "double"),
        ("filter", "near-duplicate"),
        ("filter", "strategy-cap"),
    } <= causes
    assert all(isinstance(row, RefusalRow) and not row.facts[-1].holds for row in rows["refusals"])
    assert {row.depth for row in rows["steps"] if isinstance(row, StepRow)} == {1, 2, 3}
    assert all(isinstance(row, ProgramRow) and row.verification for row in rows["programs"])
    assert all(isinstance(row, ChoicesRow) and len(row.choices) > 1 for row in rows["choices"])
    assert all(isinstance(row, TrajectoryRow) and len(row.steps) == 3 for row in rows["trajectories"])
    assert all(rows.values())


def test_the_manifest_counts_what_the_files_hold(built: Path) -> None:
    manifest = load_manifest(built)
    for name, entry in (*manifest.shards.items(), *manifest.outputs.items()):
        if not name.endswith(".jsonl"):
            continue
        rows = list(read_rows(built / name))
        assert entry.counts == {config: n for config, shape in CONFIGS.items() if (n := _number(rows, shape))}, name
        assert sum(entry.rejected.values()) == _number(rows, RejectedRow)
        assert sum(entry.refused.values()) == _number(rows, RefusalRow)


def _number(rows: list[Row], shape: type) -> int:
    return sum(isinstance(row, shape) for row in rows)


def test_ids_are_unique_and_states_verified_once(built: Path) -> None:
    for name in ("steps", "programs", "refusals"):
        ids = [row.id for row in read_rows(built / f"{name}.jsonl")]
        assert len(ids) == len(set(ids)), name
    raw = [row for shard in sorted((built / "raw").iterdir()) for row in read_rows(shard)]
    states = [(row.source.id, row.state_id_after) for row in raw if isinstance(row, StepRow) and not row.undoes]
    assert len(states) == len(set(states))
    starts = {row.id: row.state_id for row in raw if isinstance(row, ProgramRow)}
    assert all(starts[source] != state for source, state in states)


def test_workers_and_timing_change_nothing(built: Path, tmp_path: Path) -> None:
    for workers in (2, 5):
        pipeline.build(CONFIG, tmp_path / str(workers), workers=workers)
        assert contents(tmp_path / str(workers)) == contents(built)


def test_again_does_nothing(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: (built / name).stat().st_mtime_ns for name in contents(built)}
    monkeypatch.setattr(pipeline, "Pool", None)  # whoever opens one fails
    report = pipeline.build(CONFIG, built)
    assert (report.shards_made, report.second_pass) == (0, False)
    assert {name: (built / name).stat().st_mtime_ns for name in contents(built)} == before


@pytest.mark.parametrize("lost", ["raw/00001.jsonl", "steps.jsonl"])
def test_what_is_lost_is_made_again(built: Path, lost: str) -> None:
    before = contents(built)
    times = {name: (built / name).stat().st_mtime_ns for name in before if name.startswith("raw/") and name != lost}
    (built / lost).unlink()
    report = pipeline.build(CONFIG, built, workers=2)
    assert report.shards_made == (1 if lost.startswith("raw/") else 0)
    assert contents(built) == before
    assert {name: (built / name).stat().st_mtime_ns for name in times} == times


def test_a_damaged_shard_is_made_again(built: Path) -> None:
    before = contents(built)
    with (built / "raw/00002.jsonl").open("a") as shard:
        shard.write("{}\n")
    assert pipeline.build(CONFIG, built, workers=2).shards_made == 1
    assert contents(built) == before


@pytest.mark.parametrize("writes", [1, 2, 5, 9])
def test_a_full_disk_loses_nothing(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """The build ends at the first write that fails, and goes on where it ended once there is room."""
    left = iter(range(writes))

    def full(_: int) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        pipeline.build(CONFIG, tmp_path / "run", workers=2)
    monkeypatch.undo()
    monkeypatch.setattr(pipeline, "Pool", FakePool)
    assert not list((tmp_path / "run").rglob("*.tmp"))
    pipeline.build(CONFIG, tmp_path / "run", workers=2)
    assert contents(tmp_path / "run") == contents(built)


def test_another_configuration_is_refused(built: Path) -> None:
    other = CONFIG.model_copy(update={"seed": 4})
    with pytest.raises(RunError, match=r"seed: 3, now 4"):
        pipeline.build(other, built)


def test_the_grid_of_a_build_is_that_of_its_steps(built: Path, tmp_path: Path) -> None:
    def factors(folder: Path) -> set[int]:
        rows = (row for row in read_rows(folder / "steps.jsonl") if isinstance(row, StepRow))
        return {row.args["factor"] for row in rows if row.strategy == "loop_split"}

    other = CONFIG.model_copy(update={"grid": Grid(factors=(5, 7))})
    pipeline.build(other, tmp_path / "run", workers=2)
    assert factors(tmp_path / "run") == {5, 7} and not factors(built) & {5, 7}
    with pytest.raises(RunError, match=r"grid: None, now \{'factors': \[5, 7\]\}"):
        pipeline.build(other, built)


@pytest.mark.parametrize(
    ("given", "shared"),
    [
        ("", True),
        ("folders: [{path: %s, license: MIT}]", False),
        ("modules: [{module: 'json:JSONDecoder', license: MIT}]", False),
    ],
)
def test_workers_that_run_files_of_others_share_nothing(
    given: str, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file runs in the worker that translates it, and could write there what other workers are to expect."""
    asked: list[object] = []

    class Seen(FakePool):
        def __init__(self, workers: int | None = None, *limits: float, **where: object) -> None:
            asked.append(where["board"])
            super().__init__(workers, *limits, **where)

    monkeypatch.setattr(pipeline, "Pool", Seen)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one.py").write_text("one = 1\n")
    given = given.replace("%s", str(tmp_path / "files"))
    config = parse_config(f"name: a\nsources:\n  families: [mlp]\n  per_family: 1\n  {given}\ntokens: false\n")
    pipeline.build(config, tmp_path / "run", workers=1)
    assert asked == [shared]


def test_another_source_or_strategy_moves_no_other(built: Path, tmp_path: Path) -> None:
    families = (*(CONFIG.sources.families), "rms_norm")
    sources = CONFIG.sources.model_copy(update={"families": families})
    pipeline.build(CONFIG.model_copy(update={"sources": sources}), tmp_path / "more", workers=2)
    old = {line for shard in (built / "raw").iterdir() for line in shard.read_text().splitlines()}
    new = {line for shard in (tmp_path / "more/raw").iterdir() for line in shard.read_text().splitlines()}
    assert old < new


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sources: {families: [mpl]}", "sources.families: no family 'mpl': did you mean 'mlp'"),
        ("walk: {strategies: [loop_spilt]}", "walk.strategies: no strategy 'loop_spilt': did you mean 'loop_split'"),
        ("filter: {caps: {loop_spilt: 3}}", "filter.caps: no strategy 'loop_spilt': did you mean 'loop_split'"),
    ],
)
def test_names_that_nobody_has(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pipeline.build(parse_config(f"name: a\n{text}"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


SCRIPT = """
import sys
from pathlib import Path
from stepTP import pipeline
from stepTP.config import Config
from tests.stepTP.fakes import FakePool
pipeline.Pool = FakePool
pipeline.build(Config.model_validate_json(sys.argv[1]), Path(sys.argv[2]), workers=2)
"""


def start(config: Config, folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", SCRIPT, config.model_dump_json(), str(folder)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONPATH": "."})


def test_killed_at_any_moment_and_started_again(built: Path, tmp_path: Path) -> None:
    """Each attempt is killed a little later than the one before, the first as soon as there is a manifest."""
    folder, killed = tmp_path / "run", 0
    for attempt in range(20):
        process = start(CONFIG, folder)
        while not (folder / "manifest.json").exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(0.2 * attempt)
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            break
        killed += 1
    assert killed >= 2
    assert start(CONFIG, folder).wait() == 0
    assert contents(folder) == contents(built)
    assert json.loads((folder / "manifest.json").read_text())["planned"] == 4


@pytest.mark.slow
def test_killed_at_twenty_drawn_moments(built: Path, tmp_path: Path) -> None:
    """Each time a new build, killed at a moment drawn from the time that one takes, and gone on with once."""
    begun = time.monotonic()
    assert start(CONFIG, tmp_path / "whole").wait() == 0
    took = time.monotonic() - begun
    killed = 0
    for number in range(20):
        folder = tmp_path / str(number)
        process = start(CONFIG, folder)
        time.sleep(took * uniform("kill", number))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() != 0
        assert start(CONFIG, folder).wait() == 0
        assert contents(folder) == contents(built), number
    assert killed >= 15
