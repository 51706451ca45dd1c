"""Computes an expression that occurs in several places once, into a temporary that all of them read.

    Before    K^{n}_{x}[C_{x}=...f(x)...;] K^{m}_{y}[D_{y}=...f(e(y))...;]
    After     K^{n}_{x}[T_{x}=f(x);] K^{n}_{x}[C_{x}=...T_{x}...;] K^{m}_{y}[D_{y}=...T_{e(y)}...;]

The places are the first one, which `path` and `within` say, and the next that match it, `places` in all: in one
equation or several, in one nest or across nests. Loops may have other names, another order or other first values, or be
split; operands of sums, products, maxima and comparisons may have changed sides. The nest that computes the temporary
is that of expression_splitting for the first place, right before the statement `before` steps down its path; the loops
around it are the same for all places. The temporary has the type that the expression is computed in: nothing is rounded
anew.

Legal when: the value is the same at all places: the operands are those of the element that the place reads, and none
is written in between; and every place reads what the nest has computed, so that the guards and conditions of the first
place, which the nest keeps, hold for the others. That operands' subscripts stay in range is proved again.

Pays when: computing the expression again costs more than to store and load it: exponentials, divisions, long sums.

Leads to: operator_fusion, set_storage_scope, compute_inline.

Inverse: compute_inline.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import ClassVar

from pydantic import Field

from leir.analysis.affine import Interval, affine, interval
from leir.analysis.box import as_sum
from leir.analysis.inversion import solved
from leir.analysis.isl import TooHard, example, question
from leir.analysis.matching import pairings, shape_of
from leir.analysis.model import Statement, domain, ranges_of, statements_of
from leir.edit import (
    accesses,
    enclosing,
    equation_paths,
    expression_at,
    replace_expression_at,
    statement_at,
    walk_expression,
)
from leir.names import substitute_in
from leir.printer import expression_text
from leir.syntax import Access, Equation, Expr, Guard, Path, Place, Program, Variable
from strategies.base import (
    BitExact,
    Fact,
    Gridded,
    Level,
    counted,
    listed,
    path_text,
)
from strategies.grid import DEFAULT, Grid
from strategies.parts import OfPart, Part, conditions_of, evaluations, part_at, saving_terms, why_no_part, with_nest_of


class CommonSubexpressionElimination(OfPart, Gridded):
    name: ClassVar[str] = "common_subexpression_elimination"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{value} is computed {times_before} times in {places}, where {enough}: nothing writes "
        "{any_operand} from the first of them to the last.",
        "The equations at {paths} compute one thing, {value}, from operands that stay as they are meanwhile.",
        "{value} at {path} comes again at {other}. No operand of it changes on the way, so one result serves both.",
        "What {path} computes as {value}, {other} spells {spelled}: in its own loops, the same value.",
        "{operands} are what {value} depends on, and they hold still while {places} compute it: {saved} of the "
        "{times_before} evaluations {find} what an earlier one found.",
        "One equation, at {here}, works out {value} {repeatedly}.",
        "Among the expressions that occur more than once is {value}: at {paths}, each time with the same operands.",
        "{value}, which {path} computes, is needed in {places}, with the same operands each time.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "A new statement at {new} computes {value} into {entry}, and {places} read {tensor} in its place.",
        "{tensor} is new: a statement at {new} fills it with {value}. Where that was computed now stands {reads}.",
        "Ahead of the statement at {before}, {entry}={value} runs over {header}; {places} load it instead of computing "
        "it.",
        "A new statement at {new} computes {value} into {entry} where {guards}; {places} read {tensor} in its place.",
        "{value} moves out of {places} to a statement of its own at {new}, which stores it in {tensor}.",
        "The equations at {paths} read {tensor} from now on; a statement ahead of them, at {new}, sets {entry} to "
        "{value}.",
        "Where {path} has {value} it now has {entry}, where {other} has {spelled} it now has {spelled_read}, and a "
        "statement at {new} sets {tensor} before both.",
        "The step adds {entry}={value} at {new} and puts {reads} where the value was computed, in {places}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The value is computed {often}, for {bytes} of storage. {tensor} has the type that it is computed in, {dtype}: "
        "no rounding is added, every bit stays.",
        "{tensor} takes {bytes} and is read in {places}. It has the type of the computation, {dtype}, so every bit "
        "stays.",
        "{places} share one computation; the price is a store, a load in each, and {bytes} of storage. Stored as "
        "{dtype}, the value keeps every bit.",
        "{evaluations_saved} {are} saved and {bytes} are spent. No place sees another value than before.",
        "{value} is worked out by a nest that can be {ways} by itself; {places} load {tensor}, which is {dtype} as the "
        "computation was. All results keep their bits.",
        "Of {times_before} evaluations, {times_after} {remain}; {tensor} holds their results in {bytes}, unrounded.",
        "Loads of {tensor} replace arithmetic in {places}. Its {bytes} are storage that was not there before; that "
        "pays where {value} costs more than a load. The results are the same bits.",
        "Since {tensor} is stored in {dtype}, the type in which {value} is computed, each of the {places} gets what it "
        "computed before, bit for bit.",
    )

    places: int = Field(ge=2)

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["CommonSubexpressionElimination"]:
        taken: list[list[Place]] = []  # groups of which one step takes all places
        for group in _groups(program):
            if any(_lies_in(group, larger) for larger in taken):
                continue
            covered: set[tuple[int, Place]] = set()
            for first in group[: grid.occurrences]:
                assert first.within is not None
                for before in range(1, len(first.path) + 1):
                    if (before, first) in covered:
                        continue
                    found = _occurrences(program, first.path, first.within, before, grid.occurrences)
                    if len(found) < 2:
                        continue
                    run = _undisturbed(program, found)
                    if run == len(group):
                        taken.append(group)
                    covered.update((before, occurrence.place) for occurrence in found[:run])
                    for count in dict.fromkeys((run, len(found))):
                        if count > 1:
                            yield cls(path=first.path, within=first.within, before=before, places=count)

    def facts(self, program: Program) -> Iterator[Fact]:
        from leir.check.definedness import check_definedness  # slow to import: listing strategies does without

        yield from self.facts_of_part(program)
        part, found = self._found(program)
        value, enough = expression_text(part.value), len(found) >= self.places
        shown = found[: self.places]
        paths = dict.fromkeys(path_text(occurrence.place.path) for occurrence in shown)
        where = f", at {listed(paths)}" if len(paths) > 1 else f" of the equation at {listed(paths)}"
        evidence = f"{value} is computed in {counted(len(shown), 'place')}{where}"
        yield Fact("occurs-in-these-places", enough, evidence if enough else f"{evidence}, not in {self.places}")
        after = self.rewrite(program)
        missing = next(check_definedness(after, part.entry.tensor), None)
        evidence = f"every place reads an element of {part.entry.tensor} that {part.holder} computes"
        yield Fact("places-have-one-domain", missing is None, missing.message if missing else evidence)
        yield self.operands_unchanged(after, part, "the last place")

    def rewrite(self, program: Program) -> Program:
        part, found = self._found(program)
        after = program
        for occurrence in found[: self.places]:
            after = replace_expression_at(after, occurrence.place, occurrence.entry)
        return with_nest_of(after, part, self.path, self.before)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        part, found = self._found(before)
        found = found[: self.places]
        paths = list(dict.fromkeys(path_text(occurrence.place.path) for occurrence in found))
        result = self.terms_of_part(before, part) | {
            "places": counted(len(found), "place"),
            "repeatedly": "twice" if len(found) == 2 else f"in {len(found)} places",
            "reads": listed(dict.fromkeys(expression_text(occurrence.entry) for occurrence in found)),
        }
        if len(paths) == 1:
            result["here"] = paths[0]
        else:
            result["paths"] = listed(paths)
        if len(paths) == len(found) == 2:
            result["other"], spelled = paths[1], expression_text(expression_at(before, found[1].place))
            if spelled != result["value"]:
                result["spelled"], result["spelled_read"] = spelled, expression_text(found[1].entry)
        del after
        times = [evaluations(before, occurrence.place) for occurrence in found]
        own = prod(loop.extent for loop in part.loops)
        sure = [count for count in times if count is not None]
        if len(sure) == len(times) and own < sum(sure):
            result |= saving_terms(sum(sure), own)
        return result

    def _found(self, program: Program) -> "tuple[Part, list[_Occurrence]]":
        """The part at the first place, and all places that match it, the first included."""
        part = part_at(program, self.path, self.within, self.before)
        return part, _occurrences(program, self.path, self.within, self.before)


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """A place of the expression, and the element of the temporary that it is to read."""

    place: Place
    entry: Access


@lru_cache(maxsize=64)
def _parts(program: Program) -> tuple[tuple[Place, Expr, str], ...]:
    """The parts of all equations that are worth a temporary, in the order of the text, each with its shape."""
    return tuple(
        (Place(path, within), part, shape_of(part))
        for path in equation_paths(program)
        for within, part in _values(statement_at(program, path))
        if not why_no_part(program, path, within)
    )


def _values(equation: object) -> Iterator[tuple[Path, Expr]]:
    assert isinstance(equation, Equation)
    return walk_expression(equation.value, (1,))


def _groups(program: Program) -> list[list[Place]]:
    """The places of each shape that occurs more than once, those of the largest expressions first."""
    groups: dict[str, list[Place]] = {}
    sizes: dict[str, int] = {}
    for place, part, shape in _parts(program):
        groups.setdefault(shape, []).append(place)
        sizes.setdefault(shape, sum(1 for _ in walk_expression(part)))
    several = [shape for shape, places in groups.items() if len(places) > 1]
    return [groups[shape] for shape in sorted(several, key=lambda shape: -sizes[shape])]


def _lies_in(places: list[Place], larger: list[Place]) -> bool:
    """Whether each place is a part of another one of `larger`, so that it is left once when those are taken."""
    if len(places) != len(larger):
        return False
    return all(
        own.path == whole.path and (own.within or ())[: len(whole.within or ())] == whole.within
        for own, whole in zip(places, larger, strict=True)
    )


def _occurrences(program: Program, path: Path, within: Path, before: int, most: int | None = None) -> list[_Occurrence]:
    """The place itself and those after it that match it, below the list that the new nest goes to.

    `most`: how many places of its shape are looked at.
    """
    part = part_at(program, path, within, before)
    first, shape = Place(path, within), shape_of(part.value)
    outside = sum(1 for p, level in enclosing(program, path) if not isinstance(level, Guard) and len(p) < before)
    own: dict[str, Interval] = {
        loop.variable: (loop.first, loop.first + loop.extent - 1) for loop in part.loops[outside:]
    }
    same = [(place, value) for place, value, other in _parts(program) if other == shape]
    start = next(number for number, (place, _) in enumerate(same) if place == first)
    found = [_Occurrence(first, part.entry)]
    statements = {statement.path: statement for statement in statements_of(program)}
    for place, value in same[start + 1 :][:most]:
        if place.path[: before - 1] == path[: before - 1]:
            values = _values_at(statements[place.path], part.value, value, own)
            if values is not None:
                indices = tuple(substitute_in(index, values) for index in part.entry.indices)
                found.append(_Occurrence(place, Access(part.entry.tensor, indices)))
    return found


def _values_at(statement: Statement, one: Expr, other: Expr, own: dict[str, Interval]) -> dict[str, Expr] | None:
    """The values of the variables in `own` for which one expression is the other, in every iteration of a statement."""
    known = ranges_of(statement)
    for pairs in pairings(one, other):
        values = solved([a for a, _ in pairs], [b for _, b in pairs], own, known)
        if own.keys() <= values.keys() and all(_equal(statement, substitute_in(a, values), b) for a, b in pairs):
            return {name: values[name] for name in own}
    return None


def _equal(statement: Statement, one: Expr, other: Expr) -> bool:
    """Whether two integer expressions are equal in every iteration of a statement, provably."""
    if as_sum(one) == as_sum(other):
        return True
    names = statement.names("x")
    a, b = affine(one, names), affine(other, names)
    if a is None or b is None:
        return False
    try:
        return example(question(statement.dimensions("x"), [*domain(statement, "x"), f"{a} != {b}"])) is None
    except TooHard:
        return False


def _undisturbed(program: Program, found: list[_Occurrence]) -> int:
    """How many of the places come before one that leaves the loops' range, or a write of an operand in the text."""
    operands = {access.tensor for access in accesses(expression_at(program, found[0].place))}
    writes = [p for p in equation_paths(program) if _target(program, p) in operands]
    statements = {statement.path: statement for statement in statements_of(program)}
    loops = {loop.variable: loop for _, loop in statements[found[0].place.path].loops}
    for number in range(1, len(found)):
        here, last = found[number], found[number - 1]
        if any(last.place.path <= path < here.place.path for path in writes):
            return number
        known = ranges_of(statements[here.place.path])
        for own, index in zip(found[0].entry.indices, here.entry.indices, strict=True):
            assert isinstance(own, Variable)
            low, high = interval(index, known)
            loop = loops[own.name]
            guarded = statements[here.place.path].guards or conditions_of(
                program, here.place.path, here.place.within or ()
            )
            if not guarded and (low < loop.first or high >= loop.first + loop.extent):
                return number
    return len(found)


def _target(program: Program, path: Path) -> str:
    equation = statement_at(program, path)
    assert isinstance(equation, Equation)
    return equation.target.tensor
