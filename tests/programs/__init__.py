"""Random well-formed programs, their inputs, and random trees that only have to be printable.

`random_program(seed)` builds a small program out of a few operators, each a nest or several: element-wise chains,
reductions, products, windows, reshapes, gathers, scans, masks, guarded tails, fused and staged kernels, and gives its
loops legal kinds. Values stay moderate and finite, so that executions can be compared. `distribution` says what a
collection of programs contains.
"""

import hashlib
import random
from collections.abc import Callable

from leir.parser import parse
from leir.syntax import Program
from tests.programs import conditions, indexing, kernels, operators
from tests.programs.arithmetic import random_arithmetic
from tests.programs.builder import Builder
from tests.programs.distribution import describe, distribution
from tests.programs.divisions import random_divisions
from tests.programs.inputs import InputKind, random_inputs
from tests.programs.nesting import random_nesting
from tests.programs.trees import random_tree

__all__ = [
    "InputKind", "describe", "distribution", "keyed", "random_arithmetic", "random_divisions",
    "random_inputs", "random_nesting", "random_program", "random_text", "random_tree",
]  # fmt: skip

_OPERATORS: dict[Callable[[Builder], None], int] = {
    operators.elementwise: 8, operators.reduction: 8, operators.softmax: 3, operators.product: 4, indexing.window: 3,
    indexing.guarded_window: 2, indexing.reshape: 3, indexing.gather: 6, operators.scan: 3,
    indexing.concatenation: 2, conditions.masked: 3, conditions.flagged: 2, operators.fused: 4, operators.in_place: 2,
    operators.small_dtype: 3, operators.integers: 3, operators.time_steps: 2, operators.scalar: 2,
    conditions.two_sided: 2, conditions.nested_guards: 2, indexing.reversal: 2, operators.attention: 2,
    kernels.staged: 4, kernels.thread_sum: 3, kernels.register_tile: 3, kernels.tree: 2, kernels.tiled_product: 2,
    kernels.private_row: 3, kernels.transposed_stage: 2, kernels.vector_stores: 2,
}  # fmt: skip


def keyed(*key: object) -> random.Random:
    """A generator of random numbers that depends on the key alone."""
    return random.Random(hashlib.sha256(repr(key).encode()).digest())


def random_program(seed: int | str) -> Program:
    """A well-formed program, the same for the same seed in every process."""
    return parse(random_text(seed), f"<random {seed}>")


def random_text(seed: int | str) -> str:
    """The text of `random_program(seed)`."""
    build = Builder(keyed("program", seed))
    for _ in range(build.rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5))):
        build.rng.choices(list(_OPERATORS), list(_OPERATORS.values()))[0](build)
    if all(result.dtype != build.dtype for result in build.results):
        operators.elementwise(build)
    return build.text()
