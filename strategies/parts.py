"""Parts of expressions that are worth a temporary, and the nests that compute them ahead.

What `expression_splitting` and `common_subexpression_elimination` share.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from math import prod

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
    variables_of,
    walk,
)
from leir.names import unused_tensor
from leir.printer import expression_text, header_text
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
from strategies.arithmetic import chain_to
from strategies.base import Fact, Strategy, counted, either, listed, path_text
from strategies.openings import an_equation


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
    def holder(self) -> str:
        """What computes the part, in words."""
        return "the new nest" if self.levels else "the new equation"

    @property
    def guards(self) -> tuple[Expr, ...]:
        return tuple(level.condition for level in self.levels if isinstance(level, Guard))


class OfPart(Strategy):
    """A strategy that computes a part of an equation's value ahead, right before a statement on the equation's path."""

    path: Path
    within: Path
    before: int = Field(ge=1)

    def facts_of_part(self, program: Program) -> Generator[Fact, None, Part]:
        """What must hold of the place; the part there."""
        yield from an_equation(program, self.path)
        why = why_no_part(program, self.path, self.within)
        shown = why
        if not why:
            value = expression_at(program, Place(self.path, self.within))
            read = listed(dict.fromkeys(access.tensor for access in accesses(value)))
            shown = f"{expression_text(value)} is computed from {read}"
        yield Fact("part-computes-something", not why, shown)
        inside = self.before <= len(self.path)
        if not inside:
            evidence = f"{path_text(self.path)} has {counted(len(self.path), 'step')}, not {self.before}"
            yield Fact("place-is-on-the-path", False, evidence)
        part = part_at(program, self.path, self.within, self.before)
        evidence = f"{part.holder} goes before {path_text(self.path[: self.before])}"
        yield Fact("place-is-on-the-path", True, evidence)
        return part

    def operands_unchanged(self, after: Program, part: Part, last: str) -> Fact:
        """That the part has one value from the nest that computes it on; `last`: up to where, in words."""
        equation = next(p for p, node in walk(after) if isinstance(node, Equation) and node.target == part.entry)
        why = why_value_differs(after, equation)
        held = f"nothing writes an operand of {expression_text(part.value)} between {part.holder} and {last}"
        return Fact("operands-are-unchanged", not why, why or held)

    def terms_of_part(self, before: Program, part: Part) -> dict[str, str]:
        new = self.path[: self.before]
        if part.dtype != before.outputs[0].dtype:
            new = (new[0] + 1, *new[1:])  # after the declaration
        result = {
            "value": expression_text(part.value),
            "path": path_text(self.path),
            "before": path_text(self.path[: self.before]),
            "ahead": "right before it"
            if self.before == len(self.path)
            else f"ahead of {path_text(self.path[: self.before])}",
            "new": path_text(new),
            "tensor": part.entry.tensor,
            "entry": expression_text(part.entry),
            "dtype": part.dtype,
            "bytes": counted(prod(part.shape) * BYTES[part.dtype], "byte"),
        }
        operands = dict.fromkeys(access.tensor for access in accesses(part.value))
        if len(operands) > 1:
            result |= {"operands": listed(operands), "any_operand": either(operands)}
        if part.guards:
            result["guards"] = listed(map(expression_text, part.guards))
        elif part.levels:
            result["header"] = header_text(part.levels)
            outside = [loop for loop in part.loops if loop not in part.levels]
            result["run"] = f"inside {header_text(outside)}" if outside else "alone"
        loops = sum(isinstance(level, Loop) and level.extent > 1 for level in part.levels)
        if loops and all(isinstance(level, Loop) and level.kind == "L" for level in part.levels):
            is_outermost = self.before == 1
            result["ways"] = {
                (False, False): "split",
                (False, True): "split or bound",
                (True, False): "ordered and tiled",
                (True, True): "ordered, tiled and bound",
            }[loops > 1, is_outermost]
        return result


def evaluations(program: Program, place: Place) -> int | None:
    """How often a part is evaluated; None where guards or conditions leave that open."""
    guarded = any(isinstance(level, Guard) for _, level in enclosing(program, place.path))
    if guarded or conditions_of(program, place.path, place.within or ()):
        return None
    return iterations_around(program, place.path)


def saving_terms(before: int, after: int) -> dict[str, str]:
    """Terms of how often a part is evaluated before and after, and of how many evaluations that saves."""
    saved, one, save_one = before - after, after == 1, before - after == 1
    return {
        "times_before": str(before),
        "times_after": str(after),
        "often": f"once instead of {before} times" if one else f"{after} times instead of {before}",
        "enough": "1 is enough" if one else f"{after} are enough",
        "values_after": counted(after, "value"),
        "evaluations_after": counted(after, "evaluation"),
        "remain": "remains" if one else "remain",
        "saved": str(saved),
        "evaluations_saved": counted(saved, "evaluation"),
        "are": "is" if save_one else "are",
        "find": "finds" if save_one else "find",
        "repeat": "repeats" if save_one else "repeat",
    }


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
    chain = chain_to(program, Place(path, within))
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
    for outer, number in zip(chain_to(program, Place(path, within))[:-1], within[1:], strict=True):
        match outer:
            case Select(condition) if number > 0:
                result.append(condition if number == 1 else Unary("!", condition))
            case Binary("&&" | "||" as op, left) if number == 1:
                result.append(left if op == "&&" else Unary("!", left))
            case _:
                pass
    return result
