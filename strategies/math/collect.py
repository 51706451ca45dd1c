"""Gathers the terms of a sum that share an operand: what it multiplies is summed first.

    Before    a*x+b+c*x
    After     x*(a+c)+b

The identities, one a step:

- `order: powers`: terms with the same power of the operand are gathered: a*x*x+b*x*x+c*x = x*x*(a+b)+c*x
- the same for terms that are multiples of the operand alone: 2.0*x+a+x = x*(2.0+1.0)+a
- `order: nested`, Horner's rule: the operand is taken once out of every term that has it: a*x*x+b*x+c = x*(a*x+b)+c

The operand is an access or a call, as it is written. The gathered terms stand where the first of them stood; the others
stay as they are. A sum of which every term has the operand is left to factorization, and terms that add up to 0 to
cancellation.

Legal when: both forms are one polynomial; no part of the new sum overflows, for inputs of ordinary size; and the new
form rounds no more than verification allows for the terms. Integers must not overflow, and then keep every bit.

Pays when: multiplications are saved, or the gathered operands can be summed once and kept.

Leads to: expression_splitting, factorization, common_subexpression_elimination.

Inverse: expand_collect.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from leir.analysis.terms import Term, product, terms_of, total
from leir.printer import expression_text
from leir.syntax import Access, Call, Expr, Program
from strategies.algebra import CHANGE, EFFECT, INTEGERS, SAVED, SAVING, SHOWING, SHOWN, Algebraic
from strategies.arithmetic import Setting
from strategies.base import BitExact, Fact, Level
from strategies.factors import bases, power_in, without
from strategies.safety import Form


class Collect(Algebraic):
    name: ClassVar[str] = "collect"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "{count} terms of {old} multiply {by}: gathered, they save {saved}.",
        "{count} terms of {old} are multiples of {by}: what it is multiplied by in them can be summed first.",
        "Seen as a polynomial in {by}, {old} has terms that belong together.",
        "The equation at {path} spreads {by} over {count} terms: gathered, they take {saved} fewer.",
        *SAVING,
        *SHOWING,
        "Terms of {old} share {by}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Gather what {by} multiplies: {new} replaces {old}.",
        "The {count} terms with {by} become one product, the others stay: {new}.",
        "{by} is written for {count} terms together, before a parenthesis of what it multiplied: {new}.",
        "At {path}, the sum {old} is ordered by {by}: {new}.",
        *CHANGE,
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The sum takes {operations_after}, and reads what it read.",
        "The text of the expression reads {read} in {reads_before} before and in {reads_after} after.",
        "{new} rounds in other places than {old}: bits may change in {dtype}, as far as verification allows.",
        "No tensor, loop or guard is touched: {count} terms of a sum have become one.",
        *EFFECT,
        *INTEGERS,
        *SAVED,
        *SHOWN,
    )

    by: str
    order: Literal["powers", "nested"]

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        if not setting.is_whole_sum:
            return
        terms = setting.terms
        for base in bases([factor for term in terms for factor in term.factors], setting):
            if not isinstance(base, Access | Call):
                continue
            powers = [power_in(term.factors, base, setting) for term in terms]
            for power in sorted({power for power in powers if power and powers.count(power) > 1}):
                if powers.count(power) < len(terms) and not _cancel(setting, terms, base, power):
                    yield _gathered(setting, terms, base, [p == power for p in powers], power, "powers")
            present = [power for power in powers if power]
            if len(present) < len(terms) and len(set(present)) > 1:
                yield _gathered(setting, terms, base, [p > 0 for p in powers], min(present), "nested")

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        form, why = self.found(program)
        yield Fact("terms-share-the-operand", form is not None, why)
        yield from self.facts_of_form(program)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        setting = self.setting(before)
        kept = len(terms_of(self.form(before).new, setting.is_atom))
        return {**super().terms(before, after), "count": str(len(setting.terms) - kept + 1)}


def _cancel(setting: Setting, terms: tuple[Term, ...], base: Expr, power: int) -> bool:
    """Whether the terms with a power of the operand add up to 0: that is cancellation's."""
    chosen = (term for term in terms if power_in(term.factors, base, setting) == power)
    rest = total([term.changed(without(term.factors, base, power, setting)) for term in chosen], setting.dtype)
    return setting.algebra.number(rest) == 0


def _gathered(
    setting: Setting, terms: tuple[Term, ...], base: Expr, chosen: list[bool], power: int, order: str
) -> Form:
    """The sum with the chosen terms as one product, where the first of them stood."""
    inner = [
        term.changed(without(term.factors, base, power, setting))
        for term, own in zip(terms, chosen, strict=True)
        if own
    ]
    first = chosen.index(True)
    powered = [base] * power
    gathered = Term(False, (*powered, total(inner, setting.dtype)))
    new = [gathered if n == first else term for n, term in enumerate(terms) if n == first or not chosen[n]]
    text = expression_text(base)
    shown = expression_text(product(powered, setting.dtype))
    return Form({"by": text, "order": order}, total(new, setting.dtype), f"{len(inner)} terms are multiples of {shown}")
