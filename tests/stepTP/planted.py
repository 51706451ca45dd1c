"""Faults that are planted around the real tasks of `steptp minimise`, in the worker that runs them."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any
from unittest import mock

from leir.check import Diagnostic
from leir.edit import map_statement, walk, walk_places
from leir.syntax import Access, Binary, Call, Expr, Integer, Loop, Program
from stepTP.walk import EXPAND, Jobs
from strategies.operator.loop_split import LoopSplit

TASKS = ("stepTP.minimise.task.run", EXPAND, "tests.stepTP.planted.with_fault")  # what their pool imports


class Planted:
    """Jobs whose tasks run with a fault: it is the name of a function of this module."""

    def __init__(self, jobs: Jobs, fault: str) -> None:
        self.jobs, self.fault = jobs, fault
        self.asked: list[str] = []

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        self.asked.append(task)
        given = {"fault": self.fault, "task": task, "payload": payload}
        return self.jobs.submit("tests.stepTP.planted.with_fault", given, near)

    def submit_batch(self, task: str, payload: dict[str, Any], items: Any, near: str = "") -> "list[Future[Any]]":
        raise NotImplementedError


def with_fault(payload: dict[str, Any]) -> Any:
    """The pool's task."""
    with globals()[payload["fault"]]():
        return resolve_name(payload["task"].replace(".task.", ".task:"))(payload["payload"])


def calls(program: Program, function: str) -> bool:
    return any(isinstance(e, Call) and e.function == function for _, e in walk_places(program))


def _compiled_otherwise(change: Callable[[Program], Program]) -> AbstractContextManager[Any]:
    from stepTP.minimise import task

    own = task.compile_nests
    return mock.patch.object(task, "compile_nests", lambda programs, target: own([*map(change, programs)], target))


def exp_is_twice(program: Program) -> Program:
    def change(expression: Expr) -> Expr:
        if isinstance(expression, Call) and expression.function == "exp":
            return Binary("+", expression.arguments[0], expression.arguments[0])
        return expression

    return replace(program, body=tuple(map_statement(statement, change) for statement in program.body))


def wrong_exp() -> AbstractContextManager[Any]:
    """Lowering takes exp for a doubling."""
    return _compiled_otherwise(exp_is_twice)


def crash_at_sqrt() -> AbstractContextManager[Any]:
    """The compiler dies of a square root."""

    def change(program: Program) -> Program:
        if calls(program, "sqrt"):
            os.abort()
        return program

    return _compiled_otherwise(change)


class _Dies:
    """A compiled program that dies when it runs on 3 elements or more."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def new_buffers(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self.program.new_buffers(inputs)

    def run(self, buffers: dict[str, Any]) -> None:
        if any(array.size >= 3 for array in buffers.values()):
            os.abort()
        self.program.run(buffers)


def crash_of_large_runs() -> AbstractContextManager[Any]:
    """Programs die while they run."""
    from stepTP.minimise import task

    own = task.compile_nests
    return mock.patch.object(task, "compile_nests", lambda *given: [_Dies(program) for program in own(*given)])


@contextmanager
def exp_is_unspeakable() -> Iterator[None]:
    """No reasoning can be composed where the program calls exp."""
    from stepTP.narrate import task

    own = task.compose

    def compose(context: Any, **how: Any) -> str:
        if calls(context.before, "exp"):
            raise LookupError("no word for it")
        return own(context, **how)

    with mock.patch.object(task, "compose", compose):
        yield


@contextmanager
def remainders_by_large_numbers_are_doubted() -> Iterator[None]:
    """The checker reports a remainder by 4 or more, which is well defined, like one by 0."""
    from stepTP.minimise import task

    own = task.check_program

    def check(program: Program) -> tuple[Diagnostic, ...]:
        return own(program) or tuple(
            Diagnostic("divisor-maybe-zero", "it may be zero", place)
            for place, e in walk_places(program)
            if isinstance(e, Binary) and e.op == "%" and isinstance(e.right, Integer) and e.right.value >= 4
        )

    with mock.patch.object(task, "check_program", check):
        yield


def hang_at_erf() -> AbstractContextManager[Any]:
    """The compiler never ends where erf is called."""

    def change(program: Program) -> Program:
        while calls(program, "erf"):
            time.sleep(0.1)
        return program

    return _compiled_otherwise(change)


@contextmanager
def split_swaps_differences() -> Iterator[None]:
    """`loop_split` turns each difference around in what it writes, so that results are wrong."""

    def change(expression: Expr) -> Expr:
        match expression:
            case Binary("-", left, right):
                return Binary("-", right, left)
            case _:
                return expression

    own = LoopSplit.rewrite

    def rewrite(step: LoopSplit, program: Program) -> Program:
        after = own(step, program)
        number = step.path[0]
        body = list(after.body)
        body[number] = map_statement(body[number], change)
        return replace(after, body=tuple(body))

    with mock.patch.object(LoopSplit, "rewrite", rewrite):
        yield


@contextmanager
def split_regroups() -> Iterator[None]:
    """`loop_split` regroups a+b+c, though it claims to keep all bits."""

    def change(expression: Expr) -> Expr:
        match expression:
            case Binary("+", Binary("+", Access() as a, Access() as b), Access() as c):
                return Binary("+", a, Binary("+", b, c))
            case _:
                return expression

    own = LoopSplit.rewrite

    def rewrite(step: LoopSplit, program: Program) -> Program:
        after = own(step, program)
        return replace(after, body=tuple(map_statement(s, change) for s in after.body))

    with mock.patch.object(LoopSplit, "rewrite", rewrite):
        yield


@contextmanager
def split_trips_over_tanh() -> Iterator[None]:
    """`loop_split` looks up a name that is not there, where the program calls tanh."""
    own = LoopSplit.facts

    def facts(step: LoopSplit, program: Program) -> Any:
        if calls(program, "tanh") and any(isinstance(s, Loop) and s.extent > 2 for _, s in walk(program)):
            {}["tanh"]
        return own(step, program)

    with mock.patch.object(LoopSplit, "facts", facts):
        yield


@contextmanager
def nothing() -> Iterator[None]:
    """No fault."""
    yield
