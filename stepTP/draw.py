"""Random draws without a generator: a draw is a hash of what it is for.

A generator's draws depend on how many came before; these depend on their key alone, so that a new strategy, a new
source or another number of workers changes no draw but its own.
"""

import hashlib
import math
from collections.abc import Callable


def digest(*key: str | int) -> bytes:
    """SHA-256 of the key's parts, each with its length, so that ("ab", "c") and ("a", "bc") differ."""
    state = hashlib.sha256()
    for part in key:
        _add(state, part)
    return state.digest()


def _add(state: "hashlib._Hash", part: str | int) -> None:
    data = str(part).encode()
    state.update(len(data).to_bytes(8, "big") + data)


def digests(*key: str | int) -> Callable[[str], bytes]:
    """`digest` of keys that differ in their last part alone."""
    common = hashlib.sha256()
    for part in key:
        _add(common, part)

    def digest_with(last: str) -> bytes:
        state = common.copy()
        _add(state, last)
        return state.digest()

    return digest_with


def uniform(*key: str | int) -> float:
    """A number in (0, 1), uniform over keys."""
    return (int.from_bytes(digest(*key)[:8], "big") // 2048 + 0.5) / 2**53


def arrival(weight: float, *key: str | int) -> float:
    """The arrival time of a racer with this rate: -ln(u)/weight, for the race of Efraimidis and Spirakis.

    The k smallest of a field are a weighted sample without replacement. A newcomer changes nothing but the places that
    it takes itself.
    """
    return -math.log(uniform(*key)) / weight
