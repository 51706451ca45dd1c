"""Before anything is scheduled: temporaries that cost more to store than to compute again are computed where they are
read, so that fewer nests are left."""

from leir.edit import accesses, walk_expression
from leir.syntax import Call, Program
from schedules.trajectory import Trajectory
from stepTP.search.experts.nests import Nest, plain_nests
from strategies.base import Refused


def simplify(t: Trajectory) -> None:
    """Takes every step of compute_inline that pays, one after the other."""
    refused: set[str] = set()
    while (tensor := _worth_inlining(t.program, refused)) is not None:
        try:
            t.take("compute_inline", tensor=tensor)
        except Refused:
            refused.add(tensor)


def _worth_inlining(program: Program, refused: set[str]) -> str | None:
    """A temporary that no nest reads more often than it is written, and that is cheap, or read by one nest once."""
    outputs = {declared.tensor for declared in program.outputs}
    nests = plain_nests(program)
    for nest in nests.values():
        tensor = nest.equation.target.tensor
        if tensor in outputs or tensor in refused or nest.equation.op != "=" or nest.reduced:
            continue
        readers = [(other, reads) for other in nests.values() if (reads := _reads(other, tensor))]
        if len(readers) < _all_readers(program, tensor):
            continue
        cheap = not any(isinstance(part, Call) for _, part in walk_expression(nest.equation.value))
        once = sum(reads for _, reads in readers) == 1
        if readers and (cheap or once) and all(other.runs <= nest.runs for other, _ in readers):
            return tensor
    return None


def _reads(nest: Nest, tensor: str) -> int:
    return sum(access.tensor == tensor for access in accesses(nest.equation.value))


def _all_readers(program: Program, tensor: str) -> int:
    """How many statements at top level read a tensor."""
    written = {n for n, nest in plain_nests(program).items() if nest.equation.target.tensor == tensor}
    return sum(
        any(access.tensor == tensor for access in accesses(statement))
        for number, statement in enumerate(program.body)
        if number not in written
    )
