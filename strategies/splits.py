"""What the three splits share: a place in an equation, a value in scope, and what splitting by it is good for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from leir.analysis.box import as_expression, as_sum
from leir.analysis.types import Weak, is_float
from leir.edit import (
    accesses,
    dtypes,
    expression_at,
    loops_around,
    replace_expression_at,
    statement_at,
    subexpressions,
    tensors_written,
    variables_of,
    walk,
)
from leir.names import substitute_in
from leir.printer import equation_text, expression_text
from leir.remembered import remembered
from leir.syntax import (
    Access,
    Binary,
    DType,
    Equation,
    Expr,
    Loop,
    Path,
    Place,
    Program,
    Unary,
    integer,
    operands,
    reads,
)
from strategies.arithmetic import kinds_of
from strategies.base import Fact, Refused, Strategy, listed, ordered, path_text
from strategies.bounded import at_least, at_most
from strategies.openings import an_equation

_SAID = (  # the facts of the values as sentences give them, which spare the first before the last
    "next-step-is-legal",
    "values-are-finite",
    "underflow-is-harmless",
    "roundings-are-spare",
    "cancellation-is-bounded",
    "nothing-overflows",
    "exponents-are-bounded",
    "value-is-not-zero",
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an equation's value, with the expressions around it, from the value down; `dtype` is its type."""

    equation: Equation
    chain: tuple[Expr, ...]
    within: Path
    dtype: DType

    @property
    def expression(self) -> Expr:
        return self.chain[-1]

    @property
    def parent(self) -> Expr | None:
        return self.chain[-2] if len(self.chain) > 1 else None


@dataclass(frozen=True, slots=True)
class Use:
    """What a split is good for. `kind`: which of the uses; `what`: what can follow, and why.

    `other`: the term, loops or expression that the use is about; `at`: where that is computed already. `next`: the
    strategy of a step that must be legal then, about the expression `about`; empty where no one step does it.
    """

    kind: str
    what: str
    other: str = ""
    at: Path = ()
    next: str = ""
    about: str = ""


class Split(Strategy):
    """A part of an equation's value, written with the help of a value in scope. `value`: its text."""

    path: Path
    within: Path
    value: str

    @classmethod
    def proposals(cls, program: Program, path: Path, part: Part) -> Iterator[tuple[Expr, dict[str, str]]]:
        """The values that are worth trying for a part, each with the arguments that a strategy has besides."""
        raise NotImplementedError

    @classmethod
    def candidates(cls, program: Program) -> Iterator["Split"]:
        for path, part in parts(program):
            seen: list[tuple[Expr, dict[str, str]]] = []
            for value, arguments in cls.proposals(program, path, part):
                if (value, arguments) in seen:
                    continue
                seen.append((value, arguments))
                found, _ = in_scope(program, path, part, value)
                if found is None:
                    continue
                step = cls.model_validate(
                    {"path": path, "within": part.within, "value": expression_text(value), **arguments}
                )
                if not step.why_no_value(part, found) and step.use(program, part, found):
                    yield step

    def place_facts(self, part: Part) -> Iterator[Fact]:
        """What must hold of the place besides; nothing for most."""
        del part
        yield from ()

    def why_no_value(self, part: Part, value: Expr) -> str:
        """Why a value in scope does not split a part; empty if it does."""
        del part, value
        return ""

    def use(self, program: Program, part: Part, value: Expr) -> Use | None:
        """What the split is good for; None if for nothing that is known."""
        raise NotImplementedError

    def no_use(self) -> str:
        """What was looked for, and is not there, where there is no use."""
        raise NotImplementedError

    def bounds(self, program: Program, part: Part, value: Expr) -> Iterator[Fact]:
        """What must hold of the values, so that nothing is lost by the split."""
        raise NotImplementedError

    def split(self, program: Program, part: Part, value: Expr) -> Expr:
        """What takes the part's place."""
        raise NotImplementedError

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from an_equation(program, self.path)
        part, evidence = part_at(program, self.path, self.within)
        yield Fact("place-is-a-float", part is not None, evidence)
        assert part is not None
        yield from self.place_facts(part)
        value, evidence = value_in_scope(program, self.path, part, self.value)
        why = "" if value is None else self.why_no_value(part, value)
        yield Fact("value-is-in-scope", value is not None and not why, why or evidence)
        assert value is not None
        use = self.use(program, part, value)
        yield Fact("split-has-a-use", use is not None, f"it prepares {use.what}" if use else self.no_use())
        assert use is not None
        yield from ordered(self._guards(program, part, value, use), _SAID)

    def _guards(self, program: Program, part: Part, value: Expr, use: Use) -> Iterator[Fact]:
        yield from self.bounds(program, part, value)
        if use.next:
            yield _what_follows(self.rewrite(program), self.path, use)

    def rewrite(self, program: Program) -> Program:
        part, value = self.taken(program)
        return replace_expression_at(program, Place(self.path, self.within), self.split(program, part, value))

    def taken(self, program: Program) -> tuple[Part, Expr]:
        """The part and the value of a legal step."""
        part, _ = part_at(program, self.path, self.within)
        assert part is not None
        value, _ = value_in_scope(program, self.path, part, self.value)
        assert value is not None
        return part, value

    def shared_terms(self, after: Program, part: Part, use: Use) -> dict[str, str]:
        """What the sentences of all splits say."""
        return {
            "path": path_text(self.path),
            "value": self.value,
            "new": expression_text(expression_at(after, Place(self.path, self.within))),
            "use": use.what,
            "equation": equation_text(statement_at(after, self.path)),
            "dtype": part.dtype,
        }


def _what_follows(after: Program, path: Path, use: Use) -> Fact:
    """That the step which a split prepares is legal in the equation once it is taken."""
    from strategies.algebra import Algebraic
    from strategies.catalog import strategy  # these import this module
    from strategies.functions import OfFunctions

    following = strategy(use.next)
    assert issubclass(following, Algebraic | OfFunctions)
    evidence = f"after it, {use.next} finds no {use.about} to take"
    for step in following.candidates_at(after, path):
        if not any(_is_factor(use.about, operand) for operand in step.operands):
            continue
        try:
            step.apply(after)
        except Refused as why:
            evidence = f"{use.next} by {use.about} would be refused after it: {why.fact.name} would not hold"
        else:
            return Fact("next-step-is-legal", True, f"{use.next} by {use.about} is legal after it")
    return Fact("next-step-is-legal", False, evidence)


def _is_factor(text: str, product: str) -> bool:
    """Whether an expression is a factor of another, or all of it; both as text."""
    from leir.parser import parse_expression

    return bool(product) and text in map(expression_text, factors(parse_expression(product)))


def part_at(program: Program, path: Path, within: Path) -> tuple[Part | None, str]:
    """The part of an equation's value at a place that computes, or holds, a float; or why there is none."""
    shown = f"{path_text(path)}, {path_text(within)}"
    equation = statement_at(program, path)
    assert isinstance(equation, Equation)
    if within[:1] != (1,):
        return None, f"no part of a value stands at {shown}"
    try:
        chain = tuple(expression_at(program, Place(path, within[:length])) for length in range(1, len(within) + 1))
    except LookupError:
        return None, f"no part of a value stands at {shown}"
    text = expression_text(chain[-1])
    if any(isinstance(outer, Access) for outer in chain[:-1]):
        return None, f"{text} is part of a subscript"
    kind = kinds_of(program).of(chain[-1])
    if isinstance(kind, Weak) or not is_float(kind) or not any(accesses(chain[-1])):
        return None, f"{text} is no float that comes from tensors"
    return Part(equation, chain, within, kind), f"the type of {text} is {kind}"


@remembered
def parts(program: Program) -> tuple[tuple[Path, Part], ...]:
    """Every part of every equation's value that is a float, in the order of the text: those that `part_at` finds."""
    kinds = kinds_of(program)
    found: list[tuple[Path, Part]] = []
    for path, node in walk(program):
        if isinstance(node, Equation):
            for chain, within in _chains((node.value,), (1,)):
                kind = kinds.of(chain[-1])
                if not isinstance(kind, Weak) and is_float(kind) and any(accesses(chain[-1])):
                    found.append((path, Part(node, chain, within, kind)))
    return tuple(found)


def _chains(chain: tuple[Expr, ...], within: Path) -> Iterator[tuple[tuple[Expr, ...], Path]]:
    """The chain of every part of an expression, outside first, subscripts left out."""
    yield chain, within
    if not isinstance(chain[-1], Access):
        for number, operand in enumerate(operands(chain[-1])):
            yield from _chains((*chain, operand), (*within, number))


def value_in_scope(program: Program, path: Path, part: Part, text: str) -> tuple[Expr | None, str]:
    """The value that a text names, where the equation can read it as it is; or why it cannot.

    It is an access, or stands in the equation already, and computes in the part's type.
    """
    from leir.grammar import ParseError  # the grammar's library is slow to import: listing strategies does without
    from leir.parser import parse_expression

    try:
        value = parse_expression(text)
    except ParseError as error:
        return None, f"{text!r} is no expression: {error}"
    if expression_text(value) != text:
        return None, f"{text!r} is written {expression_text(value)}"
    return in_scope(program, path, part, value)


def in_scope(program: Program, path: Path, part: Part, value: Expr) -> tuple[Expr | None, str]:
    """The value, where the equation can read it as it is; or why it cannot."""
    why = _why_unreadable(program, path, value)
    if why:
        return None, why
    text = expression_text(value)
    kind = kinds_of(program).of(value)
    if kind != part.dtype:
        return None, f"{text} does not compute in {part.dtype}"
    if value == part.expression:
        return None, f"{text} is the part itself"
    return value, f"{text} can be read at {path_text(path)}, and computes in {part.dtype}"


@lru_cache(maxsize=2048)
def _why_unreadable(program: Program, path: Path, value: Expr) -> str:
    """Why an equation cannot read a value as it is; empty if it can. The same values are tried for many a part."""
    text = expression_text(value)
    bound = {loop.variable for loop in loops_around(program, path)}
    if not variables_of(value) <= bound:
        return f"{text} uses loops that are not around {path_text(path)}"
    types = dtypes(program)
    if not any(accesses(value)) or any(access.tensor not in types for access in accesses(value)):
        return f"{text} reads no tensor of the program, or one that it has not"
    equation = statement_at(program, path)
    assert isinstance(equation, Equation)
    if not isinstance(value, Access) and value not in subexpressions(equation.value):
        return f"{text} is no element of a tensor, and does not stand in the equation"
    target = equation.target
    if reads(value, target.tensor) and equation.op != "=":
        return f"{text} reads {target.tensor}, into which the equation accumulates"
    return ""


def reduced_over(program: Program, path: Path) -> tuple[Loop, ...]:
    """The loops around an accumulation over which it sums; none for a store."""
    equation = statement_at(program, path)
    assert isinstance(equation, Equation)
    if equation.op != "+=":
        return ()
    kept = variables_of(equation.target)
    return tuple(loop for loop in loops_around(program, path) if loop.variable not in kept)


def is_fixed(program: Program, path: Path, value: Expr, loops: Iterable[Loop]) -> bool:
    """Whether a value that is read at a path is the same in all iterations of some loops around it.

    It names no variable of theirs, and nothing in them writes what it reads.
    """
    names = {loop.variable for loop in loops}
    outermost = [loop for loop in loops_around(program, path) if loop.variable in names][:1]
    written = {tensor for loop in outermost for tensor in tensors_written(loop)}
    return not variables_of(value) & names and not any(access.tensor in written for access in accesses(value))


def factors(expression: Expr) -> tuple[Expr, ...]:
    """What a product multiplies; quotients are factors of their numerator, less the divisor."""
    match expression:
        case Binary("*", left, right):
            return (*factors(left), *factors(right))
        case Binary("/", left):
            return factors(left)
        case Unary("-", operand):
            return factors(operand)
        case _:
            return (expression,)


def divisors(expression: Expr) -> tuple[Expr, ...]:
    """What a product of quotients is divided by."""
    match expression:
        case Binary("*", left, right):
            return (*divisors(left), *divisors(right))
        case Binary("/", left, right):
            return (*divisors(left), right)
        case Unary("-", operand):
            return divisors(operand)
        case _:
            return ()


def term_around(part: Part) -> tuple[int, Expr]:
    """The term of a sum that a part is a factor of, or all of: its number in the chain, and itself.

    The numerators of quotients count as factors; divisors do not.
    """
    number = len(part.chain) - 1
    while number > 0:
        outer, inner = part.chain[number - 1], part.chain[number]
        match outer:
            case Binary("*") | Unary("-"):
                pass
            case Binary("/", left) if left is inner:
                pass
            case _:
                break
        number -= 1
    return number, part.chain[number]


def terms_around(part: Part) -> tuple[Expr, ...]:
    """The terms of the sum in which a part stands, their signs left out; its own, where it stands in none."""
    number = len(part.chain) - 1
    while number > 0 and _is_sum(part.chain[number - 1]):
        number -= 1
    return tuple(term.operand if isinstance(term, Unary) else term for term in _terms(part.chain[number]))


def other_products(part: Part) -> tuple[Expr, ...]:
    """The other terms of the sum in which a part's term stands, those that are products or quotients."""
    number, _ = term_around(part)
    found: list[Expr] = []
    while number > 0 and _is_sum(part.chain[number - 1]):
        outer, inner = part.chain[number - 1], part.chain[number]
        found += [term for operand in operands(outer) if operand is not inner for term in _terms(operand)]
        number -= 1
    return tuple(term for term in found if isinstance(term, Binary) and term.op in ("*", "/"))


def _is_sum(expression: Expr) -> bool:
    return isinstance(expression, Binary) and expression.op in ("+", "-")


def _terms(expression: Expr) -> Iterator[Expr]:
    match expression:
        case Binary("+" | "-", left, right):
            yield from _terms(left)
            yield from _terms(right)
        case _:
            yield expression


def loop_names(loops: Iterable[Loop]) -> str:
    return listed(loop.variable for loop in loops)


def firsts_of_rows(program: Program, path: Path, value: Expr) -> Iterator[Access]:
    """The accesses of a value at the first iteration of the loops that are summed over."""
    summed = reduced_over(program, path)
    start = {loop.variable: integer(loop.first) for loop in summed}
    for access in dict.fromkeys(part for part in subexpressions(value) if isinstance(part, Access)):
        if variables_of(access) & set(start):
            yield Access(access.tensor, tuple(as_expression(as_sum(substitute_in(i, start))) for i in access.indices))


def roundings(count: float) -> str:
    """What roundings add, as evidence gives it: `at most 1 unit of rounding`, `at most 2.5 units of rounding`."""
    text = at_most(max(count, 0.0))
    return f"at most {text} unit{'' if text == '1' else 's'} of rounding"


def spare_text(count: float) -> str:
    """The units that are spare, as evidence gives them: `1 is spare`, `2.5 are spare`, or `none is spare`."""
    if count <= 0:
        return "none is spare"
    text = at_least(count)
    return f"{text} {'is' if text == '1' else 'are'} spare"
