"""What follows from a finished maximum: no term lies above it, and one term equals it.

Both speak of runs without NaN among the terms, since the language leaves max of NaN open; a difference of infinities is
NaN, which the bounds of the difference say.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from leir.analysis.intervals import Range
from leir.analysis.matching import matching_values
from leir.analysis.types import type_of
from leir.edit import accesses, variables_of
from leir.syntax import Access, Binary, Call, Equation, Expr, Loop, Path, Variable

if TYPE_CHECKING:
    from leir.analysis.values import Ranges, Write


def is_term_of_maximum(
    term: Expr, maximum: Access, table: "Ranges", path: Path, evaluate: Callable[[Expr], Range]
) -> bool:
    """Whether `maximum`, read by the statement at `path`, is the finished maximum of values of which `term` is one, so
    that term - maximum is not positive. `evaluate` gives the range of an expression there."""
    bound = _bindings(term, maximum, table, path)
    if bound is None:
        return False
    for name, loop in _loops(table.writes[maximum.tensor][0]).items():
        if name in bound:
            at = evaluate(bound[name])
            if not loop.first <= at.low <= at.high < loop.first + loop.extent:
                return False
    return True


def sums_a_maximum(write: "Write", table: "Ranges") -> str | None:
    """For a sum of exp(x - M) over all terms x of a finished maximum M: the text of M. One of its terms is exp(0)."""
    match write.equation:
        case Equation(target, "+=", Call("exp", (Binary("-", term, Access() as maximum),))):
            bound = _bindings(term, maximum, table, write.path)
        case _:
            return None
    loops = _loops(write)
    if bound is None or len(loops) != len(write.around):
        return None
    elements = variables_of(target)
    written = table.writes[maximum.tensor][0]
    of_maximum = _loops(written)
    kept = variables_of(maximum)
    reduced = [name for name in of_maximum if Variable(name) not in written.equation.target.indices]
    over: list[str] = []
    for name in reduced:
        at = bound.get(name)
        if not isinstance(at, Variable) or at.name not in loops or at.name in elements | kept or at.name in over:
            return None
        own, other = loops[at.name], of_maximum[name]
        if (own.first, own.extent) != (other.first, other.extent):
            return None
        over.append(at.name)
    return maximum.tensor if kept <= elements else None


def _bindings(term: Expr, maximum: Access, table: "Ranges", path: Path) -> dict[str, Expr] | None:
    """By what the loop variables of the maximum's one write are replaced in `term` and `maximum`, if it is finished, is
    not guarded or rounded, and its operands have not changed since."""
    written = table.writes.get(maximum.tensor, ())
    if len(written) != 1 or written[0].equation.op != "max=" or not table.is_settled(maximum.tensor, path):
        return None
    write = written[0]
    loops = _loops(write)
    if len(loops) != len(write.around):
        return None
    target, value = write.equation.target, write.equation.value
    names = [index.name for index in target.indices if isinstance(index, Variable)]
    if len(dict.fromkeys(names)) != len(target.indices):
        return None
    bound = matching_values((*target.indices, value), (*maximum.indices, term), tuple(loops))
    if bound is None:
        return None
    stored, kind = table.dtypes[maximum.tensor], type_of(term, table.dtypes)
    if kind != stored and not (isinstance(term, Access) and table.dtypes.get(term.tensor) == stored):
        return None  # the maximum was rounded when it was stored
    for access in accesses(term):
        earlier = all(w.path[:1] < write.path[:1] for w in table.writes.get(access.tensor, ()))
        if not earlier or access.tensor in table.allocs:
            return None
    return bound


def _loops(write: "Write") -> dict[str, Loop]:
    return {node.variable: node for node in write.around if isinstance(node, Loop)}
