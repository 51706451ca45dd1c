"""Leaves out what cancels: a factor that is multiplied and divided by, a term that is added and subtracted.

    Before    (a*b)/(a*c)      or    a+b-b
    After     b/c              or    a

The identities, one a step; `of` is what cancels:

- a factor above and below: (a*b)/(a*c) = b/c, a*b/a = b, a/(a*b) = 1.0/b, a/a = 1.0; powers lose one: a**2.0/a = a
- a factor of a product with a quotient: a*(b/a) = b; and of an inverse: 1.0/(1.0/a) = a
- a factor of every term above: (a*b+a*c)/a = b+c
- a polynomial above and below, as SymPy finds it: (a*a-1.0)/(a-1.0) = a+1.0
- two terms of a sum that are opposite, up to commuted operands: a+b-b = a, (a+b)-(b-a) = a+a; a-a = 0.0
- a sign of a sign: -(-a) = a
- what changes nothing: a*1.0 = a, a/1.0 = a, a+0.0 = a, a-0.0 = a; but for a+0.0, where a may be -0.0, every bit stays

Legal when: what cancels as a factor is finite and not zero, nor too close to it, by the ranges; what cancels as a term
is finite; what is left divides by nothing that may be zero. The rest rounds less than the whole did.

Pays when: always, unless what cancelled scaled its operand into a safer range: work is saved, and a division.

Leads to: compute_inline, dead_code_elimination, factorization.

Inverse: expand_cancellation.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.terms import Term, is_sum, product, quotient, terms_of, total
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Program, Real, Unary
from strategies.algebra import CHANGE, EFFECT, INTEGERS, SAVED, SAVING, Algebraic
from strategies.arithmetic import Setting
from strategies.base import BitExact, Fact, Level
from strategies.factors import bases, power_in, without
from strategies.safety import Form

_NOTHING_DONE = ("a product with", "a quotient by", "a sum with", "a difference less")  # identities of a 1 or a 0
_UNDONE = ("undo each other", "is added and subtracted")  # identities of what stands there twice


class Cancellation(Algebraic):
    name: ClassVar[str] = "cancellation"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "{twice} takes part in {old} twice, with opposite effects: without it, an evaluation takes {divisions_saved} "
        "fewer.",
        "What {twice} does in {old} is undone in the same expression: without it, an evaluation takes {saved} fewer.",
        "Without {of}, {old} takes {saved} fewer.",
        "For real numbers, {of} makes no difference to the value of {old}.",
        "Take {of} away, and {old} is {new}: for real numbers the value is the same, the way to it shorter.",
        "What does {twice} bring to {old}? Nothing that is not taken back: {identity}.",
        "What does {neutral} bring to {old}? Nothing: {identity}.",
        *SAVING,
        "In the equation at {path}, {of} cancels.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Without {of}, {new} stands where {old} stood.",
        "{old} is reduced to {new}.",
        "Strike {of} out of {old}: what is left reads {new}.",
        "In the equation at {path}, {old} loses {of}, and {new} is left.",
        *CHANGE,
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Each evaluation saves {divisions_saved}; in {dtype} bits may change, as the roundings of what is gone go too.",
        "The text of the expression reads {read} in {reads_before} before and in {reads_after} after.",
        "What stays, {new}, takes {operations_after}; bits may change in {dtype}, as far as verification allows.",
        "Every bit stays: {exact}.",
        "The equation reads {unread} no longer.",
        "{old} took {operations_before}; {new} takes {operations_after}, in each of {times} iterations.",
        *EFFECT,
        *INTEGERS,
        *SAVED,
    )

    of: str

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        result = super().terms(before, after)
        if self.of == "-":
            return {**result, "of": "the pair of signs"}
        if result["identity"].startswith(_NOTHING_DONE):
            return {**result, "neutral": self.of}
        return {**result, "twice": self.of} if result["identity"].endswith(_UNDONE) else result

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        match setting.expression:
            case Unary("-", operand):
                if isinstance(operand, Unary) and not setting.is_atom(operand):
                    yield Form({"of": "-"}, operand.operand, "two signs cancel")
            case Binary("*" | "/" as op, left, right):
                yield from _factors(setting, left, right)
                yield from _neutral(setting, 1, left, right, op == "*")
                if op == "/":
                    yield from _of_every_term(setting)
                    yield from _polynomials(setting)
            case Binary("+" | "-" as op, left, right):
                yield from _neutral(setting, 0, left, right, op == "+")
                if setting.is_whole_sum:
                    yield from _opposite_terms(setting)
            case _:
                return

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        form, why = self.found(program)
        yield Fact("expression-cancels", form is not None, why)
        yield from self.facts_of_form(program)


def _neutral(setting: Setting, number: int, left: Expr, right: Expr, commutes: bool) -> Iterator[Form]:
    """An operand that changes nothing: a 1 of a product or quotient, a 0 of a sum."""
    for own, other in ((right, left), (left, right)) if commutes else ((right, left),):
        if setting.algebra.number(own) == number:
            text = expression_text(own)
            identity = _neutral_text(setting.expression, text)
            # x*1.0, x/1.0 and x-0.0 are x for every float; -0.0+0.0 is 0.0
            exact = isinstance(own, Real) and (number == 1 or not commutes) and setting.computes_here(other)
            yield Form({"of": text}, other, identity, exact=identity if exact else "")


def _neutral_text(expression: Expr, own: str) -> str:
    assert isinstance(expression, Binary)
    kept = {
        "*": "a product with {} is its other factor",
        "/": "a quotient by {} is what is divided",
        "+": "a sum with {} is its other term",
        "-": "a difference less {} is its first term",
    }
    return kept[expression.op].format(own)


def _factors(setting: Setting, left: Expr, right: Expr) -> Iterator[Form]:
    """A factor above that is a factor below, one of them on either side of the place."""
    term = setting.term
    inner = [setting.parts_of(side) for side in (left, right)]
    for base in bases(term.factors, setting):
        count = min(power_in(term.factors, base, setting), power_in(term.divisors, base, setting))
        within = sum(
            min(power_in(side.factors, base, setting), power_in(side.divisors, base, setting)) for side in inner
        )
        if count > within:
            above, below = (without(part, base, 1, setting) for part in (term.factors, term.divisors))
            text = expression_text(base)
            identity = f"multiplying by {text} and dividing by it undo each other"
            yield Form({"of": text}, _signed(term, above, below, setting), identity, (base, *term.divisors))


def _of_every_term(setting: Setting) -> Iterator[Form]:
    """A divisor that is a factor of every term of the one sum above."""
    term = setting.term
    for base in bases(term.divisors, setting):
        for number, factor in enumerate(term.factors):
            parts = terms_of(factor, setting.is_atom)
            if is_sum(factor, setting.is_atom) and all(power_in(part.factors, base, setting) for part in parts):
                rest = total([part.changed(without(part.factors, base, 1, setting)) for part in parts], setting.dtype)
                above = (*term.factors[:number], rest, *term.factors[number + 1 :])
                below = without(term.divisors, base, 1, setting)
                text = expression_text(base)
                identity = f"{text} divides every term"
                yield Form({"of": text}, _signed(term, above, below, setting), identity, (base, *term.divisors))


def _polynomials(setting: Setting) -> Iterator[Form]:
    """A sum that divides both the polynomial above and the one below, where neither shows it as a factor."""
    term = setting.term
    above, below = product(term.factors, setting.dtype), product(term.divisors, setting.dtype)
    common = setting.algebra.common_divisor(above, below)
    if common is None or any(setting.same(common, factor) for factor in term.factors if factor in term.divisors):
        return
    rests = [setting.algebra.divided(part, common) for part in (above, below)]
    if rests[0] is None or rests[1] is None:
        return
    divisors = () if setting.algebra.number(rests[1]) == 1 else (rests[1],)
    text = expression_text(common)
    new = _signed(term, (rests[0],), divisors, setting)
    yield Form({"of": text}, new, f"{text} divides both polynomials", (common, *term.divisors))


def _opposite_terms(setting: Setting) -> Iterator[Form]:
    """Two terms of a sum that add up to 0."""
    terms = setting.terms
    for n, one in enumerate(terms):
        for m in range(n + 1, len(terms)):
            other = terms[m]
            if one.negative != other.negative and _same_size(one, other, setting):
                rest = [term for number, term in enumerate(terms) if number not in (n, m)]
                size = quotient(one.factors, one.divisors, setting.dtype)
                text = expression_text(size)
                new = total(rest, setting.dtype)
                yield Form({"of": text}, new, f"{text} is added and subtracted", finite=(size,))
                break


def _same_size(one: Term, other: Term, setting: Setting) -> bool:
    """Whether two terms are equal but for their signs: the same factors and divisors, in any order."""
    for mine, theirs in ((one.factors, other.factors), (one.divisors, other.divisors)):
        found = bases(mine, setting)
        powers = [(power_in(mine, base, setting), power_in(theirs, base, setting)) for base in found]
        if any(a != b for a, b in powers) or len(bases(theirs, setting)) != len(found):
            return False
    return True


def _signed(term: Term, above: tuple[Expr, ...], below: tuple[Expr, ...], setting: Setting) -> Expr:
    kept = tuple(factor for factor in above if setting.algebra.number(factor) != 1) or above[:1]
    value = quotient(kept, below, setting.dtype)
    return Unary("-", value) if term.negative else value
