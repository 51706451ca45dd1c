"""Multiplies and divides by an expression that the equation has at hand, or adds it and takes it away.

    Before    a/b              or    a
    After     (a*y)/(b*y)      or    a+y-y

The identities, one a step; `by` is y, a temporary, a call or a sum that occurs in the same equation:

- `twice: factor`: a fraction gets the factor above and below: a/b = (a*y)/(b*y)
- the same for any other product, which is multiplied and divided: a*b = (a*b*y)/y
- `twice: term`: a sum gets the term with either sign: a+b = a+b+y-y
- the same for a product or a quotient: a*b = a*b+y-y

Legal when: the place computes in floats, for a detour of indices or counts leads nowhere; a factor is finite and not
zero, nor too close to it, a term is finite, by the ranges; nothing that is new overflows, for inputs of ordinary size;
the two roundings that come with y are within what verification allows for the whole of the arithmetic around, and a
term is not so large that digits are lost beside it. A product or quotient by itself has no room for them, several of
them have. What an earlier detour took is not there any more. Where one exponential of a softmax has the place in its
exponent and another has not, the exponent must be small.

Pays when: the factor or term meets its like in another part of the expression, so that together, collect,
factorization or cancellation can follow.

Leads to: cancellation, together, collect, factorization.

Inverse: cancellation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from leir.analysis.spelling import normal
from leir.analysis.terms import is_sum
from leir.analysis.types import is_float
from leir.edit import walk, walk_expression
from leir.printer import expression_text
from leir.remembered import remembered
from leir.syntax import Access, Binary, Call, Equation, Expr, Path, Place, Program
from strategies.algebra import ADDED, CHANGE, EFFECT, Algebraic
from strategies.arithmetic import Setting, chain_to
from strategies.base import BitExact, Fact, Level, path_text
from strategies.bounded import bounds_text
from strategies.gains import operations
from strategies.safety import Form

MOST_AT_HAND = 4  # different expressions that are tried at a place
FEWEST_OPERATIONS = 3  # of an expression that has room for the roundings of a term


class ExpandCancellation(Algebraic):
    name: ClassVar[str] = "expand_cancellation"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{factor} is at hand in the equation at {path}: {old} can have it above and below its line.",
        "{term} is at hand in the equation at {path}: it can be added to {old} and taken away again.",
        "Another part of the equation at {path} has {beside}; taken in twice, with opposite effects, {old} has it too.",
        "Nothing forbids taking {by} into {old} and out again: {bounds}.",
        "{beside} stands in another part of the equation at {path}; {old} can be written with it as well.",
        "A detour by {by} leaves the value of {old} as it is, for real numbers, and brings {by} in twice.",
        "By itself {new} is longer than {old}. It is a step towards others: {identity}.",
        "{old} can take {by} along, since it leaves again.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{by} enters {old} twice, with opposite effects: {new}.",
        "{old} is extended by {by}, and reads {new}.",
        "The detour over {by} is written out at {path}: {new}.",
        "Take {by} into {old} and out again: {new} stands there now.",
        *CHANGE,
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The detour costs {added} in each evaluation; the steps that follow have to save more.",
        "The value is the same for real numbers; {new} rounds twice more in {dtype}, within what verification allows.",
        "Each evaluation takes {added} more, all of them for {by} to come in and to leave again.",
        "Nothing overflows by it, and no division by zero comes of it: {bounds}.",
        "The text of the expression reads {read} in {reads_after} where it read in {reads_before}.",
        *EFFECT,
        *ADDED,
    )

    by: str
    twice: Literal["factor", "term"] = "factor"

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        expression = setting.expression
        if not isinstance(expression, Binary) or not is_float(setting.dtype):
            return
        kinds = ("+", "-") if expression.op in ("+", "-") else ("*", "/")
        within = setting.parent is not None and not setting.is_atom(setting.parent)
        if within and isinstance(setting.parent, Binary) and setting.parent.op in kinds:
            return  # of a longer sum or product
        has_room = operations(expression, setting.algebra.kinds) >= FEWEST_OPERATIONS
        if kinds == ("+", "-") and not has_room:
            return
        for by in _at_hand(setting):
            text = expression_text(by)
            if kinds == ("*", "/"):
                above, below = (expression.left, expression.right) if expression.op == "/" else (expression, None)
                divisor = by if below is None else Binary("*", below, by)
                new = Binary("/", Binary("*", above, by), divisor)
                identity = f"multiplying by {text} and dividing by it undo each other"
                yield Form({"by": text, "twice": "factor"}, new, identity, nonzero=(by,))
            if has_room:
                new = Binary("-", Binary("+", expression, by), by)
                yield Form({"by": text, "twice": "term"}, new, f"{text} is added and taken away", finite=(by,))

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from self.facts_of_place(program)
        setting = self.setting(program)
        evidence = f"the type of {expression_text(setting.expression)} is {setting.dtype}"
        yield Fact("place-is-a-float", is_float(setting.dtype), evidence)
        form, why = self.found(program)
        at_hand = f"{self.by} stands in the equation at {path_text(self.path)}"
        yield Fact("expression-is-at-hand", form is not None, why if form is None else at_hand)
        yield from self.facts_of_form(program)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        setting, form = self.setting(before), self.form(before)
        (by,) = (*form.nonzero, *form.finite)
        result = {
            **super().terms(before, after),
            self.twice: self.by,
            "bounds": bounds_text([by], setting.range_of(), setting.closer()),
        }
        inside = {part for _, part in walk_expression(setting.expression)}
        return result if by in inside else {**result, "beside": self.by}


def _at_hand(setting: Setting) -> list[Expr]:
    """Temporaries, calls and sums of the equation that compute in the type of the place, those outside of it first.

    None has the place within it: multiplying by the whole of the value serves nothing.
    """
    place = id(setting.expression)
    found: dict[int, _Operand] = {}
    for operand in _operands(setting.program)[setting.place.path]:
        part = operand.expression
        if operand.spelling in found or place in operand.below or not setting.computes_here(part):
            continue
        sums = [other.expression for other in found.values() if is_sum(other.expression, setting.is_atom)]
        if not is_sum(part, setting.is_atom) or not any(setting.algebra.same(part, other) for other in sums):
            found[operand.spelling] = operand
    outside = [operand.expression for operand in found.values() if place not in operand.around]
    return [*outside, *(o.expression for o in found.values() if place in o.around)][:MOST_AT_HAND]


@dataclass(frozen=True, slots=True)
class _Operand:
    """A temporary, a call or a sum of an equation. `spelling`: one number for those that are one computation.

    `below`: the identities of the expressions in it; `around`: of those that have its like in them.
    """

    expression: Expr
    spelling: int
    below: frozenset[int]
    around: set[int]


@remembered
def _operands(program: Program) -> dict[Path, list[_Operand]]:
    """The temporaries, calls and sums of each equation's value, outside first."""
    inputs = {declaration.tensor for declaration in program.inputs}
    result: dict[Path, list[_Operand]] = {}
    for path, node in walk(program):
        if isinstance(node, Equation):
            spellings: dict[Expr, int] = {}
            around: dict[Expr, set[int]] = {}
            result[path] = []
            for within, part in walk_expression(node.value):
                match part:
                    case Binary("+" | "-") | Call():
                        pass
                    case Access(tensor) if tensor not in inputs:
                        pass
                    case _:
                        continue
                spelling = spellings.setdefault(normal(part), len(spellings))
                below = frozenset(id(inner) for _, inner in walk_expression(part))
                result[path].append(_Operand(part, spelling, below, around.setdefault(part, set())))
                around[part].update(map(id, chain_to(program, Place(path, (1, *within)))))
    return result
