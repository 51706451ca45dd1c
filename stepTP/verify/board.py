"""A board that the workers of one pool share: what one has made, the others read.

It is a file in memory that has no name: workers inherit it from the process they are forked from, and it ends with the
last of them, whatever ends them. An entry is written before the head that counts it, so that a worker may be killed at
any moment. A board that is full is begun anew.

Whoever can write to a worker's memory can write on its board: only pools whose programs are all ours have one.
"""

import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

BYTES = 64 << 20  # of a board: hundreds of sources at their usual sizes
_HEAD = struct.Struct("<QQ")  # how often it was begun anew, and where its entries end
_ENTRY = struct.Struct("<32sQ")  # the digest of the key, and the length of what follows
# How long another worker is waited for that makes an entry, or that reads or writes one: if it is stopped, it must not
# stop the others.
_MAKING_S, _HOLDING_S = 10.0, 2.0
_TICK_S = 0.002


class Board:
    """Contents by key, for one process; forked processes share the contents."""

    def __init__(self, limit: int = BYTES) -> None:
        self._limit = limit
        self._file = os.memfd_create("board")
        self._places: dict[bytes, tuple[int, int]] = {}  # by the digest of a key: start and length
        self._begun, self._seen = 0, _HEAD.size
        self._set_head(self._begun, self._seen)

    def get(self, key: bytes) -> bytes | None:
        """What stands there; None also where somebody holds the board for long."""
        with self._alone(0) as alone:
            if not alone:
                return None
            self._look()
            place = self._places.get(_digest(key))
            return os.pread(self._file, place[1], place[0]) if place else None

    def put(self, key: bytes, content: bytes) -> None:
        """Adds an entry, unless it is too large, or somebody holds the board for long."""
        entry = _ENTRY.pack(_digest(key), len(content)) + content
        if _HEAD.size + len(entry) > self._limit:
            return
        with self._alone(0) as alone:
            if not alone:
                return
            begun, end = self._head()
            if end + len(entry) > self._limit:
                begun, end = begun + 1, _HEAD.size
                self._set_head(begun, end)
            if os.pwrite(self._file, entry, end) == len(entry):
                self._set_head(begun, end + len(entry))

    @contextmanager
    def making(self, key: bytes) -> Iterator[None]:
        """While one worker makes an entry, the others wait for it here, though not for long."""
        with self._alone(1 + int.from_bytes(_digest(key)[:4], "little"), _MAKING_S):
            yield

    def _head(self) -> tuple[int, int]:
        return _HEAD.unpack(os.pread(self._file, _HEAD.size, 0))

    def _set_head(self, begun: int, end: int) -> None:
        os.pwrite(self._file, _HEAD.pack(begun, end), 0)

    def _look(self) -> None:
        """Learns of the entries that were added."""
        begun, end = self._head()
        if begun != self._begun:
            self._places.clear()
            self._begun, self._seen = begun, _HEAD.size
        while self._seen < end:
            key, length = _ENTRY.unpack(os.pread(self._file, _ENTRY.size, self._seen))
            start = self._seen + _ENTRY.size
            self._places[key] = (start, length)
            self._seen = start + length

    @contextmanager
    def _alone(self, place: int, patience_s: float = _HOLDING_S) -> Iterator[bool]:
        """Holds a place of the file against other processes; whether it could be had. It ends with the process."""
        held, deadline = False, time.monotonic() + patience_s
        while not held and time.monotonic() < deadline:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                held = True
            except OSError:
                time.sleep(_TICK_S)
        try:
            yield held
        finally:
            if held:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


_board: Board | None = None


def open_board() -> None:
    """Gives a board to this process and to all that it forks from now on."""
    global _board
    _board = Board()


def board() -> Board | None:
    """The board of this process, if it has one."""
    return _board
