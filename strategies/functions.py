"""What powsimp and logsimp share with their inverses: identities of exponentials, roots, powers and logarithms.

An identity is applied to one expression in an equation's value, where all that it changes computes in the expression's
type. The facts are about floats: what the identity needs positive is proved positive; every exponential, power, product
and quotient that it has, or had, is proved finite and no smaller than the normal numbers, so that nothing overflows or
is lost to underflow; and the roundings that it adds are spare (`leir.analysis.spare`: what verification allows for the
old form, and the old form does not use). Inputs are taken to be finite and of ordinary size.

Roundings are counted in units u of the type's roundoff: a function takes 4 at most, a product, quotient or root one.
An exponent of size s is rounded too, which the exponential shows as s u. A logarithm shows a relative error of its
argument as an absolute one of its own.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from leir.analysis.intervals import Range, smallest_normal
from leir.analysis.spare import spare_where_formed, spare_where_used
from leir.analysis.terms import Term, term_of, terms_of
from leir.analysis.types import Kinds, Weak
from leir.analysis.values import Ranges
from leir.edit import replace_expression_at, subexpressions
from leir.printer import expression_text
from leir.remembered import remembered
from leir.syntax import Access, Binary, Call, Expr, Path, Place, Program, Real, Unary
from strategies.arithmetic import kinds_of
from strategies.base import Fact, Strategy, listed, ordered, path_text
from strategies.bounded import bounded, bounded_closer, bounds_text
from strategies.gains import calls, gains
from strategies.openings import an_equation
from strategies.safety import roundings_are_spare
from strategies.splits import Part, divisors, factors, part_at, parts, roundings, spare_text

CALL, STEP = 4.0, 1.0  # roundings of a function, and of a product, quotient or root
_OF_TWO = ("sum", "difference", "product", "quotient")  # what identities take apart, or join, end in these words
_OF_FACTORS = ("exp-of-sum", "root-of-product")
_SAID_OF_ANY_SIGN = ("arguments-are-positive", "roundings-are-spare", "stays-in-range")  # facts, the decisive one last
_SAID = ("roundings-are-spare", "stays-in-range", "arguments-are-positive")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write an expression. `identity`: its name; `of`, `other`: the operands that it is about.

    `positive`: what must be; `normal`: what must be finite and no smaller than the normal numbers. `need`: the
    roundings that it adds; `spare`: those that it may, of its own; `in_place`: whether what is spare around counts too.
    """

    identity: str
    of: Expr
    other: Expr | None
    new: Expr
    positive: tuple[Expr, ...] = ()
    normal: tuple[Expr, ...] = ()
    need: float = 0.0
    spare: float = 0.0
    in_place: bool = True

    @property
    def arguments(self) -> tuple[str, str, str]:
        return self.identity, expression_text(self.of), "" if self.other is None else expression_text(self.other)


@dataclass(slots=True)
class View:
    """A part of an equation's value, and what is known where it stands."""

    program: Program
    path: Path
    part: Part
    kinds: Kinds = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = kinds_of(self.program)

    @property
    def found(self) -> Ranges:
        return bounded(self.program)  # where a form asks for bounds: few do

    @property
    def expression(self) -> Expr:
        return self.part.expression

    def is_atom(self, expression: Expr) -> bool:
        """Whether arithmetic does not look into an expression: it is none, or computes in another type."""
        arithmetic = isinstance(expression, Unary | Binary) and expression.op in ("-", "+", "*", "/")
        return not arithmetic or self.kinds.of(expression) != self.part.dtype

    def range_of(self, expression: Expr) -> Range:
        return self.found.of(expression, self.path)

    def closer(self, expression: Expr) -> Range:
        """The range for smaller inputs (`bounded_closer`)."""
        return bounded_closer(self.program).of(expression, self.path)

    def formed(self, expression: Expr) -> float:
        return spare_where_formed(expression, self.found, self.path)

    def is_whole(self, ops: tuple[str, ...]) -> bool:
        """Whether the expression is an operation of these that is no part of a longer one."""
        own, parent = self.expression, self.part.parent
        inside = isinstance(parent, Binary) and parent.op in ops and not self.is_atom(parent)
        return isinstance(own, Binary) and own.op in ops and not self.is_atom(own) and not inside

    def keeps_type(self, new: Expr) -> bool:
        """Whether all that another form computes anew, or no longer, computes in the part's type, as roundings do."""
        before, after = (dict.fromkeys(subexpressions(each)) for each in (self.expression, new))
        changed = [each for each in (*before, *after) if each not in before or each not in after]
        kinds = [self.kinds.of(each) for each in (new, *changed)]
        return all(isinstance(kind, Weak) or kind == self.part.dtype for kind in kinds)

    @property
    def term(self) -> Term:
        return term_of(self.expression, self.is_atom)

    @property
    def terms(self) -> tuple[Term, ...]:
        return terms_of(self.expression, self.is_atom)


def log_size(bounds: Range) -> tuple[float, float]:
    """The least and the largest magnitude of the logarithm of positive values."""
    if bounds.low <= 0 or not bounds.finite:
        return 0.0, math.inf
    low, high = math.log(bounds.low), math.log(bounds.high)
    return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def without(items: Sequence[Expr], *numbers: int) -> list[Expr]:
    return [item for number, item in enumerate(items) if number not in numbers]


class OfFunctions(Strategy):
    """A strategy that gives one expression another form by an identity of functions."""

    path: Path
    within: Path
    identity: str
    of: str
    other: str

    @classmethod
    def forms(cls, view: View) -> Iterator[Form]:
        """The forms that an expression can take, in a fixed order."""
        raise NotImplementedError

    @property
    def operands(self) -> tuple[str, ...]:
        """The expressions that the step is about, as its arguments name them."""
        return self.of, self.other

    @classmethod
    def candidates(cls, program: Program) -> "Iterator[OfFunctions]":
        yield from cls.candidates_at(program)

    @classmethod
    def candidates_at(cls, program: Program, at: Path | None = None) -> "Iterator[OfFunctions]":
        """The candidates in one equation, or in all."""
        for path, part in _calling(program):
            if at not in (None, path):
                continue
            for identity, of, other in _distinct(cls, View(program, path, part)):
                yield cls(path=path, within=part.within, identity=identity, of=of, other=other)

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from an_equation(program, self.path)
        part, why = part_at(program, self.path, self.within)
        yield Fact("place-is-a-float", part is not None, why)
        assert part is not None
        forms = _distinct(type(self), View(program, self.path, part))
        form, text = forms.get((self.identity, self.of, self.other)), expression_text(part.expression)
        offered = listed(", ".join(filter(None, key)) for key in forms) if forms else "none"
        evidence = f"{text} has no form {self.identity} of {self.of!r} and {self.other!r}: it has {offered}"
        if form is not None:
            evidence = f"{text} is {expression_text(form.new)} for real numbers: {self.identity}"
        yield Fact("identity-applies", form is not None, evidence)
        assert form is not None
        view = View(program, self.path, part)
        yield from ordered(self._guards(view, form), _SAID if form.positive else _SAID_OF_ANY_SIGN)

    def _guards(self, view: View, form: Form) -> Iterator[Fact]:
        yield _positive(view, form)
        yield _normal(view, form)
        spare, evidence = self._roundings(view, form)
        place = Place(self.path, self.within)
        yield roundings_are_spare(view.program, place, form.new, form.need, spare, evidence)

    def _roundings(self, view: View, form: Form) -> tuple[float, str]:
        """What is spare where the step is taken, and that no more is added, in words."""
        around = spare_where_used(view.found, self.path, self.within, math.inf) if form.in_place else 0.0
        spare, text = form.spare + around, expression_text(form.new)
        if isinstance(form.new, Access):
            return spare, f"{text} is read, which rounds nothing"
        if form.need <= 0:
            return spare, f"{text} rounds no more than is allowed for {expression_text(view.expression)}"
        return spare, f"{text} adds {roundings(form.need)}, where {spare_text(spare)}"

    def rewrite(self, program: Program) -> Program:
        return replace_expression_at(program, Place(self.path, self.within), self._form(program).new)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        del after
        part, _ = part_at(before, self.path, self.within)
        assert part is not None
        form, view = self._form(before), View(before, self.path, part)
        result = {
            "path": path_text(self.path),
            "old": expression_text(part.expression),
            "new": expression_text(form.new),
            "identity": form.identity,
            "of": self.of,
            "how": form.identity,
            "roundings": self._roundings(view, form)[1],
            "dtype": part.dtype,
            **gains(before, self.path, self.within, form.new),
        }
        if form.identity == "exp-of-negative":
            result["negated"] = self.of
        elif form.identity.endswith(_OF_TWO):
            result["part"] = self.of
        if self.other:
            result["other"] = self.other
            above = [*map(expression_text, factors(part.expression))]
            if form.identity in _OF_FACTORS and self.of in above and self.other in above:
                result["partner"] = self.other
            nested = [*map(expression_text, _divisors_of_divisors(part.expression))]
            inner = next((each for each in (self.of, self.other) if each in nested and each not in above), None)
            if inner is not None:
                result["how"] += f", {inner} being a factor of the whole, since it divides a divisor"
        bounds = bounds_text(dict.fromkeys((*form.positive, *form.normal)), view.range_of, view.closer)
        return {**result, "bounds": bounds} if bounds else result

    def _form(self, program: Program) -> Form:
        part, _ = part_at(program, self.path, self.within)
        assert part is not None
        return _distinct(type(self), View(program, self.path, part))[self.identity, self.of, self.other]


@remembered
def _calling(program: Program) -> tuple[tuple[Path, Part], ...]:
    """The parts of a program's values that call a function."""
    return tuple((path, part) for path, part in parts(program) if calls(part.expression))


def _distinct(cls: type[OfFunctions], view: View) -> dict[tuple[str, str, str], Form]:
    found: dict[tuple[str, str, str], Form] = {}
    for form in cls.forms(view):
        if view.keeps_type(form.new):
            found.setdefault(form.arguments, form)
    return found


def _positive(view: View, form: Form) -> Fact:
    for expression in form.positive:
        bounds = view.range_of(expression)
        if bounds.nan or bounds.low <= 0:
            text = bounds_text([expression], view.range_of, view.closer)
            return Fact("arguments-are-positive", False, f"{text}, and may not be positive")
    none = "no argument has to be positive, as the identity holds for any sign"
    return Fact("arguments-are-positive", True, bounds_text(form.positive, view.range_of, view.closer) or none)


def _normal(view: View, form: Form) -> Fact:
    """That nothing overflows, and nothing is lost to underflow: smallest normal number or more."""
    smallest = smallest_normal(view.part.dtype)
    for expression in form.normal:
        bounds, why = view.range_of(expression), ""
        if not bounds.finite:
            why = "may not be finite"
        elif bounds.low < smallest and bounds.high > -smallest:
            why = "may be lost to underflow"
        if why:
            text = bounds_text([expression], view.range_of, view.closer)
            return Fact("stays-in-range", False, f"{text}, and {why}")
    none = "no part is new that could overflow or underflow"
    return Fact("stays-in-range", True, bounds_text(form.normal, view.range_of, view.closer) or none)


def _divisors_of_divisors(expression: Expr) -> Iterator[Expr]:
    """The factors that a product owes to a divisor that is a quotient itself: c of a/(b/c)."""
    match expression:
        case Binary("*", left, right):
            yield from _divisors_of_divisors(left)
            yield from _divisors_of_divisors(right)
        case Binary("/", left, right):
            yield from _divisors_of_divisors(left)
            for divisor in divisors(right):
                yield from factors(divisor)
        case Unary("-", operand):
            yield from _divisors_of_divisors(operand)
        case _:
            pass


def literal(value: float) -> Expr:
    return Real(value) if value >= 0 else Unary("-", Real(-value))


def power(expression: Expr) -> tuple[Expr, float] | None:
    """Base and exponent of a power with a literal exponent that is no whole number from 2 on; of a root, 0.5."""
    match expression:
        case Binary("**", base, Real(exponent)):
            return base, exponent
        case Binary("**", base, Unary("-", Real(exponent))):
            return base, -exponent
        case Call("sqrt", (base,)):
            return base, 0.5
        case _:
            return None
