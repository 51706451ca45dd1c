"""The two reductions of a softmax: the maximum of each row, and the sum of exp(a-maximum) over the same terms.

Both are looked at by meaning: what the sum's terms are made of is opened (`leir.analysis.definitions`), so that
exponentials and scores may be stored in between, loops split, fused or in another order, and layouts differ.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from leir.analysis.affine import affine, condition, is_exact
from leir.analysis.definitions import (
    Definitions,
    Opening,
    Reduction,
    Wanted,
    definitions_of,
    why_written_between,
)
from leir.analysis.frames import Frame
from leir.analysis.isl import TooHard, conjunction
from leir.analysis.model import Statement
from leir.analysis.reduction import Accumulation, accumulation_at
from leir.analysis.relations import wrong_instance
from leir.analysis.solving import Values, solution, term_values
from leir.analysis.terms import taken_out
from leir.analysis.types import is_kept
from leir.edit import accesses, variables_of
from leir.names import substitute_in
from leir.printer import equation_text, expression_text
from leir.syntax import Access, Binary, Call, Equation, Expr, Integer, Path, Program, Real, Select, Unary


class NotFound(Exception):
    """A piece of the pattern is not there, or not provably so: the message is the evidence."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """exp(score-maximum), or exp(score-maximum-log(total)); the terms of the exponent may stand in any order."""

    score: Expr
    maximum: Access
    total: Access | None = None


@dataclass(frozen=True, slots=True)
class Softmax:
    """The maximum D and the sum. `target`: the sum's element in the variables of the maximum's loops.

    `least`: the number c in a sum of exp(a-max(D,c)), None where exp(a-D) is summed; `added`: what is added to each
    exponent besides. `changed`: why a term may have changed between the two; empty if none has.
    """

    maximum: Accumulation
    sum: Accumulation
    target: Access
    least: Expr | None
    added: float
    changed: str

    @property
    def value(self) -> Expr:
        """The `a` of both, in the variables of the maximum's loops."""
        return self.maximum.equation.value


def softmax_at(program: Program, maximum: Path, total: Path) -> Softmax:
    """The reductions at two paths as a softmax. Raises NotFound.

    Whether each is a full reduction is for the caller to prove.
    """
    first, second = accumulation_at(program, maximum), accumulation_at(program, total)
    assert first is not None and second is not None
    for opened in (False, True):
        try:
            return _softmax(program, first, second, opened=opened)
        except NotFound:
            if opened:
                raise
    raise AssertionError


def _softmax(program: Program, first: Accumulation, second: Accumulation, *, opened: bool) -> Softmax:
    """`opened`: whether scores that both read are opened too, not only what depends on the maximum."""
    definitions = definitions_of(program)
    highest, path = first.equation.target.tensor, second.path
    text, frame = equation_text(second.equation), definitions.frame(path)
    if not all(is_exact(test, frame.names()) for test in frame.where):
        raise NotFound(f"a guard of {text} is not quasi-affine")
    opening = Opening(definitions, terms_of(definitions, highest, opened=opened))
    term = opening.expression(second.equation.value, definitions.identity(path), path, frame)
    plain, least = _without_limit(term, opening.reductions)
    found = exponential(plain, opening.reductions)
    if found is None or found.total or found.maximum.tensor != highest:
        shown = f"{expression_text(term)}, the term of {text}"
        raise NotFound(f"{shown} is no exp(a-{highest}), with {highest} the finished maximum of a row")
    own = Opening(definitions, terms_of(definitions, highest, opened=opened))
    score = own.expression(
        first.equation.value, definitions.identity(first.path), first.path, definitions.frame(first.path)
    )
    reduction = opening.reductions[found.maximum]
    values, added = instance_of(reduction, reduction.values, score, found.score, frame), 0.0
    if values is None:
        rest, added = _without_numbers(found.score)
        values = instance_of(reduction, reduction.values, score, rest, frame) if added else None
    if values is None:
        shown = f"{expression_text(found.score)}, from which {text} subtracts {expression_text(found.maximum)}"
        raise NotFound(f"{shown}, is no term of {equation_text(first.equation)} in that row")
    prove_same_terms(reduction.statement, values, frame, text)
    target = _target(definitions, first, second, found.maximum)
    leaves = [*opening.leaves, *own.leaves]
    reasons = (why_written_between(definitions, access.tensor, at, first.path) for access, at in leaves)
    return Softmax(first, second, target, least, added, next((reason for reason in reasons if reason), ""))


def _target(definitions: Definitions, first: Accumulation, second: Accumulation, maximum: Access) -> Access:
    """The sum's element in the row of the maximum that its terms subtract. Raises NotFound."""
    shared = definitions.shared(first.path, second.path)
    own = variables_of(second.equation.target) - shared
    if own != variables_of(maximum) - shared:
        raise NotFound(f"{equation_text(second.equation)} has other rows than {expression_text(maximum)}")
    rows = rows_of_maximum(definitions, first.path, second.path, maximum)
    if rows is None or not own <= rows.keys():
        raise NotFound(f"the rows of {expression_text(second.equation.target)} are not known by its subscripts")
    target = substitute_in(second.equation.target, rows)
    assert isinstance(target, Access)
    return target


def rows_of_maximum(definitions: Definitions, maximum: Path, total: Path, access: Access) -> dict[str, Expr] | None:
    """The variables of a sum that a row of a maximum fixes, in those of the maximum; the sum reads `access`."""
    shared = definitions.shared(maximum, total)
    loops = {n.variable: n for _, n in definitions.statements[total].loops if n.variable not in shared}
    known = {name: value for name, value in definitions.identity(maximum).items() if name in shared}
    node = definitions.statements[maximum].node
    assert isinstance(node, Equation)
    return solution(access.indices, node.target.indices, known, loops, definitions.frame(maximum))


def terms_of(definitions: Definitions, maximum: str, *, opened: bool) -> Wanted:
    """Opens what depends on a maximum, and scores too if they are to be `opened`, those that no store has rounded."""

    def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
        del shared
        assert isinstance(statement.node, Equation)
        value, stored = statement.node.value, definitions.dtypes[access.tensor]
        kept = statement.node.op == "=" and is_kept(value, stored, definitions.dtypes)
        if not kept and statement.node.op == "=" and isinstance(value, Access):
            return False  # a copy of the maximum that is not the maximum
        return (opened and kept) or follows(definitions, access.tensor, maximum)

    return wanted


def follows(definitions: Definitions, tensor: str, maximum: str | None) -> bool:
    """Whether a tensor depends on a maximum, or on the one of the given name."""
    return definitions.depends_on(tensor, lambda e: e.op == "max=" and maximum in (None, e.target.tensor))


def may_be_exponential(definitions: Definitions, expression: Expr, *, in_product: bool = False) -> bool:
    """Whether an expression is exp of something, or an element of what one equation fills with such: no proof.

    `in_product`: or a product, or the numerator of a quotient, with such a factor.
    """
    seen: set[str] = set()
    waiting = [expression]
    while waiting:
        match waiting.pop():
            case Call("exp"):
                return True
            case Access(tensor) if tensor not in seen and (statement := definitions.sole(tensor)) is not None:
                assert isinstance(statement.node, Equation)
                seen.add(tensor)
                waiting.append(statement.node.value)
            case Binary("*", left, right) if in_product:
                waiting += [left, right]
            case Binary("/", left) if in_product:
                waiting.append(left)
            case _:
                pass
    return False


def exponential(expression: Expr, reductions: Mapping[Access, Reduction]) -> Exponential | None:
    """The parts of exp(a-D), where D is a maximum; E may be in it as a logarithm, as a log-softmax has it."""
    match expression:
        case Call("exp", (Binary("-", score, subtracted),)) if (both := _log_sum_exp(subtracted)) is not None:
            maximum, total = both
            known = is_maximum(maximum, reductions) and total in reductions
            return Exponential(score, maximum, total) if known else None
        case Call("exp", (power,)):
            found = taken_out(power, lambda e: is_maximum(e, reductions), subtracted=True)
        case _:
            return None
    if found is None or found[0] is None:
        return None
    score, maximum = found[0], found[1]
    assert isinstance(maximum, Access)
    logarithm = taken_out(score, _is_logarithm, subtracted=True)
    if logarithm is None or logarithm[0] is None:
        return Exponential(score, maximum)
    total = next(accesses(logarithm[1]))
    return Exponential(logarithm[0], maximum, total) if total in reductions else None


def is_maximum(expression: Expr, reductions: Mapping[Access, Reduction]) -> bool:
    """Whether an expression is an element of a maximum."""
    found = reductions.get(expression) if isinstance(expression, Access) else None
    return found is not None and found.equation.op == "max="


def _is_logarithm(expression: Expr) -> bool:
    match expression:
        case Call("log", (Access(),)):
            return True
        case _:
            return False


def _without_limit(term: Expr, reductions: Mapping[Access, Reduction]) -> tuple[Expr, Expr | None]:
    """exp(a-D) and c for exp(a-max(D,c)), of a number c; anything else as it is."""

    def limited(expression: Expr) -> tuple[Expr, Expr] | None:
        match expression:
            case Call("max", (one, other)) if is_maximum(one, reductions) and _number(other) is not None:
                return one, other
            case Call("max", (one, other)) if is_maximum(other, reductions) and _number(one) is not None:
                return other, one
            case _:
                return None

    if not isinstance(term, Call) or term.function != "exp":
        return term, None
    found = taken_out(term.arguments[0], lambda e: limited(e) is not None, subtracted=True)
    parts = found and limited(found[1])
    if found is None or found[0] is None or parts is None:
        return term, None
    return Call("exp", (Binary("-", found[0], parts[0]),)), parts[1]


def _without_numbers(score: Expr) -> tuple[Expr, float]:
    """A sum without the numbers in it, and what they add up to."""
    added = 0.0
    for subtracted in (False, True):
        found = taken_out(score, _is_number, subtracted=subtracted)
        while found is not None and found[0] is not None:
            number = _number(found[1]) or 0.0
            score, added = found[0], added - number if subtracted else added + number
            found = taken_out(score, _is_number, subtracted=subtracted)
    return score, added


def _is_number(expression: Expr) -> bool:
    return _number(expression) is not None


def _number(expression: Expr) -> float | None:
    """The value of a finite literal."""
    match expression:
        case Real(value) | Integer(value) if math.isfinite(value):
            return float(value)
        case Unary("-", operand):
            value = _number(operand)
            return None if value is None else -value
        case _:
            return None


def _log_sum_exp(expression: Expr) -> tuple[Access, Access] | None:
    """D and E of D+log(E), which may be kept from an infinite D."""
    match expression:
        case Binary("+", Access() as maximum, Call("log", (Access() as total,))):
            return maximum, total
        case Binary("+", Call("log", (Access() as total,)), Access() as maximum):
            return maximum, total
        case Select(Binary("==", Call("abs", (one,)), Real(math.inf)), other, finite) if one == other:
            both = _log_sum_exp(finite)
            return both if both is not None and both[0] == one else None
        case _:
            return None


def instance_of(found: Reduction, rows: Values, terms: Expr, score: Expr, frame: Frame) -> dict[str, Expr] | None:
    """The values of all variables of a reduction in the instance whose term, in its variables, is a score of a frame.

    `rows`: those that the row fixes. None where they are not found.
    """
    loops = {loop.variable: loop for _, loop in found.statement.loops if loop.variable not in rows}
    values = term_values(terms, score, rows, loops, frame)
    return values if values is not None and loops.keys() <= values.keys() else None


def prove_same_terms(statement: Statement, values: Values, frame: Frame, other: str) -> None:
    """That a frame's points are the instances of a reduction, each once, under `values`. Raises NotFound.

    `other`: what takes its terms at the points of the frame, in words.
    """
    text = equation_text(statement.node)
    names = statement.names("y")
    if not all(is_exact(guard.condition, names) for _, guard in statement.guards):
        raise NotFound(f"a guard of {text} is not quasi-affine")
    inside = [f"{n.first} <= {names[n.variable]} < {n.first + n.extent}" for _, n in statement.loops]
    inside += [condition(guard.condition, names) for _, guard in statement.guards]
    own = frame.names()
    targets = [affine(values[loop.variable], own) for _, loop in statement.loops]
    if None in targets:
        raise NotFound(f"the terms of {text} are not found by quasi-affine subscripts")
    whole = f"{{ S[{','.join(names.values())}] : {conjunction(inside)} }}"
    moved = ",".join(target for target in targets if target is not None)
    piece = f"{{ A[{','.join(own.values())}] -> S[{moved}] : {conjunction(frame.domain())} }}"
    try:
        wrong = wrong_instance(whole, piece)
    except TooHard as reason:
        raise NotFound(f"whether {text} has the same terms is too hard to say: {reason}") from None
    if wrong is not None:
        why, point = wrong
        where = ", ".join(f"{n.variable}={value}" for (_, n), value in zip(statement.loops, point, strict=True))
        how = {"no longer runs": "has a term of its own", "did not run before": "lacks a term"}.get(why, why)
        raise NotFound(f"{text} {how} at {where}, where {other} differs")
