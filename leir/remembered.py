"""Answers about a program that is asked about again and again.

A program is its own key: one that is equal but another object is asked anew, as hashing a program takes as long as many
an answer. Answers are shared, so they must not be changed.
"""

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Generic, TypeVar

from leir.syntax import Program

_KEPT = 64  # programs: a state, and what its steps lead to
Answer = TypeVar("Answer")


class _Itself:
    """A program that is equal to itself alone; it stays alive as long as its answers are kept."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.program is other.program


class remembered(Generic[Answer]):
    """A function of a program, which remembers its answers about the programs that it was asked about last."""

    def __init__(self, ask: Callable[[Program], Answer]) -> None:
        update_wrapper(self, ask)
        self._ask = ask
        self._answer = lru_cache(maxsize=_KEPT)(self._asked)
        self.cache_clear = self._clear  # as functools calls it; the class is no cache

    def _asked(self, of: _Itself) -> Answer:
        return self._ask(of.program)

    def __call__(self, program: Program) -> Answer:
        return self._answer(_Itself(program))

    def _clear(self) -> None:
        """Forgets every answer, also where the function itself keeps some."""
        self._answer.cache_clear()
        clear: Callable[[], None] | None = getattr(self._ask, "cache_clear", None)
        if clear is not None:
            clear()
