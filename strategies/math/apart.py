"""Writes one fraction as a sum of fractions.

    Before    (a+b)/c
    After     a/c+b/c

The identities, one a step:

- `by` empty: each term above gets the divisor: (a+b)/c = a/c+b/c, also over a product: (a-b)/(c*d) = a/(c*d)-b/(c*d)
- the same with a whole part: (a*c+b)/c = a+b/c, where the divisor is a factor of some terms, which it leaves
- `by` an access: SymPy's partial fractions in it: (2.0*x+3.0)/((x+1.0)*(x+2.0)) = 1.0/(x+1.0)+1.0/(x+2.0), and a
  fraction with a whole part: (x+2.0)/(x+1.0) = 1.0+1.0/(x+1.0)

Legal when: the divisors are not zero and not close to it, by the ranges; no part of the new sum overflows, for inputs
of ordinary size; and the terms lose no more digits than verification allows for the fraction. So x/(x+1.0) stays: near
0 its terms, 1.0 and 1.0/(x+1.0), would cancel.

Pays when: a term no longer needs the division, depends on fewer loops, or meets a term like it.

Leads to: cancellation, expression_splitting, common_subexpression_elimination, collect.

Inverse: together.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from leir.analysis.terms import Term, is_sum, terms_of, total
from leir.edit import walk_expression
from leir.printer import expression_text
from leir.syntax import Access, Binary, Program
from strategies.algebra import ADDED, CHANGE, EFFECT, SHOWING, SHOWN, Algebraic
from strategies.arithmetic import Setting
from strategies.base import BitExact, Fact, Level
from strategies.factors import bases, power_in, without
from strategies.safety import Form


class Apart(Algebraic):
    name: ClassVar[str] = "apart"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{old} is one fraction of {count} parts that need not be divided together.",
        "The terms of {sum}, above the line of {old}, are tied to each other by their divisor alone.",
        "As separate terms, the parts of {old} can be computed, moved and simplified by themselves.",
        "The division at {path} serves the whole of {sum}; {count} terms come of it if each is divided for itself.",
        "The sum {factor} is one of the factors of {old}: once it is multiplied out, each of {count} terms can be "
        "divided for itself.",
        "Written as a sum, {old} has {count} terms: {new}.",
        *SHOWING,
        "{old} can be written as a sum.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Take the fraction apart: {new} replaces {old}.",
        "{count} terms stand for one fraction: {new}.",
        "Each term of {sum} gets the divisor that it needs, and the sum of them is {new}.",
        "The terms of {factor} take the other factors and the divisor along, and the sum of them is {new}.",
        "A quotient becomes a sum at {path}: {new}.",
        *CHANGE,
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Each evaluation takes {added} more, as each of the {count} terms is formed for itself.",
        "The expression takes {operations_after} now, and its terms are {count}.",
        "{new} rounds in other places than {old}; in {dtype} bits may change, as far as verification allows.",
        "No tensor, loop or guard is touched: one fraction has become a sum of {count} terms.",
        *EFFECT,
        *ADDED,
        *SHOWN,
    )

    by: str = ""

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        expression = setting.expression
        if not (isinstance(expression, Binary) and expression.op == "/"):
            return
        term = setting.term
        yield from _split(setting, term)
        accesses = [e for divisor in term.divisors for _, e in walk_expression(divisor) if isinstance(e, Access)]
        sums = any(is_sum(divisor, setting.is_atom) for divisor in term.divisors)
        for access in dict.fromkeys(accesses) if sums else ():
            found = setting.algebra.apart(expression, access)
            if found is not None:
                text = expression_text(access)
                yield Form({"by": text}, found, f"there are partial fractions in {text}")

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        form, why = self.found(program)
        yield Fact("fraction-comes-apart", form is not None, why)
        yield from self.facts_of_form(program)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        setting = self.setting(before)
        result = {**super().terms(before, after), "count": str(len(terms_of(self.form(before).new, setting.is_atom)))}
        above = setting.term.factors
        if not self.by:  # the one sum above, alone or a factor
            (split,) = (each for each in above if is_sum(each, setting.is_atom))
            result["sum" if len(above) == 1 else "factor"] = expression_text(split)
        return result


def _split(setting: Setting, term: Term) -> Iterator[Form]:
    """The one sum above, term by term; a divisor that is a factor of a term is left out there."""
    sums = [number for number, factor in enumerate(term.factors) if is_sum(factor, setting.is_atom)]
    if len(sums) != 1:
        return
    (at,) = sums
    parts: list[Term] = []
    for inner in terms_of(term.factors[at], setting.is_atom):
        factors = (*term.factors[:at], *inner.factors, *term.factors[at + 1 :])
        divisors = (*inner.divisors, *term.divisors)
        for base in bases(term.divisors, setting):
            shared = min(power_in(inner.factors, base, setting), power_in(divisors, base, setting))
            factors = without(factors, base, shared, setting)
            divisors = without(divisors, base, shared, setting)
        parts.append(replace(inner, negative=term.negative != inner.negative).changed(factors, divisors))
    identity = "every term above the line can have the divisor for itself"
    if len(term.factors) > 1:
        identity = f"{expression_text(term.factors[at])} is multiplied out, and every term has the divisor for itself"
    yield Form({"by": ""}, total(parts, setting.dtype), identity, nonzero=tuple(term.divisors))
