"""What the algebraic strategies share: one place, one identity, and the facts that make it safe in floats.

An identity is applied to one arithmetic expression inside an equation's value. A strategy says which `forms` an
expression can take, each with the arguments that name it; candidates are all forms of all places, and a step looks for
the form with its own arguments. The facts that follow are the same for all:

    identity-is-proved         SymPy finds both forms to be one polynomial, or one quotient of polynomials
    divisors-are-not-zero      every divisor of the new form, and what the form cancels, keeps away from zero
    stays-in-range             no new part overflows; the whole has the value that it had
    digits-are-kept            the new form rounds no more than verification allows for the old one (`rounding`)
    underflow-is-covered       nor loses more to underflow

Ranges are about floats. Inputs of a float type are taken to be finite, and below `LARGEST_INPUT` in magnitude (f16: any
finite number); whatever is proved holds for such inputs. Integers compute exactly, and must not overflow.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from leir.analysis.algebra import Algebra, Kinds, TooLarge, whole
from leir.analysis.intervals import Range, span, tiny
from leir.analysis.intervals import relative_error as unit_roundoff
from leir.analysis.plain import is_plain
from leir.analysis.ranges import ranges
from leir.analysis.rounding import Rounding, Unbounded
from leir.analysis.spelling import same_spelling
from leir.analysis.terms import Term, is_sum, term_of, terms_of
from leir.analysis.types import Weak, computing_type, integer_range, is_float
from leir.analysis.values import Ranges, value_of
from leir.edit import dtypes, expression_at, replace_expression_at, walk, walk_expression, with_operands
from leir.printer import expression_text
from leir.remembered import remembered
from leir.syntax import (
    Access,
    Binary,
    Call,
    Cast,
    DType,
    Equation,
    Expr,
    Path,
    Place,
    Program,
    Real,
    Select,
    Unary,
    operands,
)
from strategies.base import Fact, Strategy, counted, describe_at, listed, path_text, statement_or_none

LARGEST_INPUT = 2.0**20  # of f32, bf16 and f64: far beyond what models are fed, far below where products overflow
_LARGEST_F16 = 65504.0


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write an expression: the arguments that name it, the rule in words, and what the rule asks for.

    `nonzero`: what must be finite and not zero; `finite`: what must be finite.
    """

    arguments: Mapping[str, str]
    new: Expr
    identity: str
    nonzero: tuple[Expr, ...] = ()
    finite: tuple[Expr, ...] = ()


@dataclass(slots=True)
class Setting:
    """An arithmetic expression at its place, and the algebra of its type."""

    program: Program
    place: Place
    expression: Expr
    parent: Expr | None  # the expression around, None for a whole value
    value: Expr  # of the equation
    algebra: Algebra
    _found: Ranges | None = field(default=None)

    @property
    def dtype(self) -> DType:
        return self.algebra.dtype

    def is_atom(self, expression: Expr) -> bool:
        return self.algebra.is_atom(expression)

    @property
    def is_sum(self) -> bool:
        return is_sum(self.expression, self.is_atom)

    @property
    def is_whole_sum(self) -> bool:
        """Whether the expression is a sum that is no part of a longer one."""
        return self.is_sum and (self.parent is None or not is_sum(self.parent, self.is_atom))

    @property
    def terms(self) -> tuple[Term, ...]:
        return terms_of(self.expression, self.is_atom)

    @property
    def term(self) -> Term:
        return term_of(self.expression, self.is_atom)

    def parts_of(self, expression: Expr) -> Term:
        """A part of the expression as one term."""
        return term_of(expression, self.is_atom)

    def computes_here(self, expression: Expr) -> bool:
        """Whether an expression has the type of the arithmetic at the place, and is none of literals alone."""
        return self.algebra.kinds.of(expression) == self.dtype

    def same(self, left: Expr, right: Expr) -> bool:
        """Whether two expressions are the same operand: up to commuted operands, and sums up to their writing."""
        if same_spelling(left, right):
            return True
        both_sums = is_sum(left, self.is_atom) and is_sum(right, self.is_atom)
        return both_sums and self.algebra.same(left, right)

    def ranges(self) -> Ranges:
        if self._found is None:
            self._found = bounded(self.program)
        return self._found

    def range_of(self) -> Callable[[Expr], Range]:
        """Bounds of any expression, were it evaluated at the place."""
        found = self.ranges()
        _, known = found.reached(self.place)
        return lambda expression: value_of(expression, known, found, self.place.path)


def bounded(program: Program) -> Ranges:
    """The ranges of a program for inputs that are finite and not huge."""
    return _bounded(program)


@remembered
@lru_cache(maxsize=32)
def _bounded(program: Program) -> Ranges:
    assume: dict[str, Range] = {}
    for declaration in program.inputs:
        if is_float(declaration.dtype):
            most = _LARGEST_F16 if declaration.dtype == "f16" else LARGEST_INPUT
            assume[declaration.tensor] = span(-most, most, computing_type(declaration.dtype))
    return ranges(program, assume)


def settings(program: Program) -> Iterator[Setting]:
    """Every arithmetic expression in the value of an equation, subscripts left out, in the order of the text."""
    kinds = Kinds(dtypes(program))
    for path, node in walk(program):
        if isinstance(node, Equation):
            for within, expression, parent in _computed(node.value, (1,), None):
                dtype = _computes_in(expression, kinds)
                if dtype is not None:
                    place = Place(path, within)
                    yield Setting(program, place, expression, parent, node.value, Algebra(kinds, dtype))


def _computed(expression: Expr, within: Path, parent: Expr | None) -> Iterator[tuple[Path, Expr, Expr | None]]:
    yield within, expression, parent
    if not isinstance(expression, Access):
        for number, operand in enumerate(operands(expression)):
            yield from _computed(operand, (*within, number), expression)


def _computes_in(expression: Expr, kinds: Kinds) -> DType | None:
    """The type of an expression that arithmetic can rewrite; None for a literal, a condition or an integer quotient."""
    if isinstance(expression, Access | Call | Cast | Select | Real):
        return None
    kind = kinds.of(expression)
    if isinstance(kind, Weak) or kind == "bool":
        return None
    return None if Algebra(kinds, kind).is_atom(expression) else kind


class Algebraic(Strategy):
    """A strategy that gives one expression another form. Arguments beyond the place are those of its forms."""

    path: Path
    within: Path

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        """The forms that an expression can take, in a fixed order. Raises TooLarge."""
        raise NotImplementedError

    @classmethod
    def candidates(cls, program: Program) -> "Iterator[Algebraic]":
        for setting in settings(program):
            for form in _distinct(cls, setting)[0]:
                yield cls(path=setting.place.path, within=setting.place.within or (), **form.arguments)

    @property
    def place(self) -> Place:
        return Place(self.path, self.within)

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments that name the form."""
        return {name: str(value) for name, value in self if name not in ("path", "within")}

    def setting(self, program: Program) -> Setting:
        """The expression at the step's place, which `facts_of_place` has found."""
        return _setting(program, self.place)

    def found(self, program: Program) -> tuple[Form | None, str]:
        """The form that the step asks for, or why there is none."""
        setting = self.setting(program)
        forms, why = _offered(type(self), program, self.place)
        form = next((form for form in forms if dict(form.arguments) == self.arguments), None)
        if form is not None:
            return form, form.identity
        asked = ", ".join(f"{name} {value!r}" for name, value in self.arguments.items())
        offered = listed([", ".join(map(repr, form.arguments.values())) for form in forms]) if forms else "none"
        return None, why or f"{expression_text(setting.expression)} has no such form with {asked}; it has {offered}"

    def form(self, program: Program) -> Form:
        form, why = self.found(program)
        assert form is not None, why
        return form

    def facts_of_place(self, program: Program) -> Iterator[Fact]:
        node = statement_or_none(program, self.path)
        yield Fact("path-is-an-equation", isinstance(node, Equation), describe_at(program, self.path))
        why = _why_not_arithmetic(program, self.place)
        shown = why or f"{expression_text(expression_at(program, self.place))} computes"
        yield Fact("place-is-arithmetic", not why, shown)

    def facts_of_form(self, program: Program) -> Iterator[Fact]:
        """What must hold of any form: it is the same, and safe in floats."""
        setting, form = self.setting(program), self.form(program)
        yield _proved(setting, form)
        yield _not_zero(setting, form)
        yield _in_range(setting, form)
        if is_float(setting.dtype):
            yield _digits(setting, form)
            yield _underflow(setting, form)

    def rewrite(self, program: Program) -> Program:
        return replace_expression_at(program, self.place, self.form(program).new)

    def is_bit_exact(self, program: Program) -> bool:
        return not is_float(self.setting(program).dtype)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        del after
        setting, form = self.setting(before), self.form(before)
        old, new = operations(setting.expression), operations(form.new)
        target = setting.program
        result = {
            "path": path_text(self.path),
            "old": expression_text(setting.expression),
            "new": expression_text(form.new),
            "identity": form.identity,
            "dtype": setting.dtype,
            "operations_before": counted(old, "operation"),
            "operations_after": counted(new, "operation"),
            **form.arguments,
        }
        if new < old:
            result["saved"] = counted(old - new, "operation")
        if new > old:
            result["added"] = counted(new - old, "operation")
        divisions = divisions_of(setting.expression), divisions_of(form.new)
        if divisions[1] < divisions[0]:
            result["divisions_saved"] = counted(divisions[0] - divisions[1], "division")
        del target
        return result


def operations(expression: Expr) -> int:
    """How many operations and calls an expression computes, subscripts left out."""
    if isinstance(expression, Access):
        return 0
    own = isinstance(expression, Binary | Call | Unary)
    return own + sum(map(operations, operands(expression)))


def divisions_of(expression: Expr) -> int:
    if isinstance(expression, Access):
        return 0
    own = isinstance(expression, Binary) and expression.op == "/"
    return own + sum(map(divisions_of, operands(expression)))


def power_of(factor: Expr) -> tuple[Expr, int]:
    """A factor as a base and a whole power."""
    if isinstance(factor, Binary) and factor.op == "**":
        power = whole(factor.right)
        if power is not None and power >= 2:
            return factor.left, power
    return factor, 1


def power_in(factors: Iterable[Expr], base: Expr, setting: Setting) -> int:
    """How often a base is a factor, powers counted."""
    return sum(power for own, power in map(power_of, factors) if setting.same(own, base))


def without(factors: Iterable[Expr], base: Expr, count: int, setting: Setting) -> tuple[Expr, ...]:
    """The factors less `count` times a base."""
    result: list[Expr] = []
    for factor in factors:
        own, power = power_of(factor)
        if count == 0 or not setting.same(own, base):
            result.append(factor)
            continue
        taken = min(count, power)
        count -= taken
        if power - taken == 1:
            result.append(own)
        elif power > taken:
            result.append(Binary("**", own, Real(float(power - taken))))
    return tuple(result)


def bases(factors: Iterable[Expr], setting: Setting) -> list[Expr]:
    """The different bases among factors, in their order."""
    found: list[Expr] = []
    for factor in factors:
        base, _ = power_of(factor)
        if not any(setting.same(base, other) for other in found):
            found.append(base)
    return found


def _distinct(cls: type[Algebraic], setting: Setting) -> tuple[list[Form], str]:
    """The forms that an expression can take, the first of each name, and why it was not looked at further."""
    found: dict[tuple[str, ...], Form] = {}
    try:
        for form in cls.forms(setting):
            if form.new != setting.expression:
                found.setdefault(tuple(form.arguments.values()), form)
    except TooLarge as reason:
        return list(found.values()), f"{expression_text(setting.expression)[:80]} is not looked into: {reason}"
    return list(found.values()), ""


@lru_cache(maxsize=128)
def _offered(cls: type[Algebraic], program: Program, place: Place) -> tuple[list[Form], str]:
    """`_distinct` at a place; a step asks several times."""
    return _distinct(cls, _setting(program, place))


def _setting(program: Program, place: Place) -> Setting:
    chain = _chain(program, place)
    kinds = Kinds(dtypes(program))
    dtype = _computes_in(chain[-1], kinds)
    assert dtype is not None
    around = chain[-2] if len(chain) > 1 else None
    return Setting(program, place, chain[-1], around, chain[0], Algebra(kinds, dtype))


def _chain(program: Program, place: Place) -> list[Expr]:
    """The expressions from an equation's value down to the one at a place; empty where there is none."""
    within = place.within or ()
    if within[:1] != (1,):
        return []
    try:
        return [expression_at(program, Place(place.path, within[:n])) for n in range(1, len(within) + 1)]
    except LookupError:
        return []


def _why_not_arithmetic(program: Program, place: Place) -> str:
    """Why nothing that arithmetic can rewrite stands at a place; empty if something does."""
    chain = _chain(program, place)
    if not chain:
        return f"no part of a value stands at {path_text(place.path)}, {path_text(place.within or ())}"
    text = expression_text(chain[-1])
    if any(isinstance(outer, Access) for outer in chain[:-1]):
        return f"{text} is part of a subscript"
    if _computes_in(chain[-1], Kinds(dtypes(program))) is None:
        return f"{text} is no sum, product or quotient"
    return ""


def _proved(setting: Setting, form: Form) -> Fact:
    old, new = expression_text(setting.expression), expression_text(form.new)
    try:
        same = setting.algebra.same(setting.expression, form.new)
    except TooLarge as reason:
        return Fact("identity-is-proved", False, f"{old} is beyond a proof: {reason}")
    count = counted(len(setting.algebra.atoms), "operand")
    shown = f"{old} and {new} are equal for all real values of their {count}: {form.identity}"
    return Fact("identity-is-proved", same, shown if same else f"{old} and {new} differ")


def _not_zero(setting: Setting, form: Form) -> Fact:
    """That nothing divides by what may be zero or below the normal numbers, and that what is cancelled is finite."""
    if not is_float(setting.dtype):
        return Fact("divisors-are-not-zero", True, "integers are not divided")
    range_of = setting.range_of()
    smallest = tiny(setting.dtype) / float(unit_roundoff(setting.dtype)) / 2
    divisors = dict.fromkeys(_divisors(form.new, setting.is_atom)) | dict.fromkeys(form.nonzero)
    shown: list[str] = []
    for divisor in divisors:
        found = range_of(divisor)
        text = f"{expression_text(divisor)} is in {found}"
        if found.nan or (found.infinite and divisor in form.nonzero):
            return Fact("divisors-are-not-zero", False, f"{text}, which is not known to be finite")
        if found.low < smallest and found.high > -smallest:
            return Fact("divisors-are-not-zero", False, f"{text}, and may be 0 or too close to it")
        shown.append(text)
    return Fact("divisors-are-not-zero", True, "; ".join(shown) or "nothing divides")


def _divisors(expression: Expr, is_atom: Callable[[Expr], bool]) -> Iterator[Expr]:
    """What the arithmetic of an expression divides by, literals left out."""
    if is_atom(expression):
        return
    if isinstance(expression, Binary) and expression.op == "/" and not isinstance(expression.right, Real):
        yield expression.right
    for operand in operands(expression):
        yield from _divisors(operand, is_atom)


def _in_range(setting: Setting, form: Form) -> Fact:
    """That no part of the new form which the old one has not can overflow."""
    range_of = setting.range_of()
    kept = {part for _, part in walk_expression(setting.expression)}
    parts = [part for part in _arithmetic(form.new, setting.is_atom) if part not in kept and part != form.new]
    parts = [*dict.fromkeys((*form.finite, *parts))]
    shown: list[str] = []
    for part in parts:
        if is_float(setting.dtype):
            found = range_of(part)
            bad, text = not found.finite, f"{expression_text(part)} is in {found}"
        else:
            low, high = _exact(part, range_of, setting.is_atom)
            least, most = integer_range(setting.dtype)
            bad, text = low < least or high > most, f"{expression_text(part)} is in [{low}, {high}]"
        if bad:
            where = f"and {setting.dtype} ends before" if not is_float(setting.dtype) else "and may not be finite"
            return Fact("stays-in-range", False, f"{text}, {where}")
        shown.append(text)
    evidence = "; ".join(shown) or "no part is new but the whole, which has the value that it had"
    return Fact("stays-in-range", True, evidence)


def _arithmetic(expression: Expr, is_atom: Callable[[Expr], bool]) -> Iterator[Expr]:
    """The operations of an expression, itself first, atoms left out."""
    if is_atom(expression):
        return
    yield expression
    for operand in operands(expression):
        yield from _arithmetic(operand, is_atom)


def _exact(expression: Expr, range_of: Callable[[Expr], Range], is_atom: Callable[[Expr], bool]) -> tuple[int, int]:
    """Bounds of an integer expression were its type without end."""
    if is_atom(expression):
        found = range_of(expression)
        return int(found.low), int(found.high)
    ends = [_exact(operand, range_of, is_atom) for operand in operands(expression)]
    match expression, ends:
        case Unary(), [(low, high)]:
            return -high, -low
        case Binary("+"), [a, b]:
            return a[0] + b[0], a[1] + b[1]
        case Binary("-"), [a, b]:
            return a[0] - b[1], a[1] - b[0]
        case _, [a, b]:
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case _:
            raise AssertionError(f"{expression} is no integer arithmetic")


def _digits(setting: Setting, form: Form) -> Fact:
    """That verification allows the new form; looked at for the expression, then with the arithmetic around it."""
    why = ""
    for old, new, place in _regions(setting, form.new):
        region = Setting(setting.program, place, old, None, setting.value, setting.algebra, setting.ranges())
        path = place.path
        rounding = Rounding(
            setting.algebra, region.range_of(), lambda e, path=path: is_plain(e, setting.ranges(), path)
        )
        text = expression_text(new)
        try:
            problem = rounding.why_not(old, new)
        except (TooLarge, Unbounded) as reason:
            problem = f"no bound is known: {reason}"
        if not problem:
            evidence = f"{text} rounds no more than verification allows for {expression_text(old)}"
            return Fact("digits-are-kept", True, evidence)
        why = why or f"{text}: {problem}"
    return Fact("digits-are-kept", False, why)


def _regions(setting: Setting, new: Expr) -> Iterator[tuple[Expr, Expr, Place]]:
    """The expression before and after, then the whole arithmetic around it before and after, each with its place."""
    yield setting.expression, new, setting.place
    within = setting.place.within or ()
    chain = _chain(setting.program, setting.place)
    length = len(within)
    while length > 1 and not setting.is_atom(chain[length - 2]):
        length -= 1
    if length < len(within):
        replaced = new
        for number in range(len(within) - 1, length - 1, -1):
            below = list(operands(chain[number - 1]))
            below[within[number]] = replaced
            replaced = with_operands(chain[number - 1], tuple(below))
        yield chain[length - 1], replaced, Place(setting.place.path, within[:length])


def _underflow(setting: Setting, form: Form) -> Fact:
    rounding = Rounding(setting.algebra, setting.range_of(), lambda _: True)
    lost = rounding.lost_to_underflow(form.new, setting.expression)
    roundings = any(isinstance(e, Binary) and e.op in ("*", "/", "**") for _, e in walk_expression(setting.value))
    most = float(1 / unit_roundoff(setting.dtype)) if roundings else 0.0
    text = f"at most {lost:.3g} of the smallest numbers of {setting.dtype} are lost, of {most:.3g} that are allowed"
    return Fact("underflow-is-covered", lost <= most, text)
