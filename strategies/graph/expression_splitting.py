"""Computes a part of an expression ahead, into a temporary, by a nest of its own.

    Before    K^{n}_{x}[C_{x}=...f(y)...;]
    After     K^{m}_{y}[T_{y}=f(y);] K^{n}_{x}[C_{x}=...T_{y}...;]

The new nest goes right before the statement `before` steps down the path: before the whole outermost nest for 1, before
the equation itself for the path's length. It has the loops in between that the part depends on, and the temporary has a
dimension for each of them and for each loop around. Guards and choices in between that depend on those loops alone, and
read no tensor, are kept as guards.

Legal when: no operand of the part is written between the new nest and the place of the part. That its subscripts stay
in range and that what it reads is written by then is proved again.

Pays when: the part depends on fewer loops than surround it, and so is computed less often; or it can then be ordered,
bound or tiled by itself.

Leads to: operator_fission, common_subexpression_elimination.

Inverse: compute_inline.
"""

from collections.abc import Iterator
from math import prod
from typing import ClassVar

from leir.edit import (
    loops_around,
    replace_expression_at,
    walk,
    walk_expression,
)
from leir.syntax import (
    Equation,
    Place,
    Program,
)
from strategies.base import (
    BitExact,
    Fact,
    Level,
    counted,
    listed,
    path_text,
)
from strategies.elsewhere import occurs_elsewhere
from strategies.parts import OfPart, evaluations, part_at, saving_terms, why_no_part, with_nest_of


class ExpressionSplitting(OfPart):
    name: ClassVar[str] = "expression_splitting"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{value} at {path} is computed {times_before} times, though it takes no more than {values_after}.",
        "{value} does not change with {fixed_loops}: ahead of {before} it takes {evaluations_after}, at "
        "{path} it takes {times_before}.",
        "Of the {times_before} evaluations of {value} at {path}, {saved} {repeat} what another one has found.",
        "Within the equation at {path}, {value} can be set apart: its operands are the same {ahead}.",
        "{operands} are all that {value} reads, and they have their values ahead of {before} already.",
        "Set apart, {value} runs over {header} {run}, in a nest that can be {ways} by itself.",
        "{value} is computed at {path}, and the same value at {elsewhere}: setting it apart is a first step to sharing "
        "it.",
        "Where {guards}, {value} can be computed ahead of {path}, from operands that stay as they are.",
        "{value} is a part of the equation at {path}, and its operands have their values {ahead} already, so that it "
        "can be computed there.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "A new statement at {new} computes {value} into {entry}, and the equation reads that in its place.",
        "A new statement at {new} computes {value} into {entry} where {guards}, and the equation reads that in its "
        "place.",
        "{tensor} is new: a statement at {new} sets {entry} to {value}, and the equation finds it there.",
        "Ahead of {before}, {entry}={value} runs over {header}; where the equation had the value it loads {entry}.",
        "{value} moves out of the equation at {path} to a statement of its own at {new}, which stores it in {tensor}.",
        "The step adds {entry}={value} at {new} and puts {entry} where the value was computed.",
        "In place of {value}, the equation has {entry}; a statement at {new} computes that beforehand.",
        "One equation becomes two: {entry}={value} at {new}, and the old one, which reads it.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The part is computed {often}, for {bytes} of storage. {tensor} has the type that the part is computed in, "
        "{dtype}: no rounding is added, every bit stays.",
        "{tensor} takes {bytes}. It has the type that the part is computed in, {dtype}: no rounding is added, every"
        " bit stays.",
        "{evaluations_saved} {are} saved, and {bytes} are spent on {tensor}. The bits of all results are the same.",
        "{tensor} is stored once and loaded where {value} was computed: {bytes} of {dtype}, unrounded, so that "
        "every bit stays.",
        "The value is computed by a nest that can be {ways} by itself. Stored as {dtype}, it keeps every bit.",
        "No place sees another value than before, bit for bit; the price is {bytes} of storage, and the traffic of a "
        "store and a load.",
        "{stores} and {loads} of {tensor} are added, and {evaluations_after} of {value} {remain}; all bits stay.",
        "The equation reads {tensor} now, which has what {value} was. No bit changes.",
    )

    @classmethod
    def candidates(cls, program: Program) -> Iterator["ExpressionSplitting"]:
        for path, node in walk(program):
            if not isinstance(node, Equation):
                continue
            for within, _ in walk_expression(node.value, (1,)):
                is_copy = within == (1,) and node.op == "="
                if not is_copy and not why_no_part(program, path, within):
                    yield from (cls(path=path, within=within, before=number) for number in range(1, len(path) + 1))

    def facts(self, program: Program) -> Iterator[Fact]:
        part = yield from self.facts_of_part(program)
        yield self.operands_unchanged(self.rewrite(program), part, "its place")

    def rewrite(self, program: Program) -> Program:
        part = part_at(program, self.path, self.within, self.before)
        after = replace_expression_at(program, Place(self.path, self.within), part.entry)
        return with_nest_of(after, part, self.path, self.before)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        del after
        part = part_at(before, self.path, self.within, self.before)
        place = Place(self.path, self.within)
        result = self.terms_of_part(before, part)
        if elsewhere := occurs_elsewhere(before, part.value, place):
            result["elsewhere"] = path_text(elsewhere)
        times, own = evaluations(before, place), prod(loop.extent for loop in part.loops)
        if times is not None and own < times:
            result |= saving_terms(times, own)
            result |= {"stores": counted(own, "store"), "loads": counted(times, "load")}
            named = {loop.variable for loop in part.loops}
            loops = loops_around(before, self.path)
            result["fixed_loops"] = listed(loop.variable for loop in loops if loop.variable not in named)
        return result
