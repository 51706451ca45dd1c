"""The values of loop variables, from the values of subscripts that they occur in.

A subscript gives a variable that stands alone in it, but for a sign and what is known. It gives several where they are
the digits of a number: in `i*8+j` with j below 8, i is the subscript `//8` and j the subscript `%8`. And `e//8` with
`e%8`, in two subscripts, give e, which may be such a sum in its turn, or the quotient of another pair.
"""

from collections.abc import Iterator, Mapping, Sequence

from leir.analysis.affine import Interval
from leir.analysis.box import Sum, as_expression, as_sum, plus, quotient_and_remainder
from leir.analysis.spelling import normal_index
from leir.edit import variables_of
from leir.syntax import Binary, Expr, Integer, Unary, Variable, integer

Ranges = Mapping[str, Interval]


def solved(subscripts: Sequence[Expr], wanted: Sequence[Expr], ranges: Ranges, known: Ranges) -> dict[str, Expr]:
    """The values of the variables in `ranges` for which the subscripts are those wanted, as far as these give them.

    It relies on there being such values within `ranges`, which bounds each. `known` bounds other variables, where that
    is known: those have one meaning in `subscripts` and `wanted`.
    """
    found: dict[str, Expr] = {}
    halves: list[tuple[Expr, int, str, Expr]] = []  # what is divided, by what, the operator, and its value
    waiting = list(zip(subscripts, wanted, strict=True))
    while waiting:
        subscript, value = waiting.pop(0)
        total = as_sum(subscript)
        own = {term: factor for term, factor in total.terms.items() if variables_of(term) & ranges.keys()}
        rest = Sum({t: f for t, f in total.terms.items() if t not in own}, total.constant)
        # as it was written where nothing has to be taken off
        right = plus(value, _negated(rest)) if rest.terms or rest.constant else value
        match list(own.items()):
            case [(Variable(name), 1)]:
                found.setdefault(name, right)
            case [(Variable(name), -1)]:
                found.setdefault(name, as_expression(as_sum(Unary("-", right))))
            case [(Binary("//" | "%" as op, inner, Integer(divisor)), 1)] if divisor > 0:
                divided = normal_index(inner)
                for other, by, half, known_value in halves:
                    if other == divided and by == divisor and half != op:
                        both = {op: right, half: known_value}
                        waiting.append((inner, _whole(both["//"], both["%"], divisor)))
                halves.append((divided, divisor, op, right))
            case _ if all(isinstance(term, Variable) for term in own):
                for name, digit in _digits(own, right, ranges, known):
                    found.setdefault(name, digit)
            case _:
                pass
    return found


def _whole(quotient: Expr, remainder: Expr, divisor: int) -> Expr:
    """What has this quotient and this remainder: as it is written, where both show it."""
    match quotient, remainder:
        case Binary("//", one, Integer(a)), Binary("%", other, Integer(b)) if a == b == divisor:
            if normal_index(one) == normal_index(other):
                return one
        case _:
            pass
    return as_expression(as_sum(Binary("+", Binary("*", quotient, Integer(divisor)), remainder)))


def _digits(factors: Mapping[Expr, int], value: Expr, ranges: Ranges, known: Ranges) -> Iterator[tuple[str, Expr]]:
    """Each variable of a sum with its value, where the sum's value determines them all; nothing where it does not."""
    places: list[tuple[int, str, int, int]] = []  # weight, variable, its value where the digit is 0, its last digit
    for term, factor in factors.items():
        assert isinstance(term, Variable)
        low, high = ranges[term.name]
        if high - low == float("inf"):
            return
        places.append((abs(factor), term.name, int(low if factor > 0 else high), int(high - low)))
    places.sort(key=lambda place: -place[0])
    below = [sum(weight * last for weight, _, _, last in places[number + 1 :]) for number in range(len(places))]
    if any(place[0] <= most for place, most in zip(places, below, strict=True)):
        return
    base = sum(factors[Variable(name)] * zero for _, name, zero, _ in places)
    rest = plus(value, integer(-base)) if base else value
    for weight, name, zero, _ in places:
        digit, rest = quotient_and_remainder(rest, weight, known) if weight > 1 else (rest, Integer(0))
        if factors[Variable(name)] < 0:
            digit = as_expression(as_sum(Binary("-", integer(zero), digit)))
        elif zero:
            digit = plus(digit, integer(zero))
        yield name, digit


def _negated(total: Sum) -> Expr:
    return as_expression(Sum({term: -factor for term, factor in total.terms.items()}, -total.constant))
