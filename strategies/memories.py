"""The memories that tensors live in: what they are called, how near they are, and how much they hold."""

from collections.abc import Sequence

from leir.analysis.access import tensors
from leir.analysis.kernels import BYTES
from leir.edit import walk
from leir.syntax import DType, Equation, Program, Scope
from strategies.base import listed, path_text

WORDS: dict[Scope, str] = {"g": "global memory", "s": "shared memory", "l": "local memory"}
_NAMED = 3  # writers of a tensor that evidence names


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


def room_text(name: str, elements: int, scope: Scope, dtype: DType) -> str:
    """What a tensor of so many elements would take of a memory, and what it may have there, as evidence."""
    most, size = capacity(scope, dtype), BYTES[dtype]
    if scope == "g":
        return f"{name} would have {elements} element{'' if elements == 1 else 's'}; a tensor has at most {most}"
    owner = {"s": "a block", "l": "a thread"}[scope]
    return f"{name} would take {elements * size} bytes of {WORDS[scope]}; {owner} has {most * size}"


def role_text(program: Program, name: str) -> str:
    """What a tensor is to a program, as evidence: an input, an output, or where it is written."""
    tensor = tensors(program).get(name)
    if tensor is None:
        return f"{name} is no tensor of the program"
    if tensor.role != "temporary":
        return f"{name} is an {tensor.role}"
    writers = [path for path, node in walk(program) if isinstance(node, Equation) and node.target.tensor == name]
    at = listed(map(path_text, writers)) if 0 < len(writers) <= _NAMED else f"{len(writers)} places"
    written = f"written at {at}" if writers else "never written"
    return f"{name} is {written}, and is neither an input nor an output"


def shape_text(shape: Sequence[int]) -> str:
    """`16x32 elements`, `one element`."""
    sizes = [size for size in shape if size > 1]
    return f"{'x'.join(map(str, sizes))} elements" if sizes else "one element"
