"""Which iteration of a nest is meant: what its variables must be for its expressions to be others.

Every answer is proved by isl: in range, and the expressions equal at all points of a frame.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from leir.analysis.affine import affine
from leir.analysis.box import Sum, as_expression, as_sum, plus, quotient_and_remainder, rejoined
from leir.analysis.frames import Frame, alike, is_test
from leir.edit import accesses, map_expression, variables_of
from leir.names import substitute_in
from leir.syntax import Access, Binary, Expr, Integer, Loop, Variable

Values = Mapping[str, Expr]
_MOST_WAYS = 16  # in which the operands of two expressions are paired


def solution(
    patterns: Sequence[Expr], values: Sequence[Expr], known: Values, loops: Mapping[str, Loop], frame: Frame
) -> dict[str, Expr] | None:
    """What the variables of `loops` must be for the patterns to have the values, proved to be in range and to do so.

    Variables that occur in no pattern are left out. `known`: the values of the patterns' other variables. None where it
    is not found, or may not be the only one.
    """
    found = dict(known)
    waiting = _without_quotients(list(zip(patterns, values, strict=True)))
    while waiting:
        later = [pair for pair in waiting if not _solve(*pair, found, loops, frame)]
        if len(later) == len(waiting):
            return None
        waiting = later
    return found if _is_proved(patterns, values, found, loops, frame) else None


def _solve(pattern: Expr, value: Expr, found: dict[str, Expr], loops: Mapping[str, Loop], frame: Frame) -> bool:
    """Adds what the pattern says of variables that are not yet found; False if it has to wait for others."""
    if variables_of(pattern) <= set(found):
        return True  # proved later
    total = as_sum(pattern)
    unknown = {t.name: f for t, f in total.terms.items() if isinstance(t, Variable) and t.name not in found}
    rest = {t: f for t, f in total.terms.items() if not isinstance(t, Variable) or t.name in found}
    if not unknown.keys() <= loops.keys() or any(variables_of(term) - set(found) for term in rest):
        return False
    solved = _digits(unknown, loops, _less(value, rest, total.constant, found), frame)
    found |= solved or {}
    return solved is not None


def _without_quotients(pairs: list[tuple[Expr, Expr]]) -> list[tuple[Expr, Expr]]:
    """The pairs of pattern and value, with x in place of every two patterns x//n and x%n."""
    for one, (pattern, value) in enumerate(pairs):
        match pattern:
            case Binary("//", whole, Integer() as size):
                for other, (remainder, left) in enumerate(pairs):
                    if _is_remainder(remainder, whole, size):
                        kept = [pair for n, pair in enumerate(pairs) if n not in (one, other)]
                        exact = Binary("+", Binary("*", value, size), left)
                        joint = joined(value, left, size) or as_expression(as_sum(exact))
                        return _without_quotients([(whole, joint), *kept])
            case _:
                pass
    return pairs


def _is_remainder(expression: Expr, whole: Expr, size: Integer) -> bool:
    match expression:
        case Binary("%", divided, Integer() as own):
            return own == size and as_sum(divided) == as_sum(whole)
        case _:
            return False


def joined(quotient: Expr, remainder: Expr, size: Integer) -> Expr | None:
    """The expression of which these are the quotient and the remainder as they are written."""
    match quotient, remainder:
        case Binary("//", one, Integer() as own), rest if own == size and _is_remainder(rest, one, size):
            return one
        case _:
            return None


def _less(value: Expr, terms: Mapping[Expr, int], constant: int, known: Values) -> Expr:
    """The value without known terms of the pattern."""
    result = value
    for term, factor in terms.items():
        part = Binary("*", substitute_in(term, dict(known)), Integer(abs(factor)))
        result = Binary("-" if factor > 0 else "+", result, part)
    if constant:
        result = Binary("-" if constant > 0 else "+", result, Integer(abs(constant)))
    return value if result is value else as_expression(as_sum(result))


def _digits(unknown: Mapping[str, int], loops: Mapping[str, Loop], value: Expr, frame: Frame) -> dict[str, Expr] | None:
    """The variables of a sum of multiples, of which each is longer than all smaller ones together reach."""
    order = sorted(unknown, key=lambda name: (-unknown[name], name))
    if [unknown[name] for name in order] == [-1]:
        return {order[0]: as_expression(as_sum(Binary("-", Integer(0), value)))}
    firsts = {name: loops[name].first if len(order) > 1 else 0 for name in order}
    if start := sum(unknown[name] * first for name, first in firsts.items()):
        total = as_sum(value)
        value = as_expression(Sum(total.terms, total.constant - start))
    found: dict[str, Expr] = {}
    for number, name in enumerate(order):
        factor = unknown[name]
        below = order[number + 1 :]
        if factor < 1 or sum(unknown[other] * (loops[other].extent - 1) for other in below) >= factor:
            return None
        if factor == 1:
            digit = value
        else:
            digit, value = quotient_and_remainder(value, factor, frame.ranges())
        found[name] = plus(digit, Integer(firsts[name])) if firsts[name] else digit
    return found


def _is_proved(
    patterns: Sequence[Expr], values: Sequence[Expr], found: Values, loops: Mapping[str, Loop], frame: Frame
) -> bool:
    names = frame.names()
    wrong: list[str] = []
    for name, loop in loops.items():
        if name in found:
            text = affine(found[name], names)
            if text is None:
                return False
            low, high = loop.first, loop.first + loop.extent
            wrong.append(f"({text} < {low} or {text} >= {high})")
    for pattern, value in zip(patterns, values, strict=True):
        got = substitute_in(pattern, dict(found))
        if got != value:
            a, b = affine(got, names), affine(value, names)
            if a is None or b is None:
                return False
            wrong.append(f"{a} != {b}")
    return all(frame.never(each) for each in dict.fromkeys(wrong))


def term_values(
    pattern: Expr, value: Expr, known: Values, loops: Mapping[str, Loop], frame: Frame
) -> dict[str, Expr] | None:
    """What the variables of `loops` must be for one expression to be another at all points of a frame; None if unknown.

    `known`: the values of the expression's other variables. Those of `loops` on which it does not depend are left out.
    """
    for pairs in islice(subscript_pairs(pattern, value), _MOST_WAYS):
        unknown = [(p, v) for p, v in pairs if variables_of(p) & loops.keys()]
        solved = solution([p for p, _ in unknown], [v for _, v in unknown], known, loops, frame)
        if solved is None or not variables_of(pattern) <= solved.keys():
            continue
        if frame.equal(substitute_in(pattern, solved), value):
            return solved
    return None


def moved(expression: Expr, values: dict[str, Expr]) -> Expr:
    """The expression with values in place of variables, and its subscripts as sums, where they read nothing."""

    def tidy(part: Expr) -> Expr:
        if not isinstance(part, Access):
            return part
        places = (i if any(accesses(i)) else as_expression(as_sum(rejoined(i))) for i in part.indices)
        return Access(part.tensor, tuple(places))

    return map_expression(substitute_in(expression, values), tidy)


def subscript_pairs(pattern: Expr, expression: Expr) -> Iterator[tuple[tuple[Expr, Expr], ...]]:
    """Subscripts of one expression with those of another that stand in the same places: the ways to pair them.

    Operands that may change places are paired in either order. Conditions and numbers are left to be compared.
    """
    match pattern, expression:
        case Access(one, indices), Access(other, values) if one == other and len(indices) == len(values):
            yield from _all_pairs(tuple(zip(indices, values, strict=True)), within=True)
        case _ if is_test(pattern) and is_test(expression):
            yield ()
        case _ if not any(accesses(pattern)) and not any(accesses(expression)):
            yield ()
        case _:
            for below, others in alike(pattern, expression):
                yield from _all_pairs(tuple(zip(below, others, strict=True)), within=False)


def _all_pairs(parts: Sequence[tuple[Expr, Expr]], *, within: bool) -> Iterator[tuple[tuple[Expr, Expr], ...]]:
    """The ways to pair several expressions; those `within` an access are pairs themselves, if they read nothing."""
    ways = (
        (((one, other),),)
        if within and not any(accesses(one))
        else tuple(islice(subscript_pairs(one, other), _MOST_WAYS))
        for one, other in parts
    )
    for chosen in product(*ways):
        yield tuple(pair for pairs in chosen for pair in pairs)
