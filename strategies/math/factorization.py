"""Writes a sum as a product: a factor of all its terms, or of the polynomial that they make, is taken out.

    Before    a*b+a*c
    After     a*(b+c)

The identities, one a step:

- a common factor, not 1: a*b+a*c = a*(b+c), a factor of every term, once; also a*b+a = a*(b+1.0), and powers:
  a**3.0+a*b = a*(a**2.0+b)
- all common factors at once: a*b*c+a*b*d = a*b*(c+d)
- a factor that is a sum: x*(a+b)+y*(b+a) = (a+b)*(x+y)
- a factor of the polynomial: a*a-b*b = (a-b)*(a+b), a*a+2.0*a*b+b*b = (a+b)*(a+b), a*b+a+b+1.0 = (a+1.0)*(b+1.0),
  as SymPy finds them over the integers; literals that are not whole are operands like any other

Legal when: both forms are one polynomial; no part of the new sum overflows, for inputs of ordinary size; and the
product rounds no more than verification allows for the sum. Integers must not overflow, and then keep every bit.

Pays when: multiplications are saved, or the terms of the new sum can be computed once and kept.

Leads to: expression_splitting, common_subexpression_elimination, cancellation.

Inverse: expand_factorization.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.terms import Term, product, total
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Program
from strategies.algebra import CHANGE, EFFECT, INTEGERS, SAVED, SAVING, SHOWING, SHOWN, Algebraic
from strategies.arithmetic import Setting
from strategies.base import BitExact, Fact, Level
from strategies.factors import bases, power_in, without
from strategies.safety import Form

_OF_EVERY_TERM = "is a factor of every term"


class Factorization(Algebraic):
    name: ClassVar[str] = "factorization"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "{factor} is a factor of the whole of {old}: multiplied once, at the end, it saves {saved}.",
        "{old} takes {operations_before}, and {saved} fewer if {factor} is taken out.",
        "{common} is a factor of every term of {old}: the sum of what is left can be formed first, with {saved} fewer.",
        "The equation at {path} computes {old} term by term, though {factor} divides all of it.",
        *SAVING,
        *SHOWING,
        "{old} has the factor {factor}, so that it can be written as a product.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Factor {factor} out: {new} stands where {old} stood.",
        "What {factor} multiplies is summed first, then multiplied: {new} in place of {old}.",
        "The terms of {old} lose {factor}, which multiplies their sum instead: {new}.",
        "A sum becomes a product: the equation at {path} forms {new}.",
        *CHANGE,
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The same tensors are read, and the product takes {operations_after}.",
        "{new} rounds in other places than {old}: bits may change in {dtype}, as far as verification allows.",
        "The text of the expression reads {read} in {reads_before} before and in {reads_after} after.",
        "No tensor, loop or guard is touched: a sum has become a product of {operations_after}.",
        *EFFECT,
        *INTEGERS,
        *SAVED,
        *SHOWN,
    )

    factor: str

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        if not setting.is_sum:
            return
        terms = setting.terms
        common = [
            base
            for base in bases(terms[0].factors, setting)
            if all(power_in(t.factors, base, setting) for t in terms)
            if setting.algebra.number(base) != 1
        ]
        for base in common:
            yield _taken_out(setting, terms, [base])
        repeated = [base for base in common for _ in range(min(power_in(t.factors, base, setting) for t in terms))]
        if len(repeated) > 1:
            yield _taken_out(setting, terms, repeated)
        yield from _polynomial_factors(setting, common)

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        form, why = self.found(program)
        yield Fact("factor-divides-the-sum", form is not None, why)
        yield from self.facts_of_form(program)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        result = super().terms(before, after)
        return {**result, "common": self.factor} if result["identity"].endswith(_OF_EVERY_TERM) else result


def _taken_out(setting: Setting, terms: tuple[Term, ...], taken: list[Expr]) -> Form:
    """The product of some bases, each once for each time that it is named, and of the sum of what is left."""
    left = list(terms)
    for base in taken:
        left = [term.changed(without(term.factors, base, 1, setting)) for term in left]
    factor, rest = product(taken, setting.dtype), total(left, setting.dtype)
    text = expression_text(factor)
    return Form({"factor": text}, Binary("*", factor, rest), f"{text} {_OF_EVERY_TERM}")


def _polynomial_factors(setting: Setting, common: list[Expr]) -> Iterator[Form]:
    """Factors of the polynomial that no term shows; at least two sums must come of it."""
    found = setting.algebra.factors(setting.expression)
    if sum(power for _, power in found) < 2:
        return
    for factor, _ in found:
        rest = setting.algebra.divided(setting.expression, factor)
        if rest is not None and not any(setting.same(factor, base) for base in common):
            text = expression_text(factor)
            yield Form({"factor": text}, Binary("*", factor, rest), f"{text} divides the polynomial")
