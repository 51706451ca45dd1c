"""Messages between the pool and its workers: a length of eight bytes, then JSON.

JSON, not pickle: a worker whose memory a bad program has overwritten must not be able to do more to the parent than to
send nonsense, which is an error of that worker. Tuples arrive as lists, and the keys of objects are strings.
"""

import json
import struct
from typing import BinaryIO

_LENGTH = struct.Struct("<Q")
LARGEST_MESSAGE = 1 << 28  # bytes; a longer one is nonsense


class WireError(Exception):
    """The bytes that came are not a message."""


def encode(message: object) -> bytes:
    """The bytes of one message. Raises TypeError or ValueError for what JSON does not hold."""
    return frame(body(message))


def body(message: object) -> bytes:
    """A message as JSON, without its length. Raises TypeError or ValueError for what JSON does not hold."""
    return json.dumps(message, separators=(",", ":")).encode()


def frame(text: bytes) -> bytes:
    """The bytes of the message that a JSON text is."""
    return _LENGTH.pack(len(text)) + text


def read(stream: BinaryIO) -> object | None:
    """The next message of a blocking stream; None at its end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    text = stream.read(length)
    return json.loads(text) if len(text) == length else None


class Decoder:
    """Messages out of bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, piece: bytes) -> None:
        self._received += piece

    def take(self) -> object | None:
        """The next whole message, or None while it is incomplete. Raises WireError for nonsense."""
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if length > LARGEST_MESSAGE:
            raise WireError(f"a message of {length} bytes")
        end = _LENGTH.size + length
        if len(self._received) < end:
            return None
        text = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise WireError(f"not JSON: {error}") from None
