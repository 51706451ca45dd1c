"""Adds and takes away a value in scope: a part of an expression becomes its difference from the value, plus the value.

    Before    f(x)
    After     f((x-y)+y)

By itself this saves nothing: it is a step on the way, and says to what. `x` is an exponent, and `exp(y)` does not
change in the loops that are summed over; or `x-y` is computed elsewhere already.

Legal when: `y` is no term there already; both are finite, and so is their difference; the difference is not so much
larger than `x` that digits are lost; and the roundings that are added are spare at this place. Inputs are taken to be
finite and of ordinary size.

Pays when: the step that it prepares does.

Leads to: expand_powsimp, common_subexpression_elimination.

Inverse: cancellation.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from leir.analysis.intervals import Range, largest_magnitude, least_magnitude
from leir.analysis.spare import spare_where_formed, spare_where_used
from leir.analysis.values import Ranges
from leir.printer import expression_text
from leir.syntax import Binary, Call, Expr, Path, Place, Program, Unary
from strategies.base import BitExact, Fact, Level, listed, path_text
from strategies.bounded import assumed, at_most, bounded, bounded_closer
from strategies.elsewhere import occurs_elsewhere, partners
from strategies.safety import roundings_are_spare
from strategies.splits import (
    Part,
    Split,
    Use,
    factors,
    firsts_of_rows,
    is_fixed,
    loop_names,
    reduced_over,
    roundings,
    spare_text,
    term_around,
    terms_around,
)


class AdditiveSplit(Split):
    name: ClassVar[str] = "additive_split"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{part} in the equation at {path} does not show {value}. Taken away and added again, {value} stands there: "
        "it prepares {use}.",
        "To what end take {value} from {part} and give it back? It prepares {use}.",
        "{value} can be read at {path} as it stands, and {part} split by it prepares {use}.",
        "Nothing is gained yet by writing {part} as a sum of {value} and a rest, but it prepares {use}.",
        "In the exponent, {exponent} changes from term to term, and {value} does not. Their difference and "
        "{value} can become two factors: this prepares {use}.",
        "{computed} is at hand already, at {at}. Splitting {part} by {value} lets the equation at {path} use "
        "it: it prepares {use}.",
        "{exponent} is {value} and a rest, and the exponential of a sum is a product: that prepares {use}.",
        "{computed} is at hand at {at}: with {value} added to it, the equation at {path} has {part}. The split "
        "prepares {use}.",
        "The equation at {path} reads {part}; split by {value}, it prepares {use}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{new} stands in place of {part} in the equation at {path}.",
        "At {path}, {value} is taken from {part} and added again: {equation}.",
        "{part} becomes the sum of {difference} and {value}. Nothing else changes in the equation at {path}.",
        "The equation at {path} now reads {equation}: {value} comes in twice more, once with each sign.",
        "One expression grows: where {part} was, there is {new}.",
        "The program keeps its nests and its tensors. In the equation at {path}, {part} is now written {new}.",
        "Take {value} away, then add it: {part} turns into {new} at {path}.",
        "{equation} replaces the equation at {path}, {part} being split in {difference} and {value}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Two operations more in each evaluation, for now. The results agree to rounding, not bit for bit: {bounded}.",
        "No more digits are lost by it than verification allows: {bounded}. The gain comes with what it prepares.",
        "The value is the same but for two roundings in {dtype}, and now it shows {value}.",
        "No loop and no storage changes; the equation computes a difference and a sum more. "
        "Rounding stays harmless: {bounded}.",
        "By itself a loss: a subtraction and an addition in each evaluation. What counts is that {value} stands there.",
        "Rounding differs from before, within what the place allows: {bounded}.",
        "By itself this saves nothing: it costs two operations in each evaluation, which what follows has to save.",
        "Each evaluation rounds twice more, in {dtype}, and bits of the results may change.",
    )

    @classmethod
    def proposals(cls, program: Program, path: Path, part: Part) -> Iterator[tuple[Expr, dict[str, str]]]:
        if _exponent_of(part) is not None:
            yield from ((value, {}) for value in firsts_of_rows(program, path, part.expression))
        yield from ((value, {}) for value in partners(program, path, part.expression, _difference))

    def why_no_value(self, part: Part, value: Expr) -> str:
        terms = terms_around(part)
        if value in terms:
            shown = listed(dict.fromkeys(map(expression_text, terms)))
            return f"{self.value} is a term there already: the terms are {shown}"
        exponent = _exponent_of(part)
        if exponent is None:
            return ""
        _, product = term_around(replace(part, chain=part.chain[:exponent]))
        undone = Call("exp", (Unary("-", value),))
        shown = f"{expression_text(undone)} is a factor already, and would be multiplied by its inverse"
        return shown if undone in factors(product) else ""

    def no_use(self) -> str:
        return f"{self.value} leaves no sum as an exponential, and no difference with it stands elsewhere"

    def bounds(self, program: Program, part: Part, value: Expr) -> Iterator[Fact]:
        sizes = _Sizes.of(program, self.path, part, value)
        yield Fact("values-are-finite", sizes.finite, sizes.text)
        ratio, in_exponent = sizes.ratio, _exponent_of(part) is not None
        evidence = sizes.limit(in_exponent=in_exponent)
        if math.isinf(ratio) and not in_exponent:
            evidence = f"{sizes.part_text} may be 0, or far smaller than {sizes.difference_text}"
        yield Fact("cancellation-is-bounded", in_exponent or ratio < math.inf, evidence)
        need, spare = sizes.need(program, self.path, part)
        moved = "the exponent" if in_exponent else sizes.part_text
        evidence = f"the roundings of the split move {moved} by {roundings(need)}, where {spare_text(spare)}"
        new = self.split(program, part, value)
        yield roundings_are_spare(program, Place(self.path, self.within), new, need, spare, evidence)

    def split(self, program: Program, part: Part, value: Expr) -> Expr:  # noqa: ARG002 (one of the three needs it)
        return Binary("+", Binary("-", part.expression, value), value)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        part, value = self.taken(before)
        use = self.use(before, part, value)
        assert use is not None
        sizes = _Sizes.of(before, self.path, part, value)
        result = {
            **self.shared_terms(after, part, use),
            "part": sizes.part_text,
            "difference": sizes.difference_text,
            "bounded": sizes.limit(in_exponent=_exponent_of(part) is not None),
        }
        if use.kind == "exponent":
            result["exponent"] = sizes.part_text
        else:
            result["computed"], result["at"] = sizes.difference_text, path_text(use.at)
        return result

    def use(self, program: Program, part: Part, value: Expr) -> Use | None:
        text, own = self.value, expression_text(part.expression)
        exponent = _exponent_of(part)
        summed = reduced_over(program, self.path)
        fixed, own_fixed = (is_fixed(program, self.path, each, summed) for each in (value, part.expression))
        if exponent is not None and summed and fixed and not own_fixed:
            over = loop_names(summed)
            what = f"expand_powsimp, exp({text}) being the same in all iterations of {over}"
            return Use("exponent", what, next="expand_powsimp", about=text)
        elsewhere = occurs_elsewhere(program, Binary("-", part.expression, value), Place(self.path, self.within))
        if elsewhere is not None:
            what = f"common_subexpression_elimination, {own}-{text} being computed at {path_text(elsewhere)}"
            return Use("difference", what, at=elsewhere)
        return None


def _difference(expression: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """a and b of a-b."""
    match expression:
        case Binary("-", left, right):
            return ((left, right),)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bounds of the part, of the value, and of their difference, at the place.

    `rests`: whether they rest on the size of inputs.
    """

    part: Range
    value: Range
    difference: Range
    part_text: str
    difference_text: str
    formed: float
    rests: bool

    @staticmethod
    def of(program: Program, path: Path, part: Part, value: Expr) -> "_Sizes":
        found, minus = bounded(program), Binary("-", part.expression, value)

        def three(found: Ranges) -> tuple[Range, Range, Range]:
            return found.at(Place(path, part.within)), found.of(value, path), found.of(minus, path)

        formed = spare_where_formed(part.expression, found, path)
        texts = expression_text(part.expression), expression_text(minus)
        return _Sizes(*three(found), *texts, formed, three(found) != three(bounded_closer(program)))

    @property
    def finite(self) -> bool:
        return self.part.finite and self.value.finite and self.difference.finite

    @property
    def text(self) -> str:
        shown = f"{self.part_text} is in {self.part}, the value in {self.value}, their difference in {self.difference}"
        return assumed(self.rests) + shown

    def limit(self, *, in_exponent: bool) -> str:
        """How large the difference is: in an exponent by itself, else beside the part."""
        text = f"{self.difference_text} is at most {at_most(self.ratio)} times as large as {self.part_text}"
        if in_exponent:
            text = f"{self.difference_text}, in an exponent, is at most {at_most(self.most)} in magnitude"
        return assumed(self.rests) + text

    @property
    def most(self) -> float:
        return largest_magnitude(self.difference)

    @property
    def ratio(self) -> float:
        """How much larger the difference can be than the part."""
        least = least_magnitude(self.part)
        if least == 0:
            return math.inf
        same_sign = (self.part.low > 0 and self.value.low >= 0) or (self.part.high < 0 and self.value.high <= 0)
        if same_sign and largest_magnitude(self.value) <= 2 * least:
            return 1.0
        return self.most / least

    def need(self, program: Program, path: Path, part: Part) -> tuple[float, float]:
        """The roundings that the split adds, and those that are spare: relative to the part, or to exp of it."""
        outer = _exponent_of(part)
        if outer is not None:
            used = spare_where_used(bounded(program), path, part.within[:outer], math.inf)
            return self.most + largest_magnitude(self.part), used + 4.0
        return self.ratio + 1.0, self.formed + spare_where_used(
            bounded(program), path, part.within, largest_magnitude(self.part)
        )


def _exponent_of(part: Part) -> int | None:
    """The length of the place of the exp whose exponent the part is a positive term of, and no sum itself."""
    if isinstance(part.expression, Binary) and part.expression.op in ("+", "-"):
        return None
    for number in range(len(part.chain) - 2, -1, -1):
        outer, inner = part.chain[number], part.chain[number + 1]
        match outer:
            case Call("exp"):
                return number + 1
            case Binary("+"):
                pass
            case Binary("-", left) if left is inner:
                pass
            case _:
                return None
    return None
