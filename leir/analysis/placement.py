"""Where a temporary may be declared."""

from collections.abc import Iterator

from leir.analysis.kernels import axis_of, binds_axis, is_thread
from leir.edit import accesses, enclosing, expressions, statement_at, walk
from leir.syntax import Path, Program, Scope


def statements_using(program: Program, tensor: str) -> Iterator[Path]:
    """The paths of the statements that access a tensor themselves."""
    for path, statement in walk(program):
        if any(a.tensor == tensor for expression in expressions(statement) for a in accesses(expression)):
            yield path


def list_for(program: Program, tensor: str, scope: Scope) -> Path | None:
    """The path of the list of statements that the declaration of a tensor in this scope goes to; None if there is none.

    It holds every access: for `l` the innermost such list, for `s` the innermost outside the thread loops of a block,
    for `g` the program's own.
    """
    if scope == "g":
        return ()
    common: Path | None = None
    for path in statements_using(program, tensor):
        length = len(path) - 1
        if common is not None:
            pairs = zip(common, path[:-1], strict=False)
            length = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(common), len(path) - 1))
        common = path[:length]
    if not common:
        return None
    bound = [(path, axis) for path, node in enclosing(program, (*common, 0)) if (axis := axis_of(node))]
    threads = [path for path, axis in bound if is_thread(axis)]
    if scope == "s":
        return None if len(bound) == len(threads) else threads[0][:-1] if threads else common
    if bound or not binds_axis(statement_at(program, common)):
        return common
    return None  # its lists are the host's
