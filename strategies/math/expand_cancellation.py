"""Multiplies and divides by an expression that the equation has at hand.

    Before    a/b
    After     (a*y)/(b*y)

The identities, one a step; `by` is y, a temporary, a call or a sum that occurs in the same equation:

- a fraction gets the factor above and below: a/b = (a*y)/(b*y)
- any other product is multiplied and divided: a*b = (a*b*y)/y

Legal when: y is finite and not zero, nor too close to it, by the ranges; no product overflows, for inputs of ordinary
size; the two roundings that come with y are within what verification allows for the whole of the arithmetic around. A
product or quotient by itself has no room for them, three of them have.

Pays when: the factor meets its like in another part of the expression, so that together, collect or cancellation can
follow.

Inverse: cancellation.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.terms import is_sum
from leir.edit import walk_expression
from leir.printer import expression_text
from leir.syntax import Access, Binary, Call, Expr, Program
from strategies.algebra import Algebraic
from strategies.arithmetic import Setting
from strategies.base import BitExact, Fact, Level
from strategies.safety import Form

MOST_FACTORS = 4  # different expressions that are tried at a place


class ExpandCancellation(Algebraic):
    name: ClassVar[str] = "expand_cancellation"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{by} is at hand in the equation at {path}: with it above and below, {old} can be joined with what has it.",
        "If {old} had the factor {by} above and below, it would match other parts of the equation.",
        "Nothing forbids to multiply and divide {old} by {by}, which is never zero.",
        "{old} can take {by} along, since multiplying and dividing by it leaves the value.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "In the equation at {path}, {old} becomes {new}.",
        "Multiply {old} by {by} and divide by it: {new}.",
        "{by} enters above and below: {new} stands where {old} stood.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{operations_before} before, {operations_after} after: a detour, which pays by the steps that follow.",
        "The value is the same for real numbers; in {dtype} two roundings are added, within what verification allows.",
        "{added} more, all of them with {by}.",
    )

    by: str

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        expression = setting.expression
        is_part = isinstance(setting.parent, Binary) and setting.parent.op in ("*", "/")
        if not (isinstance(expression, Binary) and expression.op in ("*", "/")):
            return
        if is_part and setting.parent is not None and not setting.is_atom(setting.parent):
            return  # of a longer product
        for factor in _at_hand(setting):
            above, below = (expression.left, expression.right) if expression.op == "/" else (expression, None)
            divisor = factor if below is None else Binary("*", below, factor)
            new = Binary("/", Binary("*", above, factor), divisor)
            text = expression_text(factor)
            yield Form({"by": text}, new, f"{text} is multiplied by, and divided by", nonzero=(factor,))

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        form, why = self.found(program)
        yield Fact("factor-is-at-hand", form is not None, why)
        yield from self.facts_of_form(program)


def _at_hand(setting: Setting) -> list[Expr]:
    """Temporaries, calls and sums of the equation that compute in the type of the place, those outside of it first.

    None has the place within it: multiplying by the whole of the value serves nothing.
    """
    inputs = {declaration.tensor for declaration in setting.program.inputs}
    inside = {part for _, part in walk_expression(setting.expression)}
    found: list[Expr] = []
    for _, part in walk_expression(setting.value):
        named = isinstance(part, Access) and part.tensor not in inputs
        if not named and not isinstance(part, Call) and not is_sum(part, setting.is_atom):
            continue
        around = any(inner is setting.expression for _, inner in walk_expression(part))
        if not around and setting.computes_here(part) and not any(setting.same(part, other) for other in found):
            found.append(part)
    outside = [part for part in found if part not in inside]
    return [*outside, *(part for part in found if part in inside)][:MOST_FACTORS]
