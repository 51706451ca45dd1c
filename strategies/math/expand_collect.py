"""Distributes an operand over the sum that it multiplies, within a longer sum.

    Before    x*(a+c)+b
    After     a*x+c*x+b

The identities, one a step:

- a product of the operand, or a power of it, with a sum: x*x*(a+b)+c*x = x*x*a+x*x*b+c*x
- with other factors along: 2.0*x*(a+b)+c = 2.0*x*a+2.0*x*b+c
- a nested polynomial loses one level: x*(a*x+b)+c = x*a*x+x*b+c

The operand is an access or a call, as it is written. All terms of the sum in which it multiplies a sum are distributed,
each over its first; the others stay as they are. What comes of one term is summed before it meets the others:
b+x*(a+c) = b+(x*a+x*c), which rounds b no more often.

Legal when: both forms are one polynomial; no part of the new sum overflows, for inputs of ordinary size; and the terms
lose no more digits than verification allows for the products.

Pays when: the terms meet others like them, can be summed apart, or do not all depend on the loops around.

Leads to: collect, cancellation, expression_splitting.

Inverse: collect.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.terms import Term, is_sum, terms_of, total
from leir.printer import expression_text
from leir.syntax import Access, Call, Expr, Program
from strategies.algebra import ADDED, CHANGE, EFFECT, INTEGERS, SHOWING, SHOWN, Algebraic
from strategies.arithmetic import Setting
from strategies.base import BitExact, Fact, Level
from strategies.factors import bases, power_in
from strategies.safety import Form


class ExpandCollect(Algebraic):
    name: ClassVar[str] = "expand_collect"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "{by} multiplies a parenthesis in {old}: distributed, it multiplies each of the terms in it.",
        "Inside {old}, terms are held together by {by} alone.",
        "As long as {by} multiplies a parenthesis, the terms in it cannot meet the other terms of {old}.",
        "The sum at {path} has terms within terms: {by} can be distributed over them.",
        "With the parenthesis that {by} multiplies opened, {old} has {terms_after} terms in place of {terms_before}.",
        *SHOWING,
        "{old} is a sum in which {by} multiplies another sum.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Distribute {by}: {new} replaces {old}.",
        "The sum of {terms_before} terms becomes one of {terms_after}: {new}.",
        "{by} goes to each of the terms that it multiplied together, and {old} reads {new}.",
        "At {path} the parenthesis that {by} multiplies is opened, and each of its terms has {by} now: {new}.",
        *CHANGE,
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Each evaluation takes {added} more, as {by} multiplies each term for itself.",
        "The expression takes {operations_after} now; nothing else in the program changes.",
        "{new} rounds in other places than {old}: bits may change in {dtype}, as far as verification allows.",
        "No tensor, loop or guard is touched: {by} multiplies terms where it multiplied their sum.",
        *EFFECT,
        *INTEGERS,
        *ADDED,
        *SHOWN,
    )

    by: str

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        if not setting.is_whole_sum:
            return
        terms = setting.terms
        for base in bases([factor for term in terms for factor in term.factors], setting):
            if isinstance(base, Access | Call) and any(_sum_beside(term, base, setting) for term in terms):
                new = [_distributed(term, base, setting) for term in terms]
                text = expression_text(base)
                identity = f"{text} is distributed over the sums that it multiplies"
                yield Form({"by": text}, total(new, setting.dtype), identity)

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        form, why = self.found(program)
        yield Fact("operand-multiplies-a-sum", form is not None, why)
        yield from self.facts_of_form(program)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        setting = self.setting(before)
        new = terms_of(self.form(before).new, setting.is_atom)
        counts = {"terms_before": str(len(setting.terms)), "terms_after": str(len(new))}
        return {**super().terms(before, after), **counts}


def _sum_beside(term: Term, base: Expr, setting: Setting) -> Expr | None:
    """The first sum among the factors of a term that has a base; None where it has not both."""
    if not power_in(term.factors, base, setting):
        return None
    return next((factor for factor in term.factors if is_sum(factor, setting.is_atom)), None)


def _distributed(term: Term, base: Expr, setting: Setting) -> Term:
    """A term as the sum of those of its sum, each with the other factors before it; itself where it has none."""
    found = _sum_beside(term, base, setting)
    if found is None:
        return term
    at = term.factors.index(found)
    others = (*term.factors[:at], *term.factors[at + 1 :])
    result: list[Term] = []
    for inner in terms_of(found, setting.is_atom):
        kept = tuple(factor for factor in inner.factors if setting.algebra.number(factor) != 1)
        result.append(Term(inner.negative, (*others, *kept), (*inner.divisors, *term.divisors)))
    return Term(term.negative, (total(result, setting.dtype),))
