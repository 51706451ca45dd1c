"""Verdicts kept on disk: a program is verified once, not once a build.

    with open_kept(folder) as kept:
        answer = kept.get(key)         # what `task.verify` said, or None
        kept.put({key: answer})

A key is a digest of everything that decides a verdict: the program, the one it was made from, its source and plain
program, targets, draws, seed, the versions of tools, the code that verifies, and the machine that computes. What is
kept says "ok": refusals are few and are judged again, and crashes and timeouts are no verdicts.

The store is one SQLite file, so that several builds may use it at once, and one that is killed leaves it whole. Each
entry carries a digest of its own; one that does not fit, and a file that is no store, are left out of account with a
warning. Where the store has grown to its bound, the entries that were used longest ago go. Only builds use it: `verify`
and `replay` compute everything again.
"""

import hashlib
import json
import os
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

BYTES = 256 << 20
_FILE = "verdicts-1.sqlite"  # the number counts forms of the file
_WAIT_S = 20.0  # for another process that writes
_SHARE = 4  # a full store loses one entry in so many

Answer = dict[str, Any]


class CacheDamaged(UserWarning):
    """Kept verdicts cannot be read; they are computed again."""


class Kept:
    """An open store; safe to use from several threads. Any error of the store is a warning, and ends its use."""

    def __init__(self, file: Path, limit: int = BYTES) -> None:
        self.file = file
        self.limit = limit
        self.found = self.missed = 0  # programs asked for
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        with self._reporting():
            file.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(file, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA synchronous = OFF")  # what a power cut damages shows by its digest
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS verdicts"
                " (key BLOB PRIMARY KEY, answer BLOB NOT NULL, digest BLOB NOT NULL, used INTEGER NOT NULL)"
                " WITHOUT ROWID"
            )
            self._database.execute("CREATE INDEX IF NOT EXISTS by_use ON verdicts (used)")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """The answers that are kept, by key; each is marked as used now."""
        answers: dict[bytes, Answer] = {}
        with self._lock, self._reporting():
            if self._database is None:
                return {}
            for key in keys:
                row = self._database.execute("SELECT answer, digest FROM verdicts WHERE key = ?", (key,)).fetchone()
                answer = self._read(key, *row) if row else None
                if answer is not None:
                    answers[key] = answer
            if answers:
                with self._writing() as clock:
                    mark = "UPDATE verdicts SET used = ? WHERE key = ?"
                    self._database.executemany(mark, [(clock, key) for key in answers])
        self.found += len(answers)
        self.missed += len(keys) - len(answers)
        return answers

    def put(self, answers: Mapping[bytes, Answer]) -> None:
        """Keeps those of the answers that say "ok"."""
        rows = [(key, text, _digest(key, text)) for key, a in answers.items() if a["ok"] for text in (_text(a),)]
        with self._lock, self._reporting():
            if self._database is None or not rows:
                return
            with self._writing() as clock:
                put = "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)"
                self._database.executemany(put, [(*row, clock) for row in rows])
            if self._size() > self.limit:
                with self._writing():
                    (count,) = self._database.execute("SELECT count(*) FROM verdicts").fetchone()
                    self._database.execute(
                        "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used LIMIT ?)",
                        (max(1, count // _SHARE),),
                    )

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _read(self, key: bytes, text: bytes, digest: bytes) -> Answer | None:
        if _digest(key, text) == digest:
            return json.loads(text)
        warnings.warn(f"{self.file}: a kept verdict is damaged: its program is verified again", CacheDamaged, 2)
        return None

    def _size(self) -> int:
        """Bytes of the file that entries take."""
        assert self._database is not None
        pages, free, size = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    @contextmanager
    def _writing(self) -> Iterator[int]:
        """A transaction, whole or not at all; gives a number larger than that of any before it."""
        assert self._database is not None
        self._database.execute("BEGIN IMMEDIATE")
        try:
            (last,) = self._database.execute("SELECT max(used) FROM verdicts").fetchone()
            yield (last or 0) + 1
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            warnings.warn(f"{self.file}: no verdicts are kept: {error}: remove the file", CacheDamaged, 3)
            if self._database is not None:
                self._database.close()
                self._database = None


@contextmanager
def open_kept(folder: Path, limit: int = BYTES) -> Iterator[Kept]:
    """The store in a folder, which is made if need be; closed at the end."""
    with closing(Kept(folder / _FILE, limit)) as kept:
        yield kept


def default_folder() -> Path:
    """Where verdicts are kept: $STEPTP_CACHE, or `steptp` in the user's folder for caches."""
    own = os.environ.get("STEPTP_CACHE")
    if own:
        return Path(own)
    caches = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(caches) if Path(caches).is_absolute() else Path.home() / ".cache") / "steptp"


def key_of(*parts: Any) -> bytes:
    """The key of what decides a verdict, as plain data."""
    return hashlib.sha256(_text(parts)).digest()


def _text(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def _digest(key: bytes, text: bytes) -> bytes:
    return hashlib.sha256(key + text).digest()[:16]
