"""Combines logarithms of one sum in one: log(a)+log(b) becomes log(a*b).

    Before    f(log(a)+log(b))
    After     f(log(a*b))

The identities, one a step; terms may stand anywhere in the sum, with others between:

- `log-of-product`: log(a)+log(b) = log(a*b)
- `log-of-quotient`: log(a)-log(b) = log(a/b)
- `log-of-square`: 2.0*log(a) = log(a*a)
- `log-of-root`: 0.5*log(a) = log(sqrt(a))
- `log-of-exp`: log(exp(a)) = a

Legal when: the arguments are proved positive; no product, quotient or exponential of either form can overflow or be
lost to underflow, by proven bounds, for inputs that are finite and of ordinary size; and the rounding of the new
argument, which the logarithm shows as an absolute one, is spare: the old arguments were rounded themselves with
allowance left, or the logarithms keep away from zero.

Pays when: always, where it saves a call.

Leads to: powsimp, cancellation, expression_splitting.

Inverse: expand_log.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.terms import Term, total
from leir.syntax import Binary, Call, Expr, Real
from strategies.base import BitExact, Level
from strategies.functions import STEP, Form, OfFunctions, View, log_size

ALLOWED = 5.0  # roundings of a logarithm and its sum that are allowed and not taken, relative to the logarithm


class Logsimp(OfFunctions):
    name: ClassVar[str] = "logsimp"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{of} and {other} are logarithms in one sum, {old}: one logarithm of both arguments gives it at once.",
        "The identity {identity} saves {calls_saved} in {old}.",
        "With the arguments of {of} and {other} combined first, {old} takes {calls_saved} fewer.",
        "The equation at {path} takes {of} and {other} apart, where one logarithm could have both arguments.",
        "Bounds make it safe to write {old} as {new}: {bounds}.",
        "Are {of} and {other} needed as two logarithms in {old}? By {identity} they are not.",
        "By {identity}, {old} is {new}.",
        "At {path}, {old} has another form, by {identity}.",
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
        "What the identity asks for holds: {bounds}.",
        "The same operands take {calls_saved} fewer.",
        "No traffic changes. Bits may, as {new} rounds in other places than {old}.",
        "The equation reads what it read. Its result agrees to rounding.",
        "Roundings in {dtype} come in other places; nothing overflows, or is lost to underflow, by it.",
        "{identity} is an identity of real numbers, and holds here within roundings.",
    )

    @classmethod
    def forms(cls, view: View) -> Iterator[Form]:
        match view.expression:
            case Call("log", (Call("exp", (a,)) as inner,)):
                yield Form("log-of-exp", a, None, a, (), (inner,))
                return
            case _ if not view.is_whole(("+", "-")) and not view.is_whole(("*", "/")):
                return
            case _:
                pass
        terms = view.terms
        logs = [_logarithm(term) for term in terms]
        for n, one in enumerate(logs):
            if one is None:
                continue
            for m in range(n + 1, len(logs)):
                other = logs[m]
                if other is not None:
                    yield _combined(view, terms, n, m, one, other)
        if len(terms) == 1:
            yield from _scaled(view, terms[0])


def _logarithm(term: Term) -> Expr | None:
    """The argument of a term that is a logarithm and nothing else."""
    match term.factors, term.divisors:
        case (Call("log", (argument,)),), ():
            return argument
        case _:
            return None


def _combined(view: View, terms: tuple[Term, ...], n: int, m: int, one: Expr, other: Expr) -> Form:
    alike = terms[n].negative == terms[m].negative
    inner = Binary("*" if alike else "/", one, other)
    joint = terms[n].changed((Call("log", (inner,)),))
    rest = [joint if number == n else term for number, term in enumerate(terms) if number != m]
    least = [log_size(view.range_of(e))[0] for e in (one, other)]
    spare = view.formed(one) + view.formed(other) + ALLOWED * sum(least)
    of, by = Call("log", (one,)), Call("log", (other,))
    name = "log-of-product" if alike else "log-of-quotient"
    new = total(rest, view.part.dtype)
    return Form(name, of, by, new, (one, other), (one, other, inner), STEP, spare, in_place=False)


def _scaled(view: View, term: Term) -> Iterator[Form]:
    """A literal times a logarithm, or its negative."""
    for number, factor in enumerate(term.factors):
        match term.factors[1 - number] if len(term.factors) == 2 and not term.divisors else None, factor:
            case Real(2.0), Call("log", (a,)):
                inner, name, need = Binary("*", a, a), "log-of-square", STEP
            case Real(0.5), Call("log", (a,)):
                inner, name, need = Call("sqrt", (a,)), "log-of-root", STEP
            case _:
                continue
        count = 2.0 if name == "log-of-square" else 0.5
        spare = count * (view.formed(a) + ALLOWED * log_size(view.range_of(a))[0])
        new = total([term.changed((Call("log", (inner,)),))], view.part.dtype)
        yield Form(name, factor, None, new, (a,), (a, inner), need, spare, in_place=False)
