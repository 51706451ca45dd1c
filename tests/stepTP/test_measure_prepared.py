"""What is made before the timing: the same as whoever times makes, and what is timed is what was given."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from leir.lowering import LinkError
from leir.parser import parse
from leir.printer import to_text
from stepTP.frontend import translated
from stepTP.verify.measure import prepared, subjects, task
from stepTP.verify.measure.machine import Peaks
from tests.stepTP.test_measure_task import HALF, LINEAR, PLAIN, SPLIT, payload

LINEAR_LEIR = to_text(translated(LINEAR, "measured")[1].program)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "peaks", lambda *_, **__: Peaks(1e18, 1e18, 1e18, "a test"))
    prepared._FACTS.clear()


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("this was made before")


def build(leir: str) -> dict[str, Any]:
    return prepared.prepare_program({**payload(leir), "compute_capability": "a CPU's"})


@pytest.mark.parametrize(("code", "leir"), [(LINEAR, LINEAR_LEIR), ("", PLAIN)])
def test_facts_of_a_source_arrive_bit_for_bit(code: str, leir: str) -> None:
    asked = payload(leir, code, leir)
    key = prepared.source_key(asked)
    own, given = prepared.source_facts(key, None), json.dumps(prepared.prepare_source(asked))
    prepared._FACTS.clear()
    taken = prepared.source_facts(key, json.loads(given))
    assert taken is not own and taken.wiring == own.wiring and (own.wiring is None) == (not code)
    assert taken.trials.names == own.trials.names and taken.trials.skipped == own.trials.skipped
    for one, other in zip(own.draws, taken.draws, strict=True):
        assert list(one) == list(other)
        assert all(one[n].dtype == other[n].dtype and one[n].tobytes() == other[n].tobytes() for n in one)


def test_a_build_that_is_given_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = payload(SPLIT)
    own = task.time_program(asked)
    given = {**asked, "build": build(SPLIT), "source_facts": prepared.prepare_source(asked)}
    prepared._FACTS.clear()
    for name in ("compile_llvm", "as_timed", "least_work", "prepared_trials", "origin_of"):
        monkeypatch.setattr(prepared, name, refuse)
    answer = task.time_program(given)
    assert answer["status"] == "ok"
    same = ("measured_state_id", "binding", "verification", "status", "message")
    assert {name: answer[name] for name in same} == {name: own[name] for name in same}
    assert answer["roofline"]["accumulations"] == own["roofline"]["accumulations"] > 0


def test_what_runs_is_the_build_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of another program is found out, as code that was compiled wrong here would be."""
    monkeypatch.setattr(prepared, "compile_llvm", refuse)
    answer = task.time_program({**payload(SPLIT), "build": {**build(SPLIT), "library": build(HALF)["library"]}})
    assert answer["status"] == "wrong-result"


def test_a_module_is_timed_without_translating_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = payload(LINEAR_LEIR, LINEAR, LINEAR_LEIR)
    given = {**asked, "source_facts": prepared.prepare_source(asked)}
    prepared._FACTS.clear()
    monkeypatch.setattr(subjects, "translated", refuse)
    monkeypatch.setattr(prepared, "origin_of", refuse)
    assert task.time_eager(given)["status"] == "ok"


def test_what_is_too_large_to_be_handed_over_is_made_by_who_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "MOST_BYTES", 100)
    assert prepared.prepare_source(payload(PLAIN)) is None
    given = build(SPLIT)
    assert given["library"] == ""
    assert task.time_program({**payload(SPLIT), "build": given, "source_facts": None})["status"] == "ok"


def test_without_a_linker_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    given = build(SPLIT)
    assert given["library"] == "" and parse(given["leir"]) == parse(SPLIT)
    assert task.time_program({**payload(SPLIT), "build": given})["status"] == "ok"


def test_a_library_that_is_damaged_is_an_error() -> None:
    damaged = base64.b64encode(b"no library").decode()
    with pytest.raises(RuntimeError):
        task.time_program({**payload(SPLIT), "build": {**build(SPLIT), "library": damaged}})


def test_an_array_of_every_dtype_is_carried() -> None:
    groups = ({"A": np.zeros((2, 0), np.float16), "B": np.array(True)}, {}, {"A": np.arange(3, dtype=np.int64)})
    for one, other in zip(groups, prepared.unpacked_arrays(prepared.packed_arrays(groups)), strict=True):
        assert list(one) == list(other)
        assert all(one[n].dtype == other[n].dtype and np.array_equal(one[n], other[n]) for n in one)


def test_a_linker_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: "false")
    with pytest.raises(LinkError):
        prepared.compile_library(parse(PLAIN), "llvm")
