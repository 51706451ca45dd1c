"""Parts of expressions that are worth a temporary, and the nests that compute them ahead.

What `expression_splitting` and `common_subexpression_elimination` share.
"""

from dataclasses import dataclass, replace

from leir.analysis.types import strong, type_of
from leir.edit import accesses, dtypes, enclosing, expression_at, insert_at, nested, variables_of
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
from strategies.base import path_text


@dataclass(frozen=True, slots=True)
class Part:
    """The part, what replaces it, the loops that name an element, and the levels of the nest that computes it."""

    value: Expr
    entry: Access
    loops: tuple[Loop, ...]
    levels: tuple[Loop | Guard, ...]
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(loop.first + loop.extent for loop in self.loops)

    @property
    def guards(self) -> tuple[Expr, ...]:
        return tuple(level.condition for level in self.levels if isinstance(level, Guard))


def part_at(program: Program, path: Path, within: Path, before: int) -> Part:
    """The part at a place, as a nest right before the statement `before` steps down the path would compute it.

    The nest has the loops in between that the part depends on, and the guards and conditions there that depend on those
    loops alone and read no tensor. The entry has a subscript for each of its loops and for each loop around.
    """
    part = expression_at(program, Place(path, within))
    around = enclosing(program, path)
    outside = [level for place, level in around if len(place) < before]
    inside = [level for place, level in around if len(place) >= before]
    used = variables_of(part)
    loops = [level for level in outside if isinstance(level, Loop)]
    loops += [level for level in inside if isinstance(level, Loop) and level.variable in used]
    known = {loop.variable for loop in loops}
    conditions = [Guard(condition, ()) for condition in conditions_of(program, path, within)]
    levels: list[Loop | Guard] = []
    for level in (*inside, *conditions):
        if isinstance(level, Loop) and level.variable in used:
            levels.append(replace(level, kind="L") if level.kind == "V" else level)
        elif isinstance(level, Guard) and variables_of(level.condition) <= known:
            levels += [] if any(accesses(level.condition)) else [level]
    entry = Access(unused_tensor(program), tuple(Variable(loop.variable) for loop in loops))
    return Part(part, entry, tuple(loops), tuple(levels), strong(type_of(part, dtypes(program))))


def with_nest_of(program: Program, part: Part, path: Path, before: int) -> Program:
    """The program with the nest that computes a part, and the declaration that it needs.

    It goes before the statement `before` steps down the path.
    """
    new = nested(part.levels, (Equation(part.entry, "=", part.value),))
    after = insert_at(program, path[:before], *new)
    if part.dtype == program.outputs[0].dtype:
        return after  # an undeclared tensor is just that
    return insert_at(after, (0,), Alloc(part.entry.tensor, part.dtype, "g", part.shape))


def why_no_part(program: Program, path: Path, within: Path) -> str:
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


def conditions_of(program: Program, path: Path, within: Path) -> list[Expr]:
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


def _chain(program: Program, path: Path, within: Path) -> list[Expr]:
    """The expressions from an equation's value down to the one at a place; empty where there is none."""
    if within[:1] != (1,):
        return []
    try:
        return [expression_at(program, Place(path, within[:length])) for length in range(1, len(within) + 1)]
    except LookupError:
        return []
