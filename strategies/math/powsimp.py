"""Combines exponentials, roots or powers of one product in one: exp(a)*exp(b) becomes exp(a+b).

    Before    f(exp(a)*exp(b))
    After     f(exp(a+b))

The identities, one a step; factors may stand anywhere in the product, with others between:

- `exp-of-sum`: exp(a)*exp(b) = exp(a+b)
- `exp-of-difference`: exp(a)/exp(b) = exp(a-b)
- `exp-of-negative`: c/exp(b) = c*exp(-b)
- `root-of-product`: sqrt(a)*sqrt(b) = sqrt(a*b)
- `root-of-quotient`: sqrt(a)/sqrt(b) = sqrt(a/b)
- `root-squared`: sqrt(a)*sqrt(a) = a
- `power-of-sum`: a**1.5*a**2.0 = a**3.5, for literal exponents; a itself has the exponent 1, a root 0.5:
  a**1.5*a = a**2.5, sqrt(a)*a**1.5 = a**2.0

Legal when: what must be positive is proved positive; no exponential, power, product or quotient of either form can
overflow or be lost to underflow, by proven bounds, for inputs that are finite and of ordinary size; and the roundings
that are added, those of a larger exponent above all, are spare at this place.

Pays when: always, where it saves a call.

Leads to: cancellation, logsimp, expression_splitting.

Inverse: expand_powsimp.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

from leir.analysis.intervals import largest_magnitude
from leir.analysis.spare import EXPONENTIAL
from leir.analysis.spelling import same_spelling
from leir.analysis.terms import quotient
from leir.syntax import Binary, Call, Expr, Real, Unary
from strategies.base import BitExact, Level
from strategies.functions import CALL, STEP, Form, OfFunctions, View, literal, power, without


class Powsimp(OfFunctions):
    name: ClassVar[str] = "powsimp"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{of} and {partner} are factors of one product in {old}: one function of both arguments gives their product at "
        "once.",
        "{old} calls functions more often than it must: {calls_saved} can go by {how}.",
        "Of the calls in {old}, {calls_saved} can go, by {how}.",
        "One over {negated} is an exponential itself, and so {old} is {new}.",
        "The equation at {path} multiplies {of} and {partner}, where one function could have both arguments.",
        "Bounds make it safe to write {old} as {new}: {bounds}.",
        "How often must {old} call a function? With {calls_saved} fewer, by {how}.",
        "{old} is {new}, by {how}.",
        "At {path}, {old} has another form, by {how}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "In the equation at {path}, {old} becomes {new}.",
        "{new} replaces {old}.",
        "{of} is combined with {other}, and the value reads {new}.",
        "By {identity}, the value is written {new}.",
        "The value at {path} now has {new} where it had {old}.",
        "One expression changes, {old}: it is {new} from now on.",
        "Instead of {old}, the equation computes {new}.",
        "What was {old} is {new}; loops and tensors stay.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "This saves {calls_saved} in each evaluation. In {dtype} roundings differ, as far as verification allows.",
        "The value is the same for real numbers; results agree to rounding.",
        "Nothing can overflow or be lost to underflow: {bounds}.",
        "The same operands take {calls_saved} fewer.",
        "No traffic changes. Bits may, as {new} rounds in other places than {old}.",
        "The equation reads what it read, with {calls_saved} fewer. Its result agrees to rounding.",
        "Roundings in {dtype} come in other places; nothing overflows, or is lost to underflow, by it.",
        "{identity} holds for real numbers, and here within roundings.",
    )

    @classmethod
    def forms(cls, view: View) -> Iterator[Form]:
        if not view.is_whole(("*", "/")):
            return
        own, term = view.expression, view.term
        above, below = list(term.factors), list(term.divisors)

        def whole(first: int, new: list[Expr], dropped_above: tuple[int, ...], dropped_below: tuple[int, ...]) -> Expr:
            kept = [*without(above[:first], *dropped_above), *new, *_after(above, first, dropped_above)]
            value = quotient(kept, without(below, *dropped_below), view.part.dtype)
            return Unary("-", value) if term.negative else value

        for n, one in enumerate(above):
            for m in range(n + 1, len(above)):
                for name, new, positive, normal, need in _of_product(one, above[m], view):
                    yield Form(
                        name, one, above[m], whole(n, [new], (n, m), ()), positive, normal, need, _spare(view, name)
                    )
            for m, other in enumerate(below):
                for name, new, positive, normal, need in _of_quotient(one, other, view):
                    value = whole(n, [new], (n,), (m,))
                    yield Form(name, one, other, value, positive, normal, need, _spare(view, name))
        for n, one in enumerate(below):
            for m in range(n + 1, len(below)):
                for name, new, positive, normal, need in _of_product(one, below[m], view):
                    kept = [*below[:n], new, *without(below[n + 1 :], m - n - 1)]
                    value = quotient(above, kept, view.part.dtype)
                    value = Unary("-", value) if term.negative else value
                    yield Form(name, one, below[m], value, positive, normal, need, _spare(view, name))
        for m, other in enumerate(below):
            if isinstance(other, Call) and other.function == "exp":
                (argument,) = other.arguments
                new = Call("exp", (Unary("-", argument),))
                kept = above if above != [Real(1.0)] else []
                value = quotient([*kept, new], without(below, m), view.part.dtype)
                value = Unary("-", value) if term.negative else value
                yield Form("exp-of-negative", other, None, value, (), (other, new), 0.0, view.formed(own))


def _spare(view: View, name: str) -> float:
    """What is spare of the product; two exponentials that become one are allowed what each of them is."""
    return view.formed(view.expression) + (EXPONENTIAL if name in ("exp-of-sum", "exp-of-difference") else 0.0)


Found = tuple[str, Expr, tuple[Expr, ...], tuple[Expr, ...], float]


def _of_product(one: Expr, other: Expr, view: View) -> Iterator[Found]:
    match one, other:
        case Call("exp", (a,)), Call("exp", (b,)):
            total = Binary("+", a, b)
            new = Call("exp", (total,))
            need = largest_magnitude(view.range_of(total)) + CALL - (2 * CALL + STEP)
            yield "exp-of-sum", new, (), (one, other, new), need
        case Call("sqrt", (a,)), Call("sqrt", (b,)) if same_spelling(a, b):
            yield "root-squared", a, (a,), (a,), -STEP
        case Call("sqrt", (a,)), Call("sqrt", (b,)):
            inner = Binary("*", a, b)
            yield "root-of-product", Call("sqrt", (inner,)), (a, b), (a, b, inner), -STEP
        case _:
            left, right = (power(e) or (e, 1.0) for e in (one, other))
            is_power = (isinstance(one, Binary) and one.op == "**") or (isinstance(other, Binary) and other.op == "**")
            if is_power and same_spelling(left[0], right[0]) and _is_exact(left[1], right[1]):
                base, exponent = left[0], left[1] + right[1]
                new = base if exponent == 1.0 else Binary("**", base, literal(exponent))
                yield "power-of-sum", new, (base,), (base, one, other, new), 0.0


def _of_quotient(one: Expr, other: Expr, view: View) -> Iterator[Found]:
    match one, other:
        case Call("exp", (a,)), Call("exp", (b,)):
            total = Binary("-", a, b)
            new = Call("exp", (total,))
            need = largest_magnitude(view.range_of(total)) + CALL - (2 * CALL + STEP)
            yield "exp-of-difference", new, (), (one, other, new), need
        case Call("sqrt", (a,)), Call("sqrt", (b,)) if not same_spelling(a, b):
            inner = Binary("/", a, b)
            yield "root-of-quotient", Call("sqrt", (inner,)), (a, b), (a, b, inner), -STEP
        case _:
            pass


def _is_exact(one: float, other: float) -> bool:
    """Whether the sum of two exponents is a number of every type, and no exponent that says nothing."""
    total = one + other
    return Fraction(one) + Fraction(other) == Fraction(total) and total not in (0.0,) and total * 64 == int(total * 64)


def _after(items: list[Expr], first: int, dropped: tuple[int, ...]) -> list[Expr]:
    return [item for number, item in enumerate(items) if number >= first and number not in dropped]
