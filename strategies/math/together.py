"""Brings the fractions of a sum over one denominator.

    Before    a/c+b/d
    After     (a*d+b*c)/(c*d)

The identities, one a step; `over` is the divisor of the result:

- one divisor for all: a/c+b/c = (a+b)/c, an inverse is a fraction too: a*(1.0/c) stays as it is
- different divisors: a/c+b/d = (a*d+b*c)/(c*d), each term multiplied by what its divisor lacks
- divisors that share a factor: a/(c*d)+b/c = (a+b*d)/(c*d)
- whole terms: a+b/c = (a*c+b)/c
- some terms of a longer sum, those over one divisor: a/c+b+d/c = (a+d)/c+b

Legal when: the divisors, and their product, are not zero and not close to it, by the ranges; no part of the new
fraction overflows, for inputs of ordinary size; and it rounds no more than verification allows for the sum: where terms
are multiplied by new factors, the arithmetic must have room for these roundings, as products of several operands have.

Pays when: divisions are saved, or the sum above the line has factors to take out or to cancel.

Leads to: factorization, cancellation, expression_splitting.

Inverse: apart.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.terms import Term, product, quotient, total
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Program
from strategies.algebra import CHANGE, EFFECT, SAVED, SAVING, SHOWING, SHOWN, Algebraic
from strategies.arithmetic import Setting
from strategies.base import BitExact, Fact, Level
from strategies.factors import bases, power_in
from strategies.safety import Form

MOST_DIVISORS = 3  # different factors of a common divisor


class Together(Algebraic):
    name: ClassVar[str] = "together"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{old} divides more often than it must: over {over}, {divisions_saved} fewer will do.",
        "Each fraction of {old} has a division of its own; over {over}, {divisions_saved} fewer will do.",
        "Terms of {old} can share the denominator {over}.",
        "Terms of the sum at {path} can be added before anything is divided: {over} then divides them, with "
        "{divisions_saved} fewer.",
        "{whole} is no fraction; multiplied and divided by {over}, it fits over {over} with the fractions of {old}.",
        *SAVING,
        *SHOWING,
        "Over {over}, terms of {old} are one fraction.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Bring the fractions over {over}: {new} replaces {old}.",
        "What stood above {alike} is summed, and {alike} divides the sum: {new}.",
        "Terms of {old} make one fraction now: {new}.",
        "Each term is multiplied by what it lacks of {widened}, then the terms are summed and divided: {new}.",
        *CHANGE,
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Each evaluation saves {divisions_saved}, and takes {operations_after} instead of {operations_before}.",
        "The expression takes {operations_after} now; nothing else in the program changes.",
        "{new} rounds in other places than {old}; in {dtype} bits may change, as far as verification allows.",
        "Over {times} iterations, this saves {divisions_saved_in_all}.",
        *EFFECT,
        *SAVED,
        *SHOWN,
    )

    over: str

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        if not setting.is_sum:
            return
        terms = setting.terms
        divided = [term for term in terms if term.divisors]
        if not divided:
            return
        if setting.is_whole_sum:
            for term in divided:
                chosen = [_same_divisors(term, other, setting) for other in terms]
                if 1 < sum(chosen) < len(terms):
                    yield _over(setting, terms, list(term.divisors), chosen)
        common = _common(divided, setting)
        if len(common) <= MOST_DIVISORS:
            yield _over(setting, terms, common, [True] * len(terms))

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        form, why = self.found(program)
        yield Fact("terms-are-fractions", form is not None, why)
        yield from self.facts_of_form(program)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        setting, result = self.setting(before), super().terms(before, after)
        terms = setting.terms
        if result["identity"].startswith(f"{len(terms)} terms"):  # all terms of the sum, not some
            whole = next((term.source for term in terms if not term.divisors and term.source is not None), None)
            if whole is not None:
                result["whole"] = expression_text(whole)
            if not all(_same_divisors(terms[0], term, setting) for term in terms):
                return {**result, "widened": self.over}
        return {**result, "alike": self.over}


def _common(terms: list[Term], setting: Setting) -> list[Expr]:
    """The least product that every term's divisors divide, as factors."""
    result: list[Expr] = []
    for base in bases([divisor for term in terms for divisor in term.divisors], setting):
        result += [base] * max(power_in(term.divisors, base, setting) for term in terms)
    return result


def _same_divisors(one: Term, other: Term, setting: Setting) -> bool:
    both = bases((*one.divisors, *other.divisors), setting)
    return all(power_in(one.divisors, base, setting) == power_in(other.divisors, base, setting) for base in both)


def _above(term: Term, lacking: list[Expr], setting: Setting) -> Term:
    """What stands above the divisors of a term, times what they lack: as it was written, if it is one expression."""
    match term.source:
        case Binary("/", left, _) if not setting.parts_of(left).divisors:
            factors, negative = (left,), term.minus
        case _:
            factors, negative = term.factors, term.negative
    kept = tuple(factor for factor in factors if not lacking or setting.algebra.number(factor) != 1)
    return Term(negative, (*kept, *lacking))


def _over(setting: Setting, terms: tuple[Term, ...], divisors: list[Expr], chosen: list[bool]) -> Form:
    """The sum with the chosen terms as one fraction, where the first of them stood."""
    above: list[Term] = []
    for term, own in zip(terms, chosen, strict=True):
        if own:
            lacking = [
                base
                for base in bases(divisors, setting)
                for _ in range(power_in(divisors, base, setting) - power_in(term.divisors, base, setting))
            ]
            above.append(_above(term, lacking, setting))
    first = chosen.index(True)
    fraction = Term(False, (quotient([total(above, setting.dtype)], divisors, setting.dtype),))
    new = [fraction if n == first else term for n, term in enumerate(terms) if n == first or not chosen[n]]
    text = expression_text(product(divisors, setting.dtype))
    identity = f"{len(above)} terms can have the common denominator {text}"
    return Form({"over": text}, total(new, setting.dtype), identity)
