"""What a compiled function may do that LEIR cannot say, done around a right program in the real task of a worker."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from stepTP.verify import task

Buffers = dict[str, Any]
Spoil = Callable[[int, Buffers, Callable[[], None]], None]


class Spoiled:
    """A program with something done around each run; the number of the run counts from 1."""

    def __init__(self, program: Any, spoil: Spoil) -> None:
        self.program, self.spoil, self.runs = program, spoil, 0

    def new_buffers(self, inputs: Buffers) -> Buffers:
        return self.program.new_buffers(inputs)

    def run(self, buffers: Buffers) -> None:
        self.runs += 1
        self.spoil(self.runs, buffers, lambda: self.program.run(buffers))


def edits_its_input(_: int, buffers: Buffers, run: Callable[[], None]) -> None:
    run()
    buffers["A"][0, 0] = 0.0


def edits_its_input_and_agrees_with_it(_: int, buffers: Buffers, run: Callable[[], None]) -> None:
    buffers["A"][...] = 0.0
    run()


def keeps_its_output(number: int, _: Buffers, run: Callable[[], None]) -> None:
    if number == 1:
        run()


def loses_a_race_every_other_time(number: int, buffers: Buffers, run: Callable[[], None]) -> None:
    run()
    if number % 2 == 0:
        buffers["C"][3, 5] += 1e-7


def loses_a_race_once(number: int, buffers: Buffers, run: Callable[[], None]) -> None:
    run()
    if number == 9:
        buffers["C"][3, 5] = np.nextafter(buffers["C"][3, 5], np.float32(2))


def reads_a_temporary_before_writing(_: int, buffers: Buffers, run: Callable[[], None]) -> None:
    before = np.nanmax(np.nan_to_num(buffers["E"]))
    run()
    buffers["C"] += np.float32(before * 1e-40)


def returns_the_output_of_the_draw_before(_: int, buffers: Buffers, run: Callable[[], None]) -> None:
    run()
    now = buffers["C"].copy()
    buffers["C"][...] = _LAST.get("C", now)
    _LAST["C"] = now


def leaves_an_element_as_it_was(_: int, buffers: Buffers, run: Callable[[], None]) -> None:
    before = buffers["C"][15, 31]
    run()
    buffers["C"][15, 31] = before


def leaves_all_as_it_is(_: int, __: Buffers, run: Callable[[], None]) -> None:
    run()


_LAST: Buffers = {}
# conduct: the hole
HOLES: dict[str, str] = {
    "edits_its_input": "inputs may be edited",
    "edits_its_input_and_agrees_with_it": "inputs may be edited",
    "keeps_its_output": "outputs left from before, memory that is reused",
    "leaves_an_element_as_it_was": "outputs left from before, memory that is reused",
    "reads_a_temporary_before_writing": "outputs left from before, memory that is reused",
    "loses_a_race_every_other_time": "races that are won sometimes",
    "loses_a_race_once": "races that are won sometimes",
    "returns_the_output_of_the_draw_before": "results cached by shape",
}


def verify(payload: dict[str, Any]) -> dict[str, Any]:
    """The pool task `stepTP.verify.task.verify`, whose compiled programs conduct themselves as `payload["conduct"]`."""
    spoil: Spoil = globals()[payload["conduct"]]
    _LAST.clear()
    own = task.observe
    with mock.patch.object(task, "observe", lambda program, *given: own(Spoiled(program, spoil), *given)):
        return task.verify({**payload, "source": {"id": payload["conduct"]}})
