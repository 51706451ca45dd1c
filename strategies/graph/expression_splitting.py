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
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from pydantic import Field

from leir.analysis.kernels import BYTES
from leir.analysis.recomputation import why_value_differs
from leir.analysis.types import strong, type_of
from leir.edit import (
    accesses,
    dtypes,
    enclosing,
    expression_at,
    insert_at,
    iterations_around,
    nested,
    replace_expression_at,
    variables_of,
    walk,
    walk_expression,
)
from leir.names import unused_tensor
from leir.printer import expression_text
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Call,
    DType,
    Equation,
    Expr,
    Guard,
    Loop,
    Path,
    Place,
    Program,
    Select,
    Unary,
    Variable,
)
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    counted,
    describe_at,
    listed,
    path_text,
    statement_or_none,
)


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
                if not is_copy and not _why_no_part(program, path, within):
                    yield from (cls(path=path, within=within, before=number) for number in range(1, len(path) + 1))

    def facts(self, program: Program) -> Iterator[Fact]:
        node = statement_or_none(program, self.path)
        yield Fact("path-is-an-equation", isinstance(node, Equation), describe_at(program, self.path))
        why = _why_no_part(program, self.path, self.within)
        shown = why or f"{expression_text(expression_at(program, Place(self.path, self.within)))} computes something"
        yield Fact("part-computes-something", not why, shown)
        inside = self.before <= len(self.path)
        evidence = f"{path_text(self.path)} has {counted(len(self.path), 'step')}, not {self.before}"
        if inside:
            evidence = f"the new nest goes before {path_text(self.path[: self.before])}"
        yield Fact("place-is-on-the-path", inside, evidence)
        split = self._split(program)
        after = self.rewrite(program)
        equation = next(p for p, e in walk(after) if isinstance(e, Equation) and e.target == split.entry)
        why = why_value_differs(after, equation)
        part = expression_text(split.part)
        evidence = f"nothing writes an operand of {part} between {path_text(equation)} and its place"
        yield Fact("operands-are-unchanged", not why, why or evidence)

    def rewrite(self, program: Program) -> Program:
        split = self._split(program)
        after = replace_expression_at(program, Place(self.path, self.within), split.entry)
        new = nested(split.levels, (Equation(split.entry, "=", split.part),))
        after = insert_at(after, self.path[: self.before], *new)
        if split.dtype == program.outputs[0].dtype:
            return after  # an undeclared tensor is just that
        return insert_at(after, (0,), Alloc(split.entry.tensor, split.dtype, "g", split.shape))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        split = self._split(before)
        new = self.path[: self.before]
        if split.dtype != before.outputs[0].dtype:
            new = (new[0] + 1, *new[1:])
        guards = [level.condition for level in split.levels if isinstance(level, Guard)]
        result = {
            "value": expression_text(split.part),
            "path": path_text(self.path),
            "before": path_text(self.path[: self.before]),
            "new": path_text(new),
            "tensor": split.entry.tensor,
            "entry": expression_text(split.entry),
            "dtype": split.dtype,
            "bytes": counted(prod(split.shape) * BYTES[split.dtype], "byte"),
        }
        if guards:
            result["guards"] = listed(map(expression_text, guards))
        del after
        is_open = guards or any(isinstance(level, Guard) for _, level in enclosing(before, self.path))
        times = iterations_around(before, self.path)
        own = prod(loop.extent for loop in split.loops)
        if not is_open and not _conditions(before, self.path, self.within) and own < times:
            result["times_before"], result["times_after"] = str(times), str(own)
        return result

    def _split(self, program: Program) -> "_Split":
        part = expression_at(program, Place(self.path, self.within))
        around = enclosing(program, self.path)
        outside = [level for path, level in around if len(path) < self.before]
        inside = [level for path, level in around if len(path) >= self.before]
        used = variables_of(part)
        loops = [level for level in outside if isinstance(level, Loop)]
        loops += [level for level in inside if isinstance(level, Loop) and level.variable in used]
        known = {loop.variable for loop in loops}
        conditions = [Guard(condition, ()) for condition in _conditions(program, self.path, self.within)]
        levels: list[Loop | Guard] = []
        for level in (*inside, *conditions):
            if isinstance(level, Loop) and level.variable in used:
                levels.append(replace(level, kind="L") if level.kind == "V" else level)
            elif isinstance(level, Guard) and variables_of(level.condition) <= known:
                levels += [] if any(accesses(level.condition)) else [level]
        entry = Access(unused_tensor(program), tuple(Variable(loop.variable) for loop in loops))
        return _Split(part, entry, tuple(loops), tuple(levels), strong(type_of(part, dtypes(program))))


@dataclass(frozen=True, slots=True)
class _Split:
    """The part, what replaces it, the loops that name an element, and the levels of the new nest."""

    part: Expr
    entry: Access
    loops: tuple[Loop, ...]
    levels: tuple[Loop | Guard, ...]
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(loop.first + loop.extent for loop in self.loops)


def _chain(program: Program, path: Path, within: Path) -> list[Expr]:
    """The expressions from an equation's value down to the one at a place; empty where there is none."""
    if within[:1] != (1,):
        return []
    try:
        return [expression_at(program, Place(path, within[:length])) for length in range(1, len(within) + 1)]
    except LookupError:
        return []


def _why_no_part(program: Program, path: Path, within: Path) -> str:
    """Why no part of an equation's value that is worth a temporary stands at a place; empty if one does."""
    chain = _chain(program, path, within)
    if not chain:
        return f"no part of a value stands at {path_text(path)}, {path_text(within)}"
    text = expression_text(chain[-1])
    if any(isinstance(outer, Access) for outer in chain[:-1]):
        return f"{text} is part of a subscript"
    if not isinstance(chain[-1], Binary | Call | Select | Unary) or not any(accesses(chain[-1])):
        return f"{text} computes nothing from tensors"
    return ""


def _conditions(program: Program, path: Path, within: Path) -> list[Expr]:
    """The conditions under which an equation evaluates a part of its value, from the outside in."""
    result: list[Expr] = []
    for outer, number in zip(_chain(program, path, within)[:-1], within[1:], strict=True):
        match outer:
            case Select(condition) if number > 0:
                result.append(condition if number == 1 else Unary("!", condition))
            case Binary("&&" | "||" as op, left) if number == 1:
                result.append(left if op == "&&" else Unary("!", left))
            case _:
                pass
    return result
