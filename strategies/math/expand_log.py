"""Takes a logarithm of a product, a quotient or a power apart: log(a*b) becomes log(a)+log(b).

    Before    f(log(a*b))
    After     f(log(a)+log(b))

The identities, one a step; of a longer product, each operand is taken out by itself:

- `log-of-product`: log(a*b) = log(a)+log(b)
- `log-of-quotient`: log(a/b) = log(a)-log(b)
- `log-of-inverse`: log(1.0/a) = -log(a)
- `log-of-power`: log(a**3.0) = 3.0*log(a), for a literal exponent
- `log-of-root`: log(sqrt(a)) = 0.5*log(a)
- `log-of-exp`: log(exp(a)) = a

Legal when: the arguments are proved positive; no product, quotient, power or exponential of the old form can overflow
or be lost to underflow, by proven bounds, for inputs that are finite and of ordinary size; and no digits are lost: the
two logarithms do not cancel, since both arguments lie on one side of 1 (on either side for a quotient).

Pays when: a logarithm is known already, depends on fewer loops, or cancels with another; products that would overflow
for more factors become sums.

Leads to: cancellation, expression_splitting, collect.

Inverse: logsimp.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.intervals import Range
from leir.analysis.terms import quotient, term_of
from leir.syntax import Binary, Call, Expr, Real, Unary
from strategies.base import BitExact, Level
from strategies.functions import Form, OfFunctions, View, literal, log_size, power, without

ALLOWED = 8.0  # roundings of the old logarithm
TAKEN = 5.0  # roundings of each new one, and its sum


class ExpandLog(OfFunctions):
    name: ClassVar[str] = "expand_log"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{old} holds {part} among other operands: taken out, it gets a logarithm of its own.",
        "The argument of {old} has parts that need not be together, and {part} is one.",
        "What {old} computes is {new}, by {identity}.",
        "At {path}, {part} is one operand of {old}, and {identity} sets it apart.",
        "Bounds make it safe to write {old} as {new}: {bounds}.",
        "Can {part} leave {old}? It can: {identity}.",
        "By {identity}, {old} is {new}.",
        "{old} at {path} has another form, by {identity}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "In the equation at {path}, {old} becomes {new}.",
        "{new} replaces {old}.",
        "{part} is taken out, and the value reads {new}.",
        "By {identity}, the logarithm is written {new}.",
        "The value at {path} now has {new} where it had {old}.",
        "One expression changes, {old}: it is {new} from now on.",
        "Instead of {old}, the equation computes {new}.",
        "What was {old} is {new}; loops and tensors stay.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "This costs {calls_added} in each evaluation, until one of the logarithms moves out or is shared.",
        "This saves {calls_saved} in each evaluation.",
        "The value is the same for real numbers; results agree to rounding.",
        "What the identity asks for holds: {bounds}.",
        "No traffic changes. Bits may, as {new} rounds in other places than {old}.",
        "The equation reads what it read. Its result agrees to rounding.",
        "Roundings in {dtype} come in other places: {roundings}.",
        "{identity} is an identity of real numbers, and holds here within roundings.",
    )

    @classmethod
    def forms(cls, view: View) -> Iterator[Form]:
        match view.expression:
            case Call("log", (Call("exp", (a,)) as inner,)):
                yield Form("log-of-exp", a, None, a, (), (inner,))
            case Call("log", (Call("sqrt", (a,)),)):
                yield Form("log-of-root", a, None, Binary("*", Real(0.5), Call("log", (a,))), (a,), (a,))
            case Call("log", (argument,)) if (found := power(argument)) is not None:
                base, exponent = found
                new = Binary("*", literal(exponent), Call("log", (base,)))
                yield Form("log-of-power", base, None, new, (base,), (base, argument))
            case Call("log", (argument,)):
                yield from _of_term(view, argument)
            case _:
                pass


def _of_term(view: View, argument: Expr) -> Iterator[Form]:
    dtype, term = view.part.dtype, term_of(argument, view.is_atom)
    if term.negative or len(term.factors) + len(term.divisors) < 2:
        return
    for number, factor in enumerate(term.factors):
        rest = quotient(without(term.factors, number), term.divisors, dtype)
        if factor != Real(1.0) and rest != Real(1.0):
            new = Binary("+", Call("log", (factor,)), Call("log", (rest,)))
            yield _split("log-of-product", view, factor, rest, new, argument, 1)
    for number, divisor in enumerate(term.divisors):
        rest = quotient(term.factors, without(term.divisors, number), dtype)
        if rest == Real(1.0):
            yield Form(
                "log-of-inverse", divisor, None, Unary("-", Call("log", (divisor,))), (divisor,), (divisor, argument)
            )
        else:
            new = Binary("-", Call("log", (rest,)), Call("log", (divisor,)))
            yield _split("log-of-quotient", view, divisor, rest, new, argument, -1)


def _split(name: str, view: View, one: Expr, rest: Expr, new: Expr, argument: Expr, sign: int) -> Form:
    """The form with two logarithms: those of one sign add up to what the old one is, and its roundings allow them."""
    sides = (_side(view.range_of(one)) * sign, _side(view.range_of(rest)))
    sizes = [log_size(view.range_of(e))[1] for e in (one, rest)]
    need = 0.0 if sides[0] == sides[1] != 0 else TAKEN * sum(sizes)
    return Form(name, one, None, new, (one, rest), (one, rest, argument), need, 2.0, in_place=False)


def _side(bounds: Range) -> int:
    """1 for values from 1 on, -1 for those up to 1, else 0."""
    return 1 if bounds.low >= 1 else -1 if bounds.high <= 1 else 0
