"""Whether the compiler of a GPU may be told that buffers do not overlap.

They never do. But where a kernel reads one buffer or another, as a condition decides, NVIDIA's compiler (seen in 13.0)
makes one load of it at an address that it selects; and if one of the two buffers is promised to be only read there, it
loads through the cache of constant data, also what the same kernel has written to the other: the value from before.
`C ? A : B` after a store to B is enough. Without the promise, `__restrict__`, it does not.
"""

from collections.abc import Iterator, Sequence

from leir.analysis.access import tensors_in
from leir.edit import accesses, walk
from leir.syntax import Access, Alloc, Binary, Equation, Expr, Guard, Loop, Select, Stmt, operands

Conditions = frozenset[tuple[Expr, bool]]  # what decides whether something is done, and which way


def may_promise(kernel: Stmt) -> bool:
    """Whether a kernel changes none of the global tensors that it reads, or reads all of them under one condition.

    A promise that is not made costs time and nothing else.
    """
    inside = list(walk(kernel))
    own = {statement.tensor for _, statement in inside if isinstance(statement, Alloc)}
    written = {statement.target.tensor for _, statement in inside if isinstance(statement, Equation)}
    buffers = [name for name in tensors_in(kernel) if name not in own]
    reads = [(access.tensor in written, under) for access, under in _reads((kernel,)) if access.tensor in buffers]
    changing = [under for changes, under in reads if changes]
    return all(under == other for changes, under in reads if not changes for other in changing)


def _reads(statements: Sequence[Stmt], under: Conditions = frozenset()) -> Iterator[tuple[Access, Conditions]]:
    for statement in statements:
        match statement:
            case Equation(target, op, value):
                yield from ((access, under) for index in target.indices for access in accesses(index))
                if op != "=":
                    yield target, under
                yield from _read(value, under)
            case Loop(body=body):
                yield from _reads(body, under)
            case Guard(condition, body):
                yield from _read(condition, under)
                yield from _reads(body, under | {(condition, True)})
            case Alloc():
                pass


def _read(expression: Expr, under: Conditions) -> Iterator[tuple[Access, Conditions]]:
    match expression:
        case Select(condition, then, otherwise):
            yield from _read(condition, under)
            yield from _read(then, under | {(condition, True)})
            yield from _read(otherwise, under | {(condition, False)})
        case Binary("&&" | "||" as op, left, right):
            yield from _read(left, under)
            yield from _read(right, under | {(left, op == "&&")})
        case Access():
            yield expression, under
            for index in expression.indices:
                yield from _read(index, under)
        case _:
            for operand in operands(expression):
                yield from _read(operand, under)
