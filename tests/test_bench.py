"""The benchmark: it measures what it says, in seconds if asked, and the README's figures come from it."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def spend(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_nothing_is_counted_twice() -> None:
    clock = script("bench_stages").Clock()
    inner = clock.timed("inner", lambda: spend(0.05))

    def outer() -> None:
        spend(0.02)
        inner()
        inner()

    clock.timed("outer", outer)()
    assert clock.seconds["inner"] == pytest.approx(0.1, abs=0.03)
    assert clock.real["inner"] >= 0.1
    assert clock.seconds["outer"] == pytest.approx(0.02, abs=0.015)


def test_a_stage_that_fails_is_counted_and_closed() -> None:
    clock = script("bench_stages").Clock()

    def fails() -> None:
        spend(0.02)
        raise ValueError

    with pytest.raises(ValueError):
        clock.timed("stage", fails)()
    assert clock.seconds["stage"] >= 0.02
    assert clock.real["stage"] >= 0.02
    assert clock.inner == []


@pytest.mark.slow
def test_a_quick_run_measures_everything(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    command = [sys.executable, str(SCRIPTS / "bench.py"), "--quick", "--workers", "2", "--json", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["whole"]["workers"] == 2 and report["whole"]["states"] > 2
    assert report["states_per_second"] > 0 and report["ratio_to_plain_tvm"] > 0
    stages = report["stages_cpu_ms"]
    for name in ("translate", "candidates and rewrites", "check", "parse", "lower", "compile", "run", "compare"):
        assert stages[name] > 0, name
        assert f"| {name} |" in said
    assert sum(row["states"] for row in report["classes"]) > 1
    assert report["whole"]["memory_mb"]["largest_worker"] > 100
    shown = "\n".join(script("figures").bench(report))
    assert f"| times plain TVM | {report['ratio_to_plain_tvm']} |" in shown


def test_a_process_that_ends_while_it_is_looked_at_is_left_out() -> None:
    watch = script("bench_watch")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in watch.below(os.getpid())
    assert watch.below(child.pid) == [] and watch.resident(child.pid) == 0
