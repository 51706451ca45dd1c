"""Answers that a search got from workers, models and devices, each asked once: in memory, and in a file if wished.

    FILE    {"key": ..., "at": seconds, "answer": ...} a line, appended and synced as it comes

A search decides by these answers alone. One that was killed is run again from its beginning with the same journal: it
hears the same, grows the same tree, and goes on where no answer is known. `at` is when an answer came, in seconds of
the search: a budget of seconds is spent the second time where it was the first.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from stepTP.draw import digest
from stepTP.verify.pool import Failure


class JournalError(ValueError):
    """A journal cannot be used as asked; the message says what to do."""


class Journal:
    """Answers by key. Safe to use from several threads: what two ask for at once is made once."""

    def __init__(self, file: Path | None = None) -> None:
        self._answers: dict[str, Future[Any]] = {}
        self._at: dict[str, float] = {}
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._ahead = 0.0  # seconds that an earlier process had spent
        self._file = None
        if file is not None:
            self._read(file)
            self._file = file.open("ab")

    def seconds(self) -> float:
        """How long the search has taken so far, with what it took before it was killed."""
        return self._ahead + time.monotonic() - self._begun

    def knows(self, key: str) -> bool:
        """Whether there is an answer, or somebody has asked for it."""
        with self._lock:
            return key in self._answers

    def ask_all(self, keys: Sequence[str], make: Callable[[list[int]], Sequence["Future[Any]"]]) -> list[Any]:
        """The answers of keys, in order. `make` gets the numbers of those that nobody has asked for."""
        with self._lock:
            mine = [n for n, key in enumerate(keys) if key not in self._answers and key not in keys[:n]]
            for n in mine:
                self._answers[keys[n]] = Future()
        if mine:
            try:
                for n, future in zip(mine, make(mine), strict=True):
                    answer = future.result()
                    self._write(keys[n], answer)
                    self._answers[keys[n]].set_result(answer)
            except BaseException as error:  # whoever waits for the same must hear of it
                self._abandon([keys[n] for n in mine], error)
                raise
        for key in keys:
            self._ahead = max(self._ahead, self._at.get(key, 0.0) - (time.monotonic() - self._begun))
        return [self._answers[key].result() for key in keys]

    def _abandon(self, keys: list[str], error: BaseException) -> None:
        with self._lock:
            for key in keys:
                if not self._answers[key].done():
                    self._answers.pop(key).set_exception(error)

    def _write(self, key: str, answer: Any) -> None:
        if self._file is None:
            return
        shown = {"failure": asdict(answer)} if isinstance(answer, Failure) else {"answer": answer}
        line = json.dumps({"key": key, "at": round(self.seconds(), 3), **shown}, separators=(",", ":"))
        with self._lock:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _read(self, file: Path) -> None:
        """The answers of a file; half a line at the end, of a process that was killed, is cut off."""
        if not file.exists():
            return
        data = file.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                entry = json.loads(line)
                answer = Failure(**entry["failure"]) if "failure" in entry else entry["answer"]
                key, at = entry["key"], float(entry["at"])
            except (ValueError, KeyError, TypeError):
                raise JournalError(f"{file}:{number}: is no line of a journal: search into a new folder") from None
            self._answers[key] = done(answer)
            self._at[key] = at
        if whole < len(data):
            os.truncate(file, whole)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def key_of(what: str, payload: Any) -> str:
    """The key of an answer: a digest of what was asked."""
    return digest(what, json.dumps(payload, sort_keys=True)).hex()[:32]


def done(answer: Any) -> "Future[Any]":
    """A future that has its result."""
    future: Future[Any] = Future()
    future.set_result(answer)
    return future
