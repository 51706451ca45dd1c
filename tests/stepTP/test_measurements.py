"""The table of measurements: what is timed in which order, resumed, locked, and compared with what."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stepTP import measurements
from stepTP.manifest import RunError, locked
from stepTP.measurements import (
    MeasureError,
    Request,
    Source,
    State,
    appending,
    limited,
    measure_states,
    read_measurements,
    resized,
)
from stepTP.records import MeasurementRow, RowError, Step, json_schemas, to_line
from stepTP.sizes import at_sizes
from stepTP.sources import generate
from stepTP.verify.devices import DeviceBusy, device_alone
from stepTP.verify.pool import Failure

MACHINE = {
    "id": "0123456789abcdef", "device": "a test", "target": "llvm", "processors": 1, "threads": 1, "cache_bytes": 1,
    "memory_bytes": 1, "driver": "", "compute_capability": "", "system": "", "software": {},
}  # fmt: skip
SOURCE = Source("s", "family", "code", "plain", "0")
SPLIT = Step(strategy="loop_split", args={"path": [0], "factor": 4})
A = State("a", "1", "0", (SPLIT,))
B = State("b", "2", "1", (SPLIT, SPLIT))


def timing(median: float) -> dict[str, Any]:
    return {
        "median_us": median, "q1_us": median, "q3_us": median, "spread_us": 0.0, "disturbed": 0.0, "repeats": 3,
        "runs_per_repeat": 1, "warm_up_runs": 1, "clock": "perf_counter_ns", "launch_us": median, "input_sets": 2,
        "bytes_per_set": 4, "cold": False,
    }  # fmt: skip


@dataclass
class Jobs:
    """Answers at once: `times` by program, or a failure where there is none; notes what was timed."""

    times: dict[str, Any]
    timed: list[str] = field(default_factory=list)

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        del near
        future: Future[Any] = Future()
        future.set_result(self._answer(task, payload))
        return future

    def _answer(self, task: str, payload: dict[str, Any]) -> Any:
        if task == measurements.DESCRIBE:
            return MACHINE
        if task == measurements.RESIZE:
            return at_sizes(payload)
        name = "eager" if task == measurements.TIME["eager"] else payload["leir"]
        self.timed.append(name)
        found = self.times.get(name)
        if found is None:
            return Failure("crash", task, "killed by SIGSEGV")
        status, median = found if isinstance(found, tuple) else ("ok", found)
        return {
            "status": status, "message": "" if status == "ok" else "why", "timing": timing(median), "roofline": None,
            "binding": "none", "measured_state_id": None, "verification": [], "clocks": {},
        }  # fmt: skip


def rows_of(jobs: Jobs, known: dict[str, MeasurementRow] | None = None) -> dict[str, MeasurementRow]:
    rows = measure_states(jobs, SOURCE, (A, B), Request("llvm"), known)
    return {row.state_id if row.subject == "program" else "eager": row for row in rows}


def test_states_are_compared_with_parent_source_and_module() -> None:
    rows = rows_of(jobs := Jobs({"eager": 12.0, "plain": 6.0, "a": 3.0, "b": 2.0}))
    assert jobs.timed == ["eager", "plain", "a", "b"]
    found = rows["2"]
    assert found.parent_state_id == "1" and found.strategy == "loop_split" and found.depth == 2
    ratios = [c and c.ratio for c in (found.speedup_vs_parent, found.speedup_vs_source, found.speedup_vs_eager)]
    assert ratios == [1.5, 3.0, 6.0]
    plain = rows["0"]
    assert plain.speedup_vs_parent is plain.speedup_vs_source is None
    assert plain.speedup_vs_eager and plain.speedup_vs_eager.bin == "large-speedup"


@pytest.mark.parametrize("bad", [None, ("wrong-result", 1.0), ("impossible", 1e-9)])
def test_what_cannot_be_believed_is_never_a_speedup_nor_a_baseline(bad: Any) -> None:
    rows = rows_of(Jobs({"eager": 12.0, "plain": 6.0, "a": bad, "b": 2.0}))
    assert rows["1"].status == ("failed" if bad is None else bad[0])
    assert "killed by SIGSEGV" in rows["1"].message or rows["1"].message == "why"
    assert rows["1"].speedup_vs_source is None
    assert rows["2"].speedup_vs_parent is None
    assert rows["2"].speedup_vs_source and rows["2"].speedup_vs_source.ratio == 3.0


def test_what_is_known_is_not_timed_again_but_compared_with() -> None:
    first = rows_of(Jobs({"eager": 12.0, "plain": 6.0, "a": 3.0, "b": 2.0}))
    known = {row.id: row for name, row in first.items() if name != "2"}
    again = rows_of(jobs := Jobs({"b": 1.0}), known)
    assert jobs.timed == ["b"]
    assert again["2"].speedup_vs_parent and again["2"].speedup_vs_parent.ratio == 3.0


def test_rows_differ_by_target_sizes_and_machine() -> None:
    jobs = Jobs({"eager": 1.0, "plain": 1.0})
    ids = [next(iter(measure_states(jobs, SOURCE, (), r))).id for r in (Request("llvm"), Request("cuda"))]
    ids.append(next(iter(measure_states(jobs, SOURCE, (), Request("llvm", sizes={"rows": 8})))).id)
    assert len(set(ids)) == 3


def test_a_machine_that_cannot_be_asked_ends_it() -> None:
    class Broken(Jobs):
        def _answer(self, task: str, payload: dict[str, Any]) -> Any:
            del payload
            return Failure("refused", task, "the GPU cannot be asked", "Unmeasured")

    with pytest.raises(MeasureError, match="cuda: Unmeasured: the GPU cannot be asked"):
        list(measure_states(Broken({}), SOURCE, (), Request("cuda")))


def test_a_limit_takes_from_all_sources_in_turn_and_leaves_no_orphans() -> None:
    groups = [(SOURCE, [State("plain", "0"), A, B]), (SOURCE, [State("plain", "0"), A])]
    assert [len(states) for _, states in limited(groups, 3)] == [2, 1]
    assert [len(states) for _, states in limited(groups, 1)] == [1]
    assert limited(groups, None) == groups
    assert limited(groups, 3)[0][1] == [State("plain", "0"), A]


def row(state: str, median: float) -> MeasurementRow:
    states = (State("x", state),)
    return list(measure_states(Jobs({"eager": 1.0, "plain": 1.0, "x": median}), SOURCE, states, Request("llvm")))[-1]


def test_half_a_line_of_a_killed_process_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "measurements.jsonl"
    assert read_measurements(file) == []
    one, two = row("1", 1.0), row("2", 2.0)
    file.write_text(to_line(one) + to_line(two)[:40])
    assert read_measurements(file) == [one]
    with appending(file) as append:
        append(two)
    assert read_measurements(file) == [one, two]
    assert file.read_text() == to_line(one) + to_line(two)


def test_of_two_rows_with_one_id_the_later_stands(tmp_path: Path) -> None:
    file = tmp_path / "measurements.jsonl"
    with appending(file) as append:
        append(row("1", 1.0))
        append(row("1", 5.0))
    (found,) = read_measurements(file)
    assert found.timing and found.timing.median_us == 5.0


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "measurements.jsonl"
    file.write_text(to_line(row("1", 1.0)) + '{"row": "measurement"}\n')
    with pytest.raises(RowError, match=r"measurements.jsonl:2: "):
        read_measurements(file)


def test_a_device_and_a_folder_are_for_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    busy = pytest.raises(DeviceBusy, match="another measurement runs on llvm")
    with device_alone("llvm"), device_alone("cuda"), busy, device_alone("llvm"):
        pass
    taken = pytest.raises(RunError, match="another build or measurement runs there")
    with device_alone("llvm"), locked(tmp_path), taken, locked(tmp_path):
        pass


def test_the_schema_of_the_table_is_published() -> None:
    assert set(json_schemas()["measurements"]["properties"]) == set(MeasurementRow.model_fields)


@pytest.fixture(scope="module")
def softmax() -> Source:
    (made,) = generate(["softmax"], 0, 1)
    plain = at_sizes({"code": made.torch_code, "file": "s", "sizes": {}, "paths": []})
    return Source("s", "softmax", made.torch_code, plain["leir"], "0")


def test_steps_are_taken_again_at_other_sizes(softmax: Source) -> None:
    far = Step(strategy="loop_split", args={"path": [0, 9, 9], "factor": 4})
    states = [State("", "0"), State("", "1", "0", (SPLIT,)), State("", "2", "1", (SPLIT, far))]
    ((source, (plain, split, lost)),) = resized(Jobs({}), [(softmax, states)], {"classes": 96})
    assert "classes = 96\n" in source.torch_code and "96}" in source.leir
    assert plain.leir == source.leir and not plain.problem
    assert split.leir.startswith(source.leir.split("\n")[0]) and split.leir != source.leir and split.state_id == "1"
    assert "at these sizes step 2, loop_split, does not apply: " in lost.problem
    jobs = Jobs({"eager": 1.0, source.leir: 1.0, split.leir: 1.0})
    rows = list(measure_states(jobs, source, (plain, split, lost), Request("llvm", sizes={"classes": 96})))
    assert [r.status for r in rows] == ["ok", "ok", "ok", "failed"]
    assert rows[-1].message == lost.problem


def test_a_source_without_the_constant_says_so(softmax: Source) -> None:
    class Refusing(Jobs):
        def _answer(self, task: str, payload: dict[str, Any]) -> Any:
            from stepTP.frontend import SourceError

            try:
                return super()._answer(task, payload)
            except SourceError as error:
                return Failure("refused", task, str(error), "SourceError")

    ((source, (state,)),) = resized(Refusing({}), [(softmax, [State("p", "0")])], {"nobody": 1})
    assert source == softmax
    assert "assigns no nobody at its top level" in state.problem


class Killed(Exception):
    """Stands for the end of a process."""


def test_a_measurement_that_was_killed_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Pool(Jobs):
        times: dict[str, Any] = field(default_factory=lambda: {"eager": 8.0, "plain": 4.0, "a": 2.0, "b": 1.0})
        left: int = 99

        def _answer(self, task: str, payload: dict[str, Any]) -> Any:
            if task in measurements.TIME.values():
                self.left -= 1
                if self.left < 0:
                    raise Killed
            return super()._answer(task, payload)

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(measurements, "identity_of", lambda _: None)
    monkeypatch.setattr(measurements, "run_rows", lambda *_: [])
    monkeypatch.setattr(measurements, "states_of", lambda *_: [(SOURCE, [State("plain", "0"), A, B])])

    def run(pool: Pool, *, again: bool = False) -> list[MeasurementRow]:
        monkeypatch.setattr(measurements, "_one_worker", lambda *_: pool)
        return measurements.measure_run(tmp_path, Request("llvm"), again=again)

    with pytest.raises(Killed):
        run(first := Pool(left=2))
    assert first.timed == ["eager", "plain"]
    rows = run(second := Pool())
    assert second.timed == ["a", "b"]
    assert read_measurements(tmp_path / measurements.TABLE) == rows
    assert [row.speedup_vs_eager and row.speedup_vs_eager.ratio for row in rows] == [None, 2.0, 4.0, 8.0]
    assert run(third := Pool()) == rows
    assert third.timed == []
    table = (tmp_path / measurements.TABLE).read_bytes()
    run(fourth := Pool(), again=True)
    assert len(fourth.timed) == 4
    assert (tmp_path / measurements.TABLE).read_bytes() == table * 2  # appended; the later rows stand


OTHER = Source("t", "family", "code", "other", "9")
NAMED = {"plain": 4.0, "other": 4.0, "a": 2.0, "b": 1.0, "eager": 8.0}


@dataclass
class Phases(Jobs):
    """A pool that notes what it was asked in a list that another pool notes in too; `spoiled` is never prepared."""

    log: list[str] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)
    spoiled: str = ""
    workers: int = 1

    def _answer(self, task: str, payload: dict[str, Any]) -> Any:
        name = payload.get("leir", "")
        if task == measurements.REST:
            return None
        if task in (measurements.PREPARE_SOURCE, measurements.PREPARE_PROGRAM):
            what = "facts" if task == measurements.PREPARE_SOURCE else "build"
            self.log.append(f"{what} {name}")
            return Failure("memory", task, "too much") if name == self.spoiled else {"made": f"{what} {name}"}
        if task in measurements.TIME.values():
            self.log.append(f"time {name}" if task == measurements.TIME["program"] else f"eager {name}")
            self.given[self.log[-1]] = (payload["source_facts"], payload["build"])
        return super()._answer(task, payload)

    def __enter__(self) -> "Phases":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def phased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures two sources; what was asked for in order, what timing was given, the phases told, and the rows."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(measurements, "identity_of", lambda _: None)
    monkeypatch.setattr(measurements, "run_rows", lambda *_: [])
    groups = [(SOURCE, [State("plain", "0"), A, B]), (OTHER, [State("other", "9")])]
    monkeypatch.setattr(measurements, "states_of", lambda *_: groups)
    monkeypatch.setattr(measurements, "FEWEST_PREPARED", 1)

    def run(spoiled: str = "", chunk: int = 1, workers: int = 1, **options: Any) -> Any:
        log: list[str] = []
        timer, preparers = (Phases(NAMED, log=log, spoiled=spoiled, workers=workers) for _ in range(2))
        monkeypatch.setattr(measurements, "_CHUNK_PROGRAMS", chunk)
        monkeypatch.setattr(measurements, "_one_worker", lambda *_: timer)
        monkeypatch.setattr(measurements, "_preparing", lambda *_: preparers)
        phases: list[str] = []
        tell = lambda done, total, phase: phases.append(f"{phase} {done}/{total}")  # noqa: E731
        rows = measurements.measure_run(tmp_path, Request("llvm"), progress=tell, **options)
        return log, timer.given, phases, rows

    return run


def test_nothing_is_prepared_while_anything_is_timed(phased: Any) -> None:
    log, given, phases, rows = phased()
    assert log == [
        "facts plain", "build plain", "build a", "build b",
        "eager plain", "time plain", "time a", "time b",
        "facts other", "build other", "eager other", "time other",
    ]  # fmt: skip
    assert given["time a"] == ({"made": "facts plain"}, {"made": "build a"})
    assert given["eager other"] == ({"made": "facts other"}, None)
    assert phases[0] == "compiling 0/6" and phases[-1] == "timing 6/6"
    assert phases.index("timing 4/6") < phases.index("compiling 4/6") < phases.index("timing 5/6")
    assert [row.status for row in rows] == ["ok"] * 6


def test_more_workers_prepare_more_at_a_time_and_the_rows_are_the_same(phased: Any) -> None:
    one, many = phased(), phased(workers=4, again=True)
    assert many[0].index("build other") < many[0].index("eager plain")
    assert sorted(one[0]) == sorted(many[0])
    assert one[1] == many[1] and one[3] == many[3]


@pytest.mark.parametrize("spoiled", ["a", "plain"])
def test_what_could_not_be_prepared_is_left_to_who_times(phased: Any, spoiled: str) -> None:
    _, given, _, rows = phased(spoiled)
    facts = None if spoiled == "plain" else {"made": "facts plain"}
    assert given[f"time {spoiled}"] == (facts, None)
    assert given["time b"] == (facts, {"made": "build b"})
    assert [row.status for row in rows] == ["ok"] * 6


def test_what_is_in_the_table_is_not_prepared(phased: Any, tmp_path: Path) -> None:
    phased()
    lines = (tmp_path / measurements.TABLE).read_text().splitlines(keepends=True)
    (tmp_path / measurements.TABLE).write_text("".join(lines[:3]))
    log, *_ = phased()
    assert log == ["facts plain", "build b", "time b", "facts other", "build other", "eager other", "time other"]
    assert phased()[0] == []


def test_a_few_programs_are_not_worth_other_processes(phased: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "FEWEST_PREPARED", 5)
    log, given, phases, rows = phased()
    assert log == ["eager plain", "time plain", "time a", "time b", "eager other", "time other"]
    assert set(given.values()) == {(None, None)} and len(rows) == 6
    assert not any(phase.startswith("compiling") for phase in phases)


def test_a_row_of_an_older_schema_is_read(tmp_path: Path) -> None:
    row = rows_of(Jobs({"plain": 8.0, "eager": 4.0}))["0"]
    (tmp_path / "t.jsonl").write_text(to_line(row).replace('"schema_version":2', '"schema_version":1'))
    assert read_measurements(tmp_path / "t.jsonl") == [row]
