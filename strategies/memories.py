"""The memories that tensors live in: what they are called, how near they are, and how much they hold."""

from collections.abc import Sequence

from leir.analysis.kernels import BYTES
from leir.syntax import DType, Scope

WORDS: dict[Scope, str] = {"g": "global memory", "s": "shared memory", "l": "local memory"}


def capacity(scope: Scope, dtype: DType) -> int:
    """How many elements a tensor in this memory may have: of all, of one block, of one thread."""
    from leir.check import Limits  # the analyses behind it are slow to import: listing strategies does without
    from leir.check.names import ELEMENT_LIMIT

    limits = Limits()
    return {
        "g": ELEMENT_LIMIT - 1,
        "s": limits.shared_bytes // BYTES[dtype],
        "l": limits.local_bytes // BYTES[dtype],
    }[scope]


def shape_text(shape: Sequence[int]) -> str:
    """`16x32 elements`, `one element`."""
    sizes = [size for size in shape if size > 1]
    return f"{'x'.join(map(str, sizes))} elements" if sizes else "one element"
