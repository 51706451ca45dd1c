"""A run's folder: whole files or none, one builder at a time, and nothing mixed."""

from pathlib import Path
from typing import Any

import pytest

from stepTP.manifest import Identity, RunError, intact, load_manifest, open_run, write_whole

IDENTITY = Identity(
    config={"name": "a", "walk": {"depth": 2}},
    config_hash="c",
    catalog_hash="k",
    code_version="1",
    tool_versions={"torch": "2"},
    seed=0,
)


def changed(**fields: Any) -> Identity:
    return IDENTITY.model_copy(update=fields)


def test_a_written_file_is_recorded_and_whole(tmp_path: Path) -> None:
    with open_run(tmp_path / "r", IDENTITY) as run:
        assert not run.has("raw/0.jsonl")
        run.write("raw/0.jsonl", ["a\n", "b\n"], {"counts": {"steps": 2}})
        assert run.has("raw/0.jsonl")
    entry = load_manifest(tmp_path / "r").shards["raw/0.jsonl"]
    assert entry.bytes == 4 and intact(tmp_path / "r/raw/0.jsonl", entry)
    (tmp_path / "r/raw/0.jsonl").write_text("a\nc\n")
    with open_run(tmp_path / "r", IDENTITY) as run:
        assert not run.has("raw/0.jsonl")


def test_a_shard_may_not_come_out_otherwise(tmp_path: Path) -> None:
    with open_run(tmp_path / "r", IDENTITY) as run:
        run.write("raw/0.jsonl", ["a\n"], {"counts": {}})
        with pytest.raises(RunError, match="rebuilt to other bytes"):
            run.write("raw/0.jsonl", ["b\n"], {"counts": {}})
        assert run.has("raw/0.jsonl")


def test_two_builds_in_one_folder(tmp_path: Path) -> None:
    with (
        open_run(tmp_path / "r", IDENTITY),
        pytest.raises(RunError, match="another build or measurement runs there"),
        open_run(tmp_path / "r", IDENTITY),
    ):
        pass
    with open_run(tmp_path / "r", IDENTITY):
        pass


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (changed(config={"name": "a", "walk": {"depth": 3}}), r"another configuration \(walk.depth: 2, now 3\)"),
        (changed(code_version="2"), r"other code \(1, now 2\)"),
        (changed(catalog_hash="l"), "other code"),
        (changed(tool_versions={"torch": "3"}), r"other tools \(torch 2, now 3\)"),
    ],
)
def test_a_run_is_not_mixed(tmp_path: Path, now: Identity, message: str) -> None:
    with open_run(tmp_path / "r", IDENTITY):
        pass
    before = (tmp_path / "r/manifest.json").read_bytes()
    with pytest.raises(RunError, match=message), open_run(tmp_path / "r", now):
        pass
    assert (tmp_path / "r/manifest.json").read_bytes() == before


def test_folders_that_are_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="is a file"), open_run(tmp_path / "file", IDENTITY):
        pass
    with pytest.raises(RunError, match=r"holds files but no manifest"), open_run(tmp_path, IDENTITY):
        pass
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]
    with pytest.raises(RunError, match=r"no manifest.json there"):
        load_manifest(tmp_path)
    (tmp_path / "r").mkdir()
    (tmp_path / "r/manifest.json").write_text("{")
    with pytest.raises(RunError, match="damaged"), open_run(tmp_path / "r", IDENTITY):
        pass


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="Not a directory"), open_run(tmp_path / "file/r", IDENTITY):
        pass


def test_what_a_killed_build_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "r/raw").mkdir(parents=True)
    (tmp_path / "r/manifest.json.tmp").write_text("{")
    (tmp_path / "r/raw/0.jsonl.tmp").write_text("half")
    with open_run(tmp_path / "r", IDENTITY):
        assert not list((tmp_path / "r").rglob("*.tmp"))


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"old")
    (tmp_path / "a.tmp").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
