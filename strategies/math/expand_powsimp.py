"""Takes an exponential of a sum, a root of a product or a power apart: exp(a+b) becomes exp(a)*exp(b).

    Before    f(exp(a+b))
    After     f(exp(a)*exp(b))

The identities, one a step; of a longer sum or product, each operand is taken out by itself:

- `exp-of-sum`: exp(a+b) = exp(a)*exp(b)
- `exp-of-difference`: exp(a-b) = exp(a)/exp(b)
- `exp-of-negative`: exp(-a) = 1.0/exp(a)
- `root-of-product`: sqrt(a*b) = sqrt(a)*sqrt(b)
- `root-of-quotient`: sqrt(a/b) = sqrt(a)/sqrt(b)
- `root-of-power`: a**2.5 = a**2.0*sqrt(a), for a literal exponent that is a half more than a whole number

Legal when: what must be positive is proved positive; no exponential, power, product or quotient of either form can
overflow or be lost to underflow, by proven bounds, for inputs that are finite and of ordinary size; and the roundings
that are added are spare at this place.

Pays when: a factor is known already, or depends on fewer loops than the whole, and can be computed ahead.

Leads to: expression_splitting, common_subexpression_elimination, factorization.

Inverse: powsimp.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.terms import quotient, term_of, terms_of, total
from leir.syntax import Binary, Call, Expr, Real, Unary
from strategies.base import BitExact, Level
from strategies.functions import CALL, STEP, Form, OfFunctions, View, power, without


class ExpandPowsimp(OfFunctions):
    name: ClassVar[str] = "expand_powsimp"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{old} holds {part} among other operands: taken out, it gets a function of its own.",
        "The argument of {old} has parts that need not be together, and {part} is one.",
        "By {identity}, {old} falls into two parts, and {part} is behind one of them.",
        "At {path}, {part} is one operand of {old}, and {identity} sets it apart.",
        "{negated} has a minus sign in the exponent at {path}; for real numbers, one over its own exponential is the "
        "same.",
        "{old} is one over the exponential of {negated}, and can be written with it.",
        "Bounds make it safe to write {old} as {new}: {bounds}.",
        "Can {part} leave {old}? It can: {identity}.",
        "By {identity}, {old} is {new}.",
        "{old} at {path} has another form, by {identity}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "In the equation at {path}, {old} becomes {new}.",
        "{new} replaces {old}.",
        "{part} gets a function of its own, and the value reads {new}.",
        "By {identity}, the function is written {new}.",
        "The value at {path} now has {new} where it had {old}.",
        "One expression changes, {old}: it is {new} from now on.",
        "Instead of {old}, the equation computes {new}.",
        "What was {old} is {new}; loops and tensors stay.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "This costs {calls_added} in each evaluation, until one of its parts moves out or is shared.",
        "The value is the same for real numbers; results agree to rounding.",
        "Nothing can overflow or be lost to underflow: {bounds}.",
        "{part} has a function of its own now.",
        "No traffic changes. Bits may, as {new} rounds in other places than {old}.",
        "The equation reads what it read. Its result agrees to rounding.",
        "Roundings in {dtype} come in other places; nothing overflows, or is lost to underflow, by it.",
        "{identity} holds for real numbers, and here within roundings.",
    )

    @classmethod
    def forms(cls, view: View) -> Iterator[Form]:
        dtype, own = view.part.dtype, view.expression
        match own:
            case Call("exp", (Unary("-", a),)):
                new = Call("exp", (a,))
                yield Form("exp-of-negative", a, None, Binary("/", Real(1.0), new), (), (own, new), STEP, CALL)
            case Call("exp", (argument,)) if len(terms := terms_of(argument, view.is_atom)) > 1:
                for number, term in enumerate(terms):
                    rest = [other for n, other in enumerate(terms) if n != number]
                    assert term.source is not None
                    alone = term.source
                    one, other = Call("exp", (alone,)), Call("exp", (total(rest, dtype),))
                    new = Binary("/", other, one) if term.minus else Binary("*", one, other)
                    name = "exp-of-difference" if term.minus else "exp-of-sum"
                    yield Form(name, alone, None, new, (), (own, one, other), CALL + STEP, CALL)
            case Call("sqrt", (argument,)):
                term = term_of(argument, view.is_atom)
                if term.negative or len(term.factors) + len(term.divisors) < 2:
                    return
                for number, factor in enumerate(term.factors):
                    rest = quotient(without(term.factors, number), term.divisors, dtype)
                    new = Binary("*", Call("sqrt", (factor,)), Call("sqrt", (rest,)))
                    needs = (factor, rest, argument)
                    yield Form("root-of-product", factor, None, new, (factor, rest), needs, 1.5, view.formed(own))
                for number, divisor in enumerate(term.divisors):
                    rest = quotient(term.factors, without(term.divisors, number), dtype)
                    new = Binary("/", Call("sqrt", (rest,)), Call("sqrt", (divisor,)))
                    needs = (divisor, rest, argument)
                    yield Form("root-of-quotient", divisor, None, new, (divisor, rest), needs, 1.5, view.formed(own))
            case _:
                yield from _of_power(own)


def _of_power(own: Expr) -> Iterator[Form]:
    found = power(own)
    if found is None or isinstance(own, Call):
        return
    base, exponent = found
    if exponent % 1.0 == 0.5 and 1.5 <= exponent <= 8.5:
        count = exponent - 0.5
        rest = base if count == 1.0 else Binary("**", base, Real(count))
        new = Binary("*", rest, Call("sqrt", (base,)))
        need = (CALL if count > 1.0 else 0.0) + 2 * STEP - CALL
        yield Form("root-of-power", base, None, new, (base,), (base, own, rest), need, CALL)
