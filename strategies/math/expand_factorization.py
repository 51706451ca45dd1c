"""Writes a product with a sum in it as a sum: the product is distributed over the terms.

    Before    a*(b+c)
    After     a*b+a*c

The identities, one a step:

- one sum among the factors: a*(b+c)*d = a*b*d+a*c*d
- the terms of a sum may be quotients: a*(b/c+d) = a*b/c+a*d
- a whole product of sums: (a+b)*(c+d) = a*c+a*d+b*c+b*d
- a power of a sum of two: (a+b)**2.0 = a*a+2.0*a*b+b*b, and the third
- a sign: -(a-b) = -a+b

Legal when: both forms are one polynomial; no part of the new sum overflows, for inputs of ordinary size; and the terms
lose no more digits than verification allows for the product. So a product of two sums is multiplied out where the terms
of one have one sign, and not where both sums may be small beside their terms.

Pays when: a term does not depend on a loop that the others depend on, can be summed by itself, or meets a term like it.

Leads to: collect, cancellation, common_subexpression_elimination, expression_splitting.

Inverse: factorization.
"""

from collections.abc import Iterator
from math import comb
from typing import ClassVar

from leir.analysis.terms import Term, is_sum, terms_of, total
from leir.analysis.types import is_float
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Integer, Program, Real, Unary
from strategies.algebra import ADDED, CHANGE, EFFECT, INTEGERS, SHOWING, SHOWN, Algebraic
from strategies.arithmetic import Setting
from strategies.base import BitExact, Fact, Level
from strategies.factors import power_of
from strategies.safety import Form

MOST_TERMS = 12  # of a product that is multiplied out
HIGHEST_POWER = 3  # of a sum that is multiplied out


class ExpandFactorization(Algebraic):
    name: ClassVar[str] = "expand_factorization"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "In {old} the sum {inside} is kept together only to be multiplied; its terms can stand by themselves.",
        "{inside} sits inside the product {old}, so that none of its terms can be moved, summed or simplified alone.",
        "Multiplied out, {product} is a sum of {count} terms.",
        "What if the terms of {inside} were multiplied one by one? {old} is then a sum of {count} terms.",
        "Distribute the other factors of {old} over {inside}, and no parenthesis holds its terms together.",
        *SHOWING,
        "{old} at {path} can be written as a sum of {count} terms.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Multiply {product} out: where it stood, {new} stands.",
        "Each term of {inside} takes the other factors along, and {old} is written {new}.",
        "The product {product} becomes a sum of {count} terms at {path}: {new}.",
        "The parenthesis {inside} is dissolved, so that {old} turns into {new}.",
        *CHANGE,
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Each evaluation takes {added} more, as each of the {count} terms is formed for itself.",
        "The expression takes {operations_after} now, and reads {read} in {reads_after} of its text where it read in "
        "{reads_before}.",
        "{new} rounds in other places than {old}: bits may change in {dtype}, as far as verification allows.",
        "No tensor, loop or guard is touched: the expression has become a sum of {count} terms.",
        *EFFECT,
        *INTEGERS,
        *ADDED,
        *SHOWN,
    )

    over: str

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        expression = setting.expression
        match expression:
            case Unary("-", operand) if is_sum(operand, setting.is_atom):
                text = expression_text(operand)
                yield Form({"over": text}, total(setting.terms, setting.dtype), f"the sign goes to the terms of {text}")
            case Binary("**", base, _):
                yield from _powers(setting, base)
            case Binary("*"):
                yield from _distributed(setting)
                yield from _multiplied_out(setting)
            case _:
                return

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        form, why = self.found(program)
        yield Fact("product-holds-the-sum", form is not None, why)
        yield from self.facts_of_form(program)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        setting = self.setting(before)
        result = {**super().terms(before, after), "count": str(len(terms_of(self.form(before).new, setting.is_atom)))}
        if isinstance(setting.expression, Binary):
            result["product"] = result["old"]
            if setting.expression.op == "*" and self.over != result["old"]:
                result["inside"] = self.over
        return result


def _distributed(setting: Setting) -> Iterator[Form]:
    """The product distributed over each of its factors that is a sum."""
    term = setting.term
    for number, factor in enumerate(term.factors):
        if is_sum(factor, setting.is_atom):
            new = [
                Term(
                    term.negative != inner.negative,
                    _neat((*term.factors[:number], *inner.factors, *term.factors[number + 1 :]), setting),
                    (*inner.divisors, *term.divisors),
                )
                for inner in terms_of(factor, setting.is_atom)
            ]
            text = expression_text(factor)
            identity = f"every term of {text} is multiplied by the other factors"
            yield Form({"over": text}, total(new, setting.dtype), identity)


def _multiplied_out(setting: Setting) -> Iterator[Form]:
    """A product of two sums or more, all of them multiplied out."""
    term = setting.term
    sums = [factor for factor in term.factors if is_sum(factor, setting.is_atom)]
    count = 1
    for factor in sums:
        count *= len(terms_of(factor, setting.is_atom))
    if len(sums) < 2 or count > MOST_TERMS:
        return
    result = [Term(term.negative, (), term.divisors)]
    for factor in term.factors:
        inner_terms = terms_of(factor, setting.is_atom) if factor in sums else (Term(False, (factor,)),)
        result = [
            Term(
                outer.negative != inner.negative,
                _neat((*outer.factors, *inner.factors), setting),
                (*inner.divisors, *outer.divisors),
            )
            for outer in result
            for inner in inner_terms
        ]
    text = expression_text(setting.expression)
    yield Form({"over": text}, total(result, setting.dtype), f"{text} is multiplied out")


def _neat(factors: tuple[Expr, ...], setting: Setting) -> tuple[Expr, ...]:
    """The factors without a 1 that a term of a sum brought along."""
    return tuple(factor for factor in factors if setting.algebra.number(factor) != 1) or factors[:1]


def _powers(setting: Setting, base: Expr) -> Iterator[Form]:
    """A square or a cube of a sum of two terms, by the binomial theorem."""
    _, power = power_of(setting.expression)
    if not is_sum(base, setting.is_atom) or not 2 <= power <= HIGHEST_POWER:
        return
    parts = terms_of(base, setting.is_atom)
    if len(parts) != 2 or any(part.divisors for part in parts):
        return
    a, b = parts
    new: list[Term] = []
    for chosen in range(power + 1):
        factors = a.factors * (power - chosen) + b.factors * chosen
        count = comb(power, chosen)
        if count > 1:
            number: Expr = Real(float(count)) if is_float(setting.dtype) else Integer(count)
            factors = (number, *factors)
        negative = (a.negative and (power - chosen) % 2 == 1) != (b.negative and chosen % 2 == 1)
        new.append(Term(negative, _neat(factors, setting)))
    text = expression_text(base)
    yield Form({"over": text}, total(new, setting.dtype), f"the binomial theorem multiplies {text} by itself")
