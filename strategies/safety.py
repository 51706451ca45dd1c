"""The facts that make an identity safe in floats: proved, nothing divides by zero, overflows or loses its digits.

    identity-is-proved         SymPy finds both forms to be one polynomial, or one quotient of polynomials
    divisors-are-not-zero      every divisor of the new form, and what the form cancels, keeps away from zero
    stays-in-range             no new part overflows; the whole has the value that it had
    digits-are-kept            the new form rounds no more than verification allows for the old one (`rounding`), less
                               what earlier steps have taken; nor apart from its like in a share (`exponents`)
    underflow-is-covered       nor loses more to underflow

Ranges are about floats, for inputs that are finite and of ordinary size (`strategies.bounded`). Integers compute
exactly, and must not overflow.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from leir.analysis.exponents import Apart, set_apart
from leir.analysis.intervals import Range, relative_error, smallest_normal
from leir.analysis.polynomials import TooLarge
from leir.analysis.relative import RelativeErrors, Unbounded
from leir.analysis.rounding import Rounding
from leir.analysis.spread import spread_of
from leir.analysis.types import integer_range, is_float
from leir.analysis.underflow import lost_to_underflow
from leir.edit import expression_at, walk_expression, with_operands
from leir.printer import expression_text
from leir.syntax import Access, Binary, Expr, Place, Program, Real, Unary, operands
from strategies.arithmetic import Setting, chain_to
from strategies.base import Fact, counted, path_text
from strategies.bounded import at_least, at_most, bounded, bounds_text

NOTHING_DIVIDED = "the new form divides by nothing"
_NOTHING_NEW = "no part is new but the whole, which has the value that it had"


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write an expression: the arguments that name it, the rule in words, and what the rule asks for.

    `nonzero`: what must be finite and not zero; `finite`: what must be finite. `exact`: why no bit of the value
    changes, as a clause; empty where bits may.
    """

    arguments: Mapping[str, str]
    new: Expr
    identity: str
    nonzero: tuple[Expr, ...] = ()
    finite: tuple[Expr, ...] = ()
    exact: str = ""


def identity_is_proved(setting: Setting, form: Form) -> Fact:
    old, new = expression_text(setting.expression), expression_text(form.new)
    try:
        same = setting.algebra.same(setting.expression, form.new)
    except TooLarge as reason:
        return Fact("identity-is-proved", False, f"{old} is beyond a proof: {reason}")
    count = counted(sum(not isinstance(atom, Real) for atom in setting.algebra.atoms), "operand")
    shown = f"{old} and {new} are equal for all real values of their {count}: {form.identity}"
    return Fact("identity-is-proved", same, shown if same else f"{old} and {new} differ")


def divisors_are_not_zero(setting: Setting, form: Form) -> Fact:
    """That nothing divides by what may be zero or below the normal numbers, and that what is cancelled is finite."""
    if not is_float(setting.dtype):
        return Fact("divisors-are-not-zero", True, "integers are not divided")
    range_of = setting.range_of()
    smallest = smallest_normal(setting.dtype)
    divided = list(_divisors(form.new, setting.is_atom))
    divisors = dict.fromkeys(each for each in divided if not isinstance(each, Real)) | dict.fromkeys(form.nonzero)
    for divisor in divisors:
        found, why = range_of(divisor), ""
        if found.low < smallest and found.high > -smallest:
            why = "may be 0 or too close to it"
        elif found.nan or (found.infinite and divisor in form.nonzero):
            why = "may be NaN" if found.nan else "has no known bound"
        if why:
            text = bounds_text([divisor], range_of, setting.closer())
            return Fact("divisors-are-not-zero", False, f"{text}, and {why}")
    evidence = bounds_text(divisors, range_of, setting.closer())
    literals = "all divisors are literals other than 0" if divided or form.nonzero else NOTHING_DIVIDED
    return Fact("divisors-are-not-zero", True, evidence or literals)


def _divisors(expression: Expr, is_atom: Callable[[Expr], bool]) -> Iterator[Expr]:
    """What the arithmetic of an expression divides by."""
    if is_atom(expression):
        return
    if isinstance(expression, Binary) and expression.op == "/":
        yield expression.right
    for operand in operands(expression):
        yield from _divisors(operand, is_atom)


def stays_in_range(setting: Setting, form: Form) -> Fact:
    """That no part of the new form which the old one has not can overflow."""
    range_of = setting.range_of()
    kept = {part for _, part in walk_expression(setting.expression)}
    parts = [part for part in _arithmetic(form.new, setting.is_atom) if part not in kept and part != form.new]
    parts = [*dict.fromkeys((*form.finite, *parts))]
    if is_float(setting.dtype):
        bad = next((part for part in parts if not range_of(part).finite), None)
        evidence = bounds_text(parts if bad is None else [bad], range_of, setting.closer())
        if bad is not None:
            return Fact("stays-in-range", False, f"{evidence}, and may not be finite")
        return Fact("stays-in-range", True, evidence or _NOTHING_NEW)
    shown: list[str] = []
    for part in parts:
        low, high = _exact(part, range_of, setting.is_atom)
        least, most = integer_range(setting.dtype)
        text = f"{expression_text(part)} is in [{low}, {high}]"
        if low < least or high > most:
            return Fact("stays-in-range", False, f"{text}, and {setting.dtype} ends before")
        shown.append(text)
    return Fact("stays-in-range", True, "; ".join(shown) or _NOTHING_NEW)


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


def digits_are_kept(setting: Setting, form: Form) -> Fact:
    """That verification allows the new form; looked at for the expression, then with the arithmetic around it.

    In the exponent of one exponential of a share, only where the exponent is small, or neither form rounds.
    """
    apart = set_apart(setting.ranges(), setting.place.path, setting.place.within or ())
    if apart is not None and not apart.is_small and _rounds(setting, form.new):
        return Fact("digits-are-kept", False, why_apart(setting.program, apart, form.new))
    why = ""
    for old, new, place in _regions(setting, form.new):
        region = Setting(setting.program, place, old, None, setting.value, setting.algebra, setting.ranges())
        path = place.path
        rounding = Rounding(
            setting.algebra, region.range_of(), lambda e, path=path: spread_of(e, setting.ranges(), path)
        )
        text = expression_text(new)
        try:
            problem = rounding.why_not(old, new)
        except (TooLarge, Unbounded) as reason:
            problem = f"no bound is known: {reason}"
        if not problem:
            evidence = f"{text} rounds no more than verification allows for {expression_text(old)}"
            if isinstance(new, Access):
                evidence = f"{text} is read, which rounds nothing"
            return Fact("digits-are-kept", True, evidence + in_share(apart, setting.expression))
        why = why or f"for {text}, {problem}"
    return Fact("digits-are-kept", False, why)


def roundings_are_spare(program: Program, place: Place, new: Expr, need: float, spare: float, evidence: str) -> Fact:
    """That verification allows the roundings that a step adds; `evidence`: both numbers, in words.

    In the exponent of one exponential of a share, only where the exponent is small. Adding none takes nothing.
    """
    apart = set_apart(bounded(program), place.path, place.within or ())
    if apart is not None and not apart.is_small:
        return Fact("roundings-are-spare", False, why_apart(program, apart, new))
    part = expression_at(program, place)
    return Fact("roundings-are-spare", need <= max(spare, 0.0), evidence + in_share(apart, part))


def in_share(apart: Apart | None, part: Expr) -> str:
    """The size of a part of an exponent of a share, as evidence goes on; empty for others."""
    if apart is None:
        return ""
    text = expression_text(part)
    return f"; {text}, in the exponent of one of the exponentials in a quotient, is at most {at_most(apart.most)}"


def _rounds(setting: Setting, new: Expr) -> bool:
    """Whether either form rounds at all."""
    path = setting.place.path
    errors = RelativeErrors(setting.algebra, setting.range_of(), lambda e: spread_of(e, setting.ranges(), path))
    return any(errors.of(each)[0] > 0.0 for each in (setting.expression, new))


def why_apart(program: Program, apart: Apart, new: Expr) -> str:
    """What another rounding does to a share, in words."""
    own, other = (expression_text(expression_at(program, place)) for place in (apart.own, apart.other))
    where = f"{own} at {path_text(apart.own.path)} and {other} at {path_text(apart.other.path)}"
    size = f"up to {at_most(apart.most)}" if apart.most < math.inf else "without a known bound"
    return f"{where} meet in one quotient, and {expression_text(new)}, {size}, would round otherwise in the first alone"


def _regions(setting: Setting, new: Expr) -> Iterator[tuple[Expr, Expr, Place]]:
    """The expression before and after, then the whole arithmetic around it before and after, each with its place."""
    yield setting.expression, new, setting.place
    within = setting.place.within or ()
    chain = chain_to(setting.program, setting.place)
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


def underflow_is_covered(setting: Setting, form: Form) -> Fact:
    lost = lost_to_underflow(form.new, setting.expression, setting.algebra, setting.range_of())
    roundings = any(isinstance(e, Binary) and e.op in ("*", "/", "**") for _, e in walk_expression(setting.value))
    most = float(1 / relative_error(setting.dtype)) if roundings else 0.0
    smallest = f"the smallest positive {setting.dtype}"
    allowed = f"may lose {at_least(most)} times it" if most else "may lose nothing"
    times = "" if lost == 1 else f"{at_most(lost)} times "
    text = f"underflow loses at most {times}{smallest}, and {allowed}"
    if math.isinf(lost):
        text = f"what underflow loses has no known bound, beside {smallest}"
    if not lost:
        text = "nothing underflows that did not before"
    return Fact("underflow-is-covered", lost <= most, text)
