"""What follows from a finished maximum: no term lies above it, and one term equals it.

Both speak of runs without NaN among the terms, since the language leaves max of NaN open; a difference of infinities is
NaN, which the bounds of the difference say.
"""

from typing import TYPE_CHECKING

from leir.analysis.affine import is_exact
from leir.analysis.definitions import Definitions, Reduction, definitions_of, read_reduction, why_written_between
from leir.analysis.frames import Frame
from leir.analysis.softmax import NotFound, instance_of, prove_same_terms, rows_of_maximum
from leir.analysis.types import is_kept
from leir.edit import accesses, variables_of
from leir.names import substitute_in
from leir.printer import equation_text
from leir.syntax import Access, Binary, Call, Equation, Expr, Path

if TYPE_CHECKING:
    from leir.analysis.values import Ranges, Write


def is_term_of_maximum(term: Expr, maximum: Access, table: "Ranges", path: Path) -> bool:
    """Whether `maximum`, read by the statement at `path`, is the finished maximum of values of which `term` is one, so
    that term - maximum is not positive."""
    definitions = definitions_of(table.program)
    statement = definitions.sole(maximum.tensor)
    if statement is None or path not in definitions.statements:
        return False
    if not isinstance(statement.node, Equation) or statement.node.op != "max=":
        return False
    return _instance(definitions, term, maximum, path, definitions.frame(path)) is not None


def sums_a_maximum(write: "Write", table: "Ranges") -> str | None:
    """For a sum of exp(x - M) over all terms x of a finished maximum M: the text of M. One of its terms is exp(0)."""
    match write.equation:
        case Equation(_, "+=", Call("exp", (Binary("-", term, Access() as maximum),))):
            pass
        case _:
            return None
    definitions = definitions_of(table.program)
    frame = definitions.frame(write.path)
    found = _instance(definitions, term, maximum, write.path, frame)
    if found is None or not all(is_exact(test, frame.names()) for test in frame.where):
        return None
    reduction, values = found
    rows = rows_of_maximum(definitions, reduction.statement.path, write.path, maximum)
    if rows is None or not variables_of(write.equation.target) <= rows.keys():
        return None
    try:
        prove_same_terms(reduction.statement, values, frame, equation_text(write.equation))
    except NotFound:
        return None
    return maximum.tensor


def _instance(
    definitions: Definitions, term: Expr, maximum: Access, path: Path, frame: Frame
) -> tuple[Reduction, dict[str, Expr]] | None:
    """The maximum that is read, and the values of its variables where its term is the given one.

    None unless it is finished, not rounded, its guards hold there, and its term has not changed since.
    """
    reduction = read_reduction(definitions, maximum, path, frame)
    if reduction is None or reduction.equation.op != "max=":
        return None
    own = reduction.equation.value
    values = instance_of(reduction, reduction.values, own, term, frame)
    stored = definitions.dtypes[maximum.tensor]
    if values is None or not is_kept(own, stored, definitions.dtypes):
        return None
    if not all(frame.always(substitute_in(guard.condition, values)) for _, guard in reduction.statement.guards):
        return None
    if any(why_written_between(definitions, a.tensor, reduction.statement.path, path) for a in accesses(own)):
        return None
    return reduction, values
