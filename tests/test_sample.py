"""The committed sample is what its manifest says, its steps give their texts again, and its programs verify."""

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from stepTP.commands.rows import _replayed
from stepTP.draw import digest
from stepTP.publish.published import load_published
from stepTP.records import SCHEMA_VERSION, StepRow
from stepTP.replay import replay
from stepTP.stats import run_rows
from strategies.catalog import strategies

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "data" / "sample"
pytest.importorskip("pyarrow", reason="the extra `publish` is not installed")


@pytest.fixture(scope="module")
def steps() -> list[StepRow]:
    return [row for row in run_rows(SAMPLE, "steps") if isinstance(row, StepRow)]


def test_every_file_is_the_manifests() -> None:
    manifest = load_published(SAMPLE)
    assert manifest.schema_version == SCHEMA_VERSION
    assert {f.relative_to(SAMPLE).as_posix() for f in SAMPLE.rglob("*") if f.is_file()} == {
        *manifest.files, "manifest.json"
    }  # fmt: skip
    for name, file in manifest.files.items():
        assert hashlib.sha256((SAMPLE / name).read_bytes()).hexdigest() == file.sha256


def test_the_configuration_is_the_repositorys() -> None:
    """The sample can be built again: it is asked for by configs/sample.yaml, with that file's values."""
    asked = yaml.safe_load((ROOT / "configs" / "sample.yaml").read_text())
    made = load_published(SAMPLE).identity.config
    for section, values in asked.items():
        if isinstance(values, dict):
            assert {key: made[section][key] for key in values} == values
        else:
            assert made[section] == values


def test_every_strategy_has_rows(steps: list[StepRow]) -> None:
    names, counts = [each.name for each in strategies()], Counter(row.strategy for row in steps)
    assert [name for name in names if counts[name] < 3] == []


def test_one_row_of_every_strategy_replays(steps: list[StepRow]) -> None:
    chosen = {row.strategy: row for row in sorted(steps, key=lambda row: digest("sample", row.id))}
    assert replay({"rows": [_replayed(row) for row in chosen.values()]}) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["replay", "verify"])
def test_all_rows(command: str) -> None:
    arguments = [sys.executable, "-m", "stepTP.cli", command, str(SAMPLE)]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
