"""Splits the exponential of a difference in two, at a value between: exp(a-b) becomes exp(a-c)*exp(c-b).

    Before    f(exp(a-b))
    After     f(exp(a-c)*exp(c-b))

By itself this costs an exponential: it is a step on the way, and says to what. In a sum over loops that `c-b` does not
depend on, its exponential can leave the sum, which then needs `b` only afterwards: so sums relative to the maximum of a
block, or to a value that is known ahead, become sums relative to the maximum of all. Or one of the two exponentials is
computed elsewhere already. Where `a` may be -inf, and `c` with it, the first exponential is guarded.

Legal when: neither exponential overflows, nor do the two make 0*inf or 0*NaN, nor is one lost to underflow that the
other would undo: `c` lies between `a` and `b`, being a maximum of the one and below the other, and neither `a` nor `c`
is inf; or all differences are bounded. And the roundings that are added are spare at this place. Inputs are taken to be
finite and of ordinary size.

Pays when: the step that it prepares does.

Leads to: common_subexpression_elimination.

Inverse: powsimp.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from leir.analysis.definitions import definitions_of, is_ahead
from leir.analysis.intervals import Range, largest, largest_magnitude
from leir.analysis.solving import moved, term_values
from leir.analysis.spare import RESCALED, is_from_exp, spare_where_used
from leir.analysis.values import Ranges
from leir.edit import variables_of
from leir.printer import expression_text
from leir.syntax import Access, Binary, Call, DType, Equation, Expr, Path, Place, Program, Real, Select
from strategies.base import BitExact, Fact, Level, path_text
from strategies.bounded import assumed, bounded, bounded_closer
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
)

_SMALLEST_EXPONENT = {"f32": -126, "f64": -1022}  # of the smallest normal number of the types that compute
_PRODUCT = 1.0  # the rounding of a product


class ExponentialSplit(Split):
    name: ClassVar[str] = "exponential_split"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{old} at {path} depends on two things that come together in its exponent. Relative to {value}, each has an "
        "exponential of its own: this prepares {use}.",
        "To what end take two exponentials for one? It prepares {use}.",
        "{old} is the product of two exponentials, {first} and {second}: this prepares {use}.",
        "The detour by {value} costs an exponential and leads on to {use}.",
        "In the sum over {over}, {second} would be the same in all iterations, if {old} were split at "
        "{value}. So the sum could do without {end} until it is complete: this prepares {use}.",
        "{computed} is at hand already, at {at}. {old} split at {value} can use it: it prepares {use}.",
        "Neither {first} nor {second} can overflow: {bounds}. So {old} may be split at {value}, which prepares {use}.",
        "How can the equation at {path} be freed of {end}? By {value}, a value in scope: {old} is {first} "
        "times {second}, and that prepares {use}.",
        "The equation at {path} reads {old}; split at {value}, it prepares {use}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{new} stands in place of {old} in the equation at {path}.",
        "At {path}, the exponential is split in two at {value}: {equation}.",
        "{old} becomes a product. The first factor has the exponent {start}-{value}, the second {value}-{end}: {new}.",
        "The equation at {path} now reads {equation}.",
        "One call becomes two: where {old} was, there is {new}.",
        "Nests, loops and tensors stay as they are. {old}, in the equation at {path}, is written {new} from now on.",
        "Two exponentials are multiplied now, one relative to {value}, and that of {value} relative to {end}: {new}.",
        "{old} turns into {new}. The choice keeps inf from meeting inf: where {guarded}, the first exponential is 1.0.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "An exponential, a product and a subtraction more in each evaluation, for now. The results agree to rounding, "
        "not bit for bit: {bounds}.",
        "Neither factor overflows or is lost: {bounds}. The gain comes with what it prepares.",
        "The value is the same but for roundings in {dtype}, and now it is a product with {second}.",
        "No loop and no storage changes; the equation computes an exponential, a product and a subtraction more.",
        "By itself a loss: one exponential more in each evaluation. What counts is that {second} is a "
        "factor of its own now.",
        "Rounding differs from before, within what the place allows. The exponents are tame: {bounds}.",
        "By itself this saves nothing: in each evaluation it costs a call, a product and a subtraction, which what "
        "follows has to save.",
        "Each evaluation calls exp once more, in {dtype}, and bits of the results may change.",
    )

    @classmethod
    def proposals(cls, program: Program, path: Path, part: Part) -> Iterator[tuple[Expr, dict[str, str]]]:
        ends = _ends(part.expression)
        if ends is not None:
            yield from ((maximum, {}) for maximum in _maxima_of(program, path, ends[0]))
            yield from ((first, {}) for first in firsts_of_rows(program, path, ends[0]))
            for end, known in ((ends[0], _exponent), (ends[1], _turned_exponent)):
                yield from ((value, {}) for value in partners(program, path, end, known))

    def place_facts(self, part: Part) -> Iterator[Fact]:
        text, ends = expression_text(part.expression), _ends(part.expression)
        evidence = f"{text} is no exp of a difference"
        if ends is not None:
            evidence = f"the exponent of {text} is {expression_text(ends[0])} less {expression_text(ends[1])}"
        yield Fact("place-is-exp-of-a-difference", ends is not None, evidence)

    def why_no_value(self, part: Part, value: Expr) -> str:
        ends = _ends(part.expression)
        if ends is None or value in ends:
            return f"{self.value} is an end of the difference already"
        _, term = term_around(part)
        undone = Call("exp", (Binary("-", ends[1], value),))
        if undone in factors(term):
            return f"{expression_text(undone)} is a factor already, and would be multiplied by its inverse"
        return ""

    def no_use(self) -> str:
        return f"the exponential with {self.value} leaves no sum, and neither stands elsewhere"

    def bounds(self, program: Program, part: Part, value: Expr) -> Iterator[Fact]:
        use, exponents = self.use(program, part, value), _Exponents.of(program, self.path, part, value)
        yield Fact("exponents-are-bounded", exponents.safe, exponents.text)
        spare = spare_where_used(bounded(program), self.path, self.within, math.inf)
        if exponents.is_between and use and use.kind == "sum" and is_from_exp(part.equation.value):
            spare = max(spare, RESCALED)  # the largest term is exp(0)*exp(0), and exact; each other may be rescaled
        need = exponents.need
        text = expression_text(part.expression)
        evidence = f"the roundings of the split move {text} by {roundings(need)}, where {spare_text(spare)}"
        new = self.split(program, part, value)
        yield roundings_are_spare(program, Place(self.path, self.within), new, need, spare, evidence)

    def split(self, program: Program, part: Part, value: Expr) -> Expr:
        return _Exponents.of(program, self.path, part, value).product

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        part, value = self.taken(before)
        use = self.use(before, part, value)
        assert use is not None
        exponents = _Exponents.of(before, self.path, part, value)
        a, b = exponents.ends
        first, second = (expression_text(Call("exp", (Binary("-", *pair),))) for pair in ((a, value), (value, b)))
        result = {
            **self.shared_terms(after, part, use),
            "old": expression_text(part.expression),
            "first": first,
            "second": second,
            "start": expression_text(a),
            "end": expression_text(b),
            "bounds": exponents.text,
        }
        if use.kind == "sum":
            result["over"] = use.other
        else:
            result["computed"], result["at"] = use.other, path_text(use.at)
        if exponents.is_guarded:
            result["guarded"] = f"{expression_text(a)} is {self.value}"
        return result

    def use(self, program: Program, part: Part, value: Expr) -> Use | None:
        ends = _ends(part.expression)
        assert ends is not None
        a, b = ends
        second = Call("exp", (Binary("-", value, b),))
        summed = reduced_over(program, self.path)
        number, _ = term_around(part)
        left = [loop for loop in summed if is_fixed(program, self.path, second, [loop])]
        if number == 0 and left and not is_fixed(program, self.path, a, left):
            over, shown = loop_names(left), expression_text(second)
            return Use("sum", f"taking {shown} out of the sum over {over}, in which it does not change", over)
        for half in (second, Call("exp", (Binary("-", a, value),))):
            elsewhere = occurs_elsewhere(program, half, Place(self.path, self.within))
            if elsewhere is not None:
                shown = f"{expression_text(half)} being computed at {path_text(elsewhere)}"
                return Use("elsewhere", f"common_subexpression_elimination, {shown}", expression_text(half), elsewhere)
        return None


def _ends(expression: Expr) -> tuple[Expr, Expr] | None:
    """a and b of exp(a-b)."""
    match expression:
        case Call("exp", (Binary("-", left, right),)):
            return left, right
        case _:
            return None


def _exponent(expression: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """a with c of exp(a-c)."""
    ends = _ends(expression)
    return () if ends is None else (ends,)


def _turned_exponent(expression: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """b with c of exp(c-b)."""
    ends = _ends(expression)
    return () if ends is None else ((ends[1], ends[0]),)


def _maxima_of(program: Program, path: Path, term: Expr) -> Iterator[Access]:
    """The elements of finished maxima that were taken over a term, among others."""
    definitions = definitions_of(program)
    for statement in definitions.statements.values():
        node, other = statement.node, statement.path
        assert isinstance(node, Equation)
        if node.op != "max=" or not is_ahead(other, path) or definitions.sole(node.target.tensor) is None:
            continue
        shared = definitions.shared(other, path)
        known = {name: value for name, value in definitions.identity(path).items() if name in shared}
        loops = {loop.variable: loop for _, loop in statement.loops if loop.variable not in shared}
        bound = term_values(node.value, term, known, loops, definitions.frame(path))
        if bound is not None and variables_of(node.target) <= bound.keys():
            maximum = moved(node.target, bound)
            assert isinstance(maximum, Access)
            yield maximum


@dataclass(frozen=True, slots=True)
class _Exponents:
    """The two exponents, their bounds, and the product of exponentials. `dtype`: the type that they compute in.

    `start`, `middle`: the bounds of a and of c; `rests`: whether the exponents' bounds rest on the size of inputs.
    """

    ends: tuple[Expr, Expr]
    value: Expr
    first: Range
    second: Range
    start: Range
    middle: Range
    dtype: DType
    rests: bool

    @staticmethod
    def of(program: Program, path: Path, part: Part, value: Expr) -> "_Exponents":
        ends = _ends(part.expression)
        assert ends is not None
        differences = Binary("-", ends[0], value), Binary("-", value, ends[1])

        def four(found: Ranges) -> tuple[Range, ...]:
            return tuple(found.of(each, path) for each in (*differences, ends[0], value))

        first, second, start, middle = four(bounded(program))
        dtype = first.dtype
        assert dtype is not None
        rests = four(bounded_closer(program))[:2] != (first, second)
        return _Exponents(ends, value, first, second, start, middle, dtype, rests)

    @property
    def is_between(self) -> bool:
        """Whether c lies between a and b: then neither exponential exceeds 1, and each is at least the whole."""
        return self.first.high <= 0 and self.second.high <= 0

    @property
    def is_guarded(self) -> bool:
        """Whether a may be -inf: with c also -inf, a-c would be NaN where exp(a-b) is 0."""
        return self.is_between and math.isinf(self.start.low)

    @property
    def safe(self) -> bool:
        if self.is_between:  # an infinite c would make c-b NaN where exp(a-b) is 0
            return all(r.high < math.inf and not r.nan for r in (self.start, self.middle))
        low, high = self._limits()
        both = self.first.high + self.second.high
        return all(r.finite and low <= r.low and r.high <= high for r in (self.first, self.second)) and both <= high

    def _limits(self) -> tuple[float, float]:
        """Exponents whose exponentials are normal numbers, with a margin for roundings."""
        return math.log(2.0) * (_SMALLEST_EXPONENT[self.dtype] + 1), math.log(largest(self.dtype)) - 1.0

    @property
    def text(self) -> str:
        a, b = self.ends
        first, second = (expression_text(Binary("-", *pair)) for pair in ((a, self.value), (self.value, b)))
        shown = f"{assumed(self.rests)}{first} is in {self.first}, and {second} in {self.second}"
        if self.is_between and not self.safe:
            bounds = f"{expression_text(a)} is in {self.start} and {expression_text(self.value)} in {self.middle}"
            return f"{shown}; but {bounds}, so that one may be inf-inf"
        if self.is_guarded:
            return f"{shown}; {expression_text(a)} may be -inf, so the first exponential is guarded"
        return shown

    @property
    def need(self) -> float:
        """The roundings that the split adds: of a product, and, where c is not between a and b, of larger exponents.

        The second call takes what the first one left of its allowance.
        """
        return (
            _PRODUCT if self.is_between else _PRODUCT + largest_magnitude(self.first) + largest_magnitude(self.second)
        )

    @property
    def product(self) -> Expr:
        a, b = self.ends
        first: Expr = Call("exp", (Binary("-", a, self.value),))
        if self.is_guarded:
            first = Select(Binary("==", a, self.value), Real(1.0), first)
        return Binary("*", first, Call("exp", (Binary("-", self.value, b),)))
