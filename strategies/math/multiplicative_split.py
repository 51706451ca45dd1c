"""Divides by a value in scope and multiplies by it again, or the other way round.

    Before    f(x)
    After     f(x/y*y), or f(x*y/y)

By itself this saves nothing: it is a step on the way, and says to what. In a sum, `x` was made by a product with `y`,
or a division by it, and `y` is the same in all iterations: it can leave the sum, as when the rows of a softmax are
divided by their sum at the end. Or another term has the factor, or the divisor, `y`, which both can share. Or `x/y`
(`x*y`) is computed elsewhere already.

Legal when: `y` is proven nonzero; neither it nor what lies between overflows, nor loses digits to underflow; and two
more roundings are spare at this place. Inputs are taken to be finite and of ordinary size.

Pays when: the step that it prepares does.

Leads to: factorization, together, common_subexpression_elimination.

Inverse: cancellation.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from leir.analysis.intervals import largest_magnitude, least_magnitude, smallest_normal, tiny
from leir.analysis.spare import spare_where_formed, spare_where_used
from leir.analysis.values import Ranges
from leir.printer import expression_text
from leir.syntax import Access, Binary, Expr, Path, Place, Program
from strategies.base import BitExact, Fact, Level, path_text
from strategies.bounded import RangeOf, assumed, at_least, at_most, bounded, bounded_closer, bounds_text
from strategies.elsewhere import definition, occurs_elsewhere, partners
from strategies.safety import roundings_are_spare
from strategies.splits import (
    Part,
    Split,
    Use,
    divisors,
    factors,
    is_fixed,
    loop_names,
    other_products,
    reduced_over,
    roundings,
    spare_text,
    term_around,
)

ADDED = 2.0  # roundings
_LOST = 2.0**22  # times the smallest number of a type is less than its smallest normal number
Order = Literal["divide", "multiply"]


class MultiplicativeSplit(Split):
    name: ClassVar[str] = "multiplicative_split"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{part} in the equation at {path} and {value} would go together if {value} were there as a {word}. "
        "Splitting prepares {use}.",
        "Why {verb} by {value} and undo it at once? It prepares {use}.",
        "{value} is never 0 and can be read at {path}. As a {word} of {part} it prepares {use}.",
        "A detour by {value}, there and back, gives {part} the {word} {value}, and so prepares {use}.",
        "The sum at {path} is over {over}, and {value} is the same throughout. {part} was made with it as a "
        "{word}, so it can be made to stand there openly, and then leave the sum: this prepares {use}.",
        "Another term, {term}, has the {word} {value}. If {part} had it too, both could share it: the split "
        "prepares {use}.",
        "{computed} is at hand already, at {at}. Splitting {part} by {value} lets the equation at {path} use "
        "it: it prepares {use}.",
        "{computed} is computed at {at}, and the equation at {path} can have it once {part} is split by {value}: that "
        "prepares {use}.",
        "The equation at {path} reads {part}; split by {value}, it prepares {use}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{new} stands in place of {part} in the equation at {path}.",
        "At {path}, {part} is {done} by {value} and {undone} by it: {equation}.",
        "First {between}, then {value} again: {part} becomes {new}. Nothing else changes in the equation at {path}.",
        "The equation at {path} now reads {equation}.",
        "One expression grows: where {part} was, there is {new}.",
        "Nests, loops and tensors stay as they are. {part}, in the equation at {path}, is written {new} from now on.",
        "{value} comes into the equation at {path} twice more, once to {verb} {part} by and once to undo that: {new}.",
        "{equation} replaces the equation at {path}: {part} with {value} as a {word}, and the other "
        "operation to make up for it.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "A division and a multiplication more, for now. The results agree to rounding, not bit for bit, and nothing "
        "overflows: {spans}.",
        "No digits are lost by it but for two roundings in {dtype}. The gain comes with what it prepares.",
        "The value survives but for rounding: {spans}.",
        "No loop and no storage changes; the equation divides and multiplies once more.",
        "By itself a loss: a division and a multiplication in each evaluation. What counts is that {value} stands "
        "there as a {word}.",
        "Rounding differs from before, within what the place allows; no zero is divided by: {bounds}.",
        "By itself this saves nothing: it costs two operations in each evaluation, which what follows has to save.",
        "Each evaluation rounds twice more, in {dtype}, and bits of the results may change.",
    )

    first: Order

    @classmethod
    def proposals(cls, program: Program, path: Path, part: Part) -> Iterator[tuple[Expr, dict[str, str]]]:
        for whole in (_made_of(program, path, part), *other_products(part)):
            yield from ((factor, {"first": "divide"}) for factor in factors(whole))
            yield from ((divisor, {"first": "multiply"}) for divisor in divisors(whole))

        yield from ((value, {"first": "divide"}) for value in partners(program, path, part.expression, _quotient))
        yield from ((value, {"first": "multiply"}) for value in partners(program, path, part.expression, _product))

    def why_no_value(self, part: Part, value: Expr) -> str:
        _, term = term_around(part)
        split = value in factors(term) and value in divisors(term)
        return f"{self.value} is a factor and a divisor of {expression_text(term)} already" if split else ""

    def no_use(self) -> str:
        return f"no sum from which {self.value} could go, no term that shares it, and no such quotient or product"

    def bounds(self, program: Program, part: Part, value: Expr) -> Iterator[Fact]:
        found = bounded(program)
        own, by = found.at(Place(self.path, self.within)), found.of(value, self.path)
        nonzero = by.finite and least_magnitude(by) > 0
        yield Fact("value-is-not-zero", nonzero, self._bounds(program, part, value))
        between = found.of(self._between(part, value), self.path)
        text, made = expression_text(part.expression), self._between(part, value)
        safe = own.finite and between.finite and not found.of(self.split(program, part, value), self.path).infinite
        yield Fact("nothing-overflows", safe, self._bounds(program, part, part.expression, made))
        kept, evidence = self._underflow(by.low, by.high, tiny(part.dtype))
        least = least_magnitude(between)
        if kept and least >= smallest_normal(part.dtype):
            evidence = f"{expression_text(made)} is at least {at_least(least)} in magnitude, so it does not underflow"
            evidence = assumed(bounded_closer(program).of(made, self.path) != between) + evidence
        yield Fact("underflow-is-harmless", kept, evidence)
        spare = spare_where_formed(part.expression, found, self.path)
        spare += spare_where_used(bounded(program), self.path, self.within, largest_magnitude(own))
        evidence = f"the split moves {text} by {roundings(ADDED)}, where {spare_text(spare)}"
        new = self.split(program, part, value)
        yield roundings_are_spare(program, Place(self.path, self.within), new, ADDED, spare, evidence)

    def split(self, program: Program, part: Part, value: Expr) -> Expr:  # noqa: ARG002 (one of the three needs it)
        return Binary("*" if self.first == "divide" else "/", self._between(part, value), value)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        part, value = self.taken(before)
        use = self.use(before, part, value)
        assert use is not None
        divides = self.first == "divide"
        text = expression_text(part.expression)
        between = expression_text(self._between(part, value))
        result = {
            **self.shared_terms(after, part, use),
            "part": text,
            "word": "factor" if divides else "divisor",
            "verb": "divide" if divides else "multiply",
            "done": "divided" if divides else "multiplied",
            "undone": "multiplied" if divides else "divided",
            "between": between,
            "bounds": self._bounds(before, part, value),
            "spans": self._bounds(before, part, part.expression, self._between(part, value)),
        }
        match use.kind:
            case "sum":
                result["over"] = loop_names(reduced_over(before, self.path))
            case "term":
                result["term"] = use.other
            case _:
                result["computed"], result["at"] = between, path_text(use.at)
        return result

    def _bounds(self, program: Program, part: Part, *expressions: Expr) -> str:
        """What the part, the value, or what lies between, is in."""

        def in_table(found: Ranges) -> RangeOf:
            at = Place(self.path, self.within)
            return lambda each: found.at(at) if each is part.expression else found.of(each, self.path)

        return bounds_text(expressions, in_table(bounded(program)), in_table(bounded_closer(program)))

    def _between(self, part: Part, value: Expr) -> Expr:
        return Binary("/" if self.first == "divide" else "*", part.expression, value)

    def _underflow(self, low: float, high: float, least: float) -> tuple[bool, str]:
        """Whether what is lost in numbers that are too small stays below the smallest normal number afterwards."""
        size = max(abs(low), abs(high)) if self.first == "divide" else 1.0 / min(abs(low), abs(high))
        return (
            size < _LOST,
            f"where {self.value} makes a number too small for its digits, the error of at most {at_most(least)} is "
            f"multiplied by at most {at_most(size)}",
        )

    def use(self, program: Program, part: Part, value: Expr) -> Use | None:
        text, divides = self.value, self.first == "divide"
        of = factors if divides else divisors
        word = "factor" if divides else "divisor"
        summed = reduced_over(program, self.path)
        number, own_term = term_around(part)
        made = _made_of(program, self.path, part)
        fixed, own_fixed = (is_fixed(program, self.path, each, summed) for each in (value, part.expression))
        if number == 0 and summed and fixed and not own_fixed and value in of(made) and value not in of(own_term):
            over, own = loop_names(summed), expression_text(part.expression)
            what = f"taking the {word} {text} of {own} out of the sum over {over}, in which it does not change"
            return Use("sum", what)
        for term in other_products(part) if value not in of(own_term) else ():
            if value in of(term):
                name = "factorization" if divides else "together"
                shown = expression_text(term)
                what = f"{name}, {text} being a {word} of {shown} too"
                return Use("term", what, shown, next=name, about=text)
        between = self._between(part, value)
        elsewhere = occurs_elsewhere(program, between, Place(self.path, self.within))
        if elsewhere is not None:
            shown = expression_text(between)
            what = f"common_subexpression_elimination, {shown} being computed at {path_text(elsewhere)}"
            return Use("elsewhere", what, at=elsewhere)
        return None


def _quotient(expression: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """a and b of a/b."""
    match expression:
        case Binary("/", left, right):
            return ((left, right),)
        case _:
            return ()


def _product(expression: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """Both factors of a*b, each with the other."""
    match expression:
        case Binary("*", left, right):
            return (left, right), (right, left)
        case _:
            return ()


def _made_of(program: Program, path: Path, part: Part) -> Expr:
    """The expression that made a part: itself, or what was stored in the tensor that it reads."""
    if isinstance(part.expression, Access):
        return definition(program, part.expression, path) or part.expression
    return part.expression
