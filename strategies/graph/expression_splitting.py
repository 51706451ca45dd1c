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

from pydantic import Field

from leir.analysis.kernels import BYTES
from leir.analysis.recomputation import why_value_differs
from leir.edit import (
    enclosing,
    expression_at,
    iterations_around,
    replace_expression_at,
    walk,
    walk_expression,
)
from leir.printer import expression_text
from leir.syntax import (
    Equation,
    Guard,
    Path,
    Place,
    Program,
)
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    counted,
    listed,
    path_text,
)
from strategies.openings import an_equation
from strategies.parts import conditions_of, part_at, why_no_part, with_nest_of


class ExpressionSplitting(Strategy):
    name: ClassVar[str] = "expression_splitting"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{value} at {path} is computed {times_before} times, though it takes no more than {times_after} values.",
        "{value} is a part of the equation at {path}, and its operands have their values ahead of {before} already: a "
        "nest of its own can be ordered, tiled and bound by itself.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "A new statement at {new} computes {value} into {entry}, and the equation reads that in its place.",
        "A new statement at {new} computes {value} into {entry} where {guards}, and the equation reads that in its "
        "place.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The part is computed {times_after} times instead of {times_before}, for {bytes} of storage. {tensor} has the "
        "type that the part is computed in, {dtype}: no rounding is added, every bit stays.",
        "{tensor} takes {bytes}. It has the type that the part is computed in, {dtype}: no rounding is added, every "
        "bit stays.",
    )

    path: Path
    within: Path
    before: int = Field(ge=1)

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
        yield from an_equation(program, self.path)
        why = why_no_part(program, self.path, self.within)
        shown = why or f"{expression_text(expression_at(program, Place(self.path, self.within)))} computes something"
        yield Fact("part-computes-something", not why, shown)
        inside = self.before <= len(self.path)
        evidence = f"{path_text(self.path)} has {counted(len(self.path), 'step')}, not {self.before}"
        if inside:
            evidence = f"the new nest goes before {path_text(self.path[: self.before])}"
        yield Fact("place-is-on-the-path", inside, evidence)
        split = part_at(program, self.path, self.within, self.before)
        after = self.rewrite(program)
        equation = next(p for p, e in walk(after) if isinstance(e, Equation) and e.target == split.entry)
        why = why_value_differs(after, equation)
        part = expression_text(split.value)
        evidence = f"nothing writes an operand of {part} between {path_text(equation)} and its place"
        yield Fact("operands-are-unchanged", not why, why or evidence)

    def rewrite(self, program: Program) -> Program:
        part = part_at(program, self.path, self.within, self.before)
        after = replace_expression_at(program, Place(self.path, self.within), part.entry)
        return with_nest_of(after, part, self.path, self.before)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        split = part_at(before, self.path, self.within, self.before)
        new = self.path[: self.before]
        if split.dtype != before.outputs[0].dtype:
            new = (new[0] + 1, *new[1:])
        result = {
            "value": expression_text(split.value),
            "path": path_text(self.path),
            "before": path_text(self.path[: self.before]),
            "new": path_text(new),
            "tensor": split.entry.tensor,
            "entry": expression_text(split.entry),
            "dtype": split.dtype,
            "bytes": counted(prod(split.shape) * BYTES[split.dtype], "byte"),
        }
        if split.guards:
            result["guards"] = listed(map(expression_text, split.guards))
        del after
        is_open = split.guards or any(isinstance(level, Guard) for _, level in enclosing(before, self.path))
        times = iterations_around(before, self.path)
        own = prod(loop.extent for loop in split.loops)
        if not is_open and not conditions_of(before, self.path, self.within) and own < times:
            result["times_before"], result["times_after"] = str(times), str(own)
        return result
