"""Kept verdicts: used once ever, by many processes, damaged files left out of account, never more than the bound."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stepTP import config, identity, pipeline, walk
from stepTP.verify.kept import CacheDamaged, Kept, default_folder, key_of, open_kept
from stepTP.walk import Check, verify_all
from tests.stepTP.fakes import VERDICT, FakePool
from tests.stepTP.test_build import CONFIG, contents
from tests.stepTP.test_walk import CRASH, SOURCE, Jobs

ROOT = Path(__file__).parents[2]
OK = {"ok": True, "cause": "", "message": "", "verdicts": [VERDICT]}
WRONG = {**OK, "ok": False, "cause": "wrong-result"}
FILE = "verdicts-1.sqlite"


def keys(count: int, start: int = 0) -> list[bytes]:
    return [key_of("entry", number) for number in range(start, start + count)]


def test_what_is_put_is_got_by_the_next_process(tmp_path: Path) -> None:
    one, two, three = keys(3)
    with open_kept(tmp_path / "new" / "folder") as kept:
        kept.put({one: OK, two: WRONG})
    with open_kept(tmp_path / "new" / "folder") as kept:
        assert kept.get([one, two, three]) == {one: OK}
        assert (kept.found, kept.missed) == (1, 2)


def test_every_part_decides_the_key() -> None:
    parts = ({"code": "a"}, {"seed": 0}, {"leir": "x", "parent": None})
    others = ({"code": "b"}, {"seed": 1}, {"leir": "x", "parent": "y"})
    found = {key_of(*parts)} | {key_of(*parts[:n], others[n], *parts[n + 1 :]) for n in range(3)}
    assert len(found) == 4


def test_a_damaged_entry_is_left_out_with_a_warning(tmp_path: Path) -> None:
    good, bad = keys(2)
    with open_kept(tmp_path) as kept:
        kept.put({good: OK, bad: OK})
    with sqlite3.connect(tmp_path / FILE) as database:
        changed = json.dumps({**OK, "message": "forged"}).encode()
        database.execute("UPDATE verdicts SET answer = ? WHERE key = ?", (changed, bad))
    database.close()
    with open_kept(tmp_path) as kept:
        with pytest.warns(CacheDamaged, match="damaged"):
            assert kept.get([good, bad]) == {good: OK}
        kept.put({bad: OK})
        assert kept.get([bad]) == {bad: OK}


@pytest.mark.parametrize("damage", [b"no store", b""])
def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path, damage: bytes) -> None:
    with open_kept(tmp_path) as kept:
        kept.put(dict.fromkeys(keys(200), OK))
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(damage * 1000 + data[1000:] if damage else data[: len(data) // 2])
    with pytest.warns(CacheDamaged, match="remove the file"), open_kept(tmp_path) as kept:
        kept.put(dict.fromkeys(keys(200, 1000), OK))
        assert len(kept.get(keys(200))) < 200
        assert kept.get(keys(1)) == {}  # it is not asked again


def test_a_folder_that_cannot_be_made_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(CacheDamaged), open_kept(tmp_path / "file" / "below") as kept:
        kept.put(dict.fromkeys(keys(1), OK))
        assert kept.get(keys(1)) == {}


def test_the_oldest_uses_go_first_and_the_size_stays(tmp_path: Path) -> None:
    limit = 200_000
    with open_kept(tmp_path, limit) as kept:
        favourite = keys(1)
        kept.put({favourite[0]: OK})
        for start in range(1, 2001, 50):
            kept.put(dict.fromkeys(keys(50, start), OK))
            assert kept.get(favourite)
        assert kept.get(keys(1, 1)) == {} and kept.get(keys(1, 2000))
    assert (tmp_path / FILE).stat().st_size < 1.5 * limit


WRITER = """
import sys
from pathlib import Path
from stepTP.verify.kept import key_of, open_kept
with open_kept(Path(sys.argv[1])) as kept:
    print("ready", flush=True)
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        kept.put({key_of("entry", number): %r})
"""


def writer(folder: Path, start: int, stop: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "error", "-c", WRITER % OK, str(folder), str(start), str(stop)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    writers = [writer(tmp_path, start, start + 100) for start in (0, 50, 100)]
    assert [process.wait(120) for process in writers] == [0, 0, 0]
    for process in writers:
        assert process.stdout
        process.stdout.close()
    with open_kept(tmp_path) as kept:
        assert len(kept.get(keys(200))) == 200


def test_a_process_killed_while_it_writes_leaves_a_whole_store(tmp_path: Path) -> None:
    for attempt in range(3):
        with writer(tmp_path, 0, 10**6) as process:
            assert process.stdout and process.stdout.readline()
            time.sleep(0.05 * (attempt + 1))
            os.kill(process.pid, signal.SIGKILL)
    with open_kept(tmp_path) as kept:
        assert kept.get(keys(1))
        kept.put(dict.fromkeys(keys(1, -1), OK))
        assert kept.get(keys(1, -1))
    with sqlite3.connect(tmp_path / FILE) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_a_verdict_is_asked_for_once_and_a_crash_again(tmp_path: Path) -> None:
    checks = [Check(f"program {n}", None, False) for n in range(20)]

    def answers(jobs: Jobs, seed: int = 0) -> list[Any]:
        with open_kept(tmp_path) as kept:
            return list(verify_all(jobs, config.Verify(), seed, SOURCE, checks, kept))

    first = answers(Jobs(lost=lambda _, program: program["leir"] == "program 11"))
    assert first[11] is CRASH and first[12] == OK
    again = Jobs()
    assert answers(again) == [OK] * 20
    assert again.verified == ["program 11"]
    other = Jobs()
    answers(other, seed=1)
    assert len(other.verified) == 20


@pytest.mark.parametrize(
    ("part", "other"),
    [("code", "0" * 64), ("tools", {"numpy": "1.0"}), ("processor", ["another"]), ("gpus", ["another"])],
)
def test_a_verdict_of_other_rules_tools_or_machines_is_not_taken(
    part: str, other: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that refuses less must have no say once it is mended; nor has code that is newer, or another processor."""
    checks = [Check("program", "parent", True)]

    def asked() -> list[str]:
        jobs = Jobs()
        with open_kept(tmp_path) as kept:
            assert list(verify_all(jobs, config.Verify(), 0, SOURCE, checks, kept)) == [OK]
        return jobs.verified

    now = walk.verification_identity(("llvm",))
    monkeypatch.setattr(walk, "verification_identity", lambda _: {**now, part: other})
    assert asked() == ["program"] and asked() == []
    monkeypatch.setattr(walk, "verification_identity", lambda _: now)
    assert asked() == ["program"]


@pytest.mark.parametrize("package", ["leir/check", "leir/lowering", "stepTP/verify", "stepTP/frontend"])
def test_a_change_of_the_code_that_verifies_is_a_change_of_its_identity(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("leir", "stepTP/verify", "stepTP/frontend"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.setattr(identity, "_folder", lambda module: tmp_path / module.__name__)
    found: list[dict[str, object]] = []
    for text in ("", "# a line more\n"):
        with (tmp_path / package / "__init__.py").open("a") as file:
            file.write(text)
        identity.verification_identity.cache_clear()
        found.append(identity.verification_identity(("llvm",)))
    identity.verification_identity.cache_clear()
    assert found[0]["code"] != found[1]["code"]


def test_a_build_gives_the_same_bytes_with_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[FakePool] = []

    def pool(*arguments: Any, **named: Any) -> FakePool:
        pools.append(FakePool(*arguments, **named))
        return pools[-1]

    monkeypatch.setattr(pipeline, "Pool", pool)
    pipeline.build(CONFIG, tmp_path / "without", workers=2)
    pipeline.build(CONFIG, tmp_path / "first", workers=2, cache=tmp_path / "cache")
    pipeline.build(CONFIG, tmp_path / "second", workers=2, cache=tmp_path / "cache")
    assert contents(tmp_path / "without") == contents(tmp_path / "first") == contents(tmp_path / "second")
    asked = [sum(task == "verify_one" for task, _ in made.asked) for made in pools]
    assert asked[0] == asked[1] and 0 < asked[2] < asked[1] / 4  # those that failed


def test_where_verdicts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPTP_CACHE", "/own")
    assert default_folder() == Path("/own")
    monkeypatch.delenv("STEPTP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/steptp")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, as the specification says
    assert default_folder() == Path.home() / ".cache/steptp"


def test_errors_of_another_kind_surface(tmp_path: Path) -> None:
    with open_kept(tmp_path) as kept, pytest.raises(KeyError):
        kept.put({key_of("x"): {}})
    assert isinstance(kept, Kept)
