"""Programs in words: what each top-level statement computes, read off its equations."""

from collections.abc import Iterator

from leir.edit import accesses, allocations_in, perfect_nest, variables_of, walk
from leir.printer import expression_text
from leir.syntax import Alloc, Equation, Guard, Loop, Program, Stmt
from strategies.base import counted, listed

_SHOWN = 44  # characters of an expression that a sentence still carries
_VERBS = {"+=": "sums", "*=": "multiplies", "max=": "takes the maximum of", "min=": "takes the minimum of"}


def purpose(statement: Stmt, about: Equation | None = None) -> str:
    """What a top-level statement does: `takes the maximum of A_{i,j} over j into D`, with at most two equations.

    `about`: one that is to be among these, if it is the statement's; else they are the first two.
    """
    found = list(_equations(statement, (), {}))
    if not found:
        return f"declares {listed(alloc.tensor for _, alloc in allocations_in(statement))}"
    own = next((number for number, (equation, _) in enumerate(found) if equation is about), 1)
    shown = [_equation(equation, loops) for equation, loops in (found[0], *found[max(own, 1) : max(own, 1) + 1])]
    rest = len(found) - len(shown)
    if rest:
        shown.append(f"has {counted(rest, 'more equation')}")
    return listed(shown)


def loops_text(statement: Stmt) -> str:
    """The loops of a nest's header: `i, j of 16*512`; empty for a statement without loops."""
    loops = [level for _, level in perfect_nest(statement) if isinstance(level, Loop)]
    if not loops:
        return ""
    return f"{', '.join(loop.variable for loop in loops)} of {'*'.join(str(loop.extent) for loop in loops)}"


def kinds(program: Program) -> dict[str, list[tuple[int, str]]]:
    """The loops that are not serial, by kind: the number of the top-level statement, and the variable."""
    result: dict[str, list[tuple[int, str]]] = {}
    for path, node in walk(program):
        if isinstance(node, Loop) and node.kind != "L":
            result.setdefault(node.kind, []).append((path[0], node.variable))
    return result


def _equations(
    statement: Stmt, loops: tuple[Loop, ...], begun: dict[str, tuple[Loop, ...]]
) -> Iterator[tuple[Equation, tuple[Loop, ...]]]:
    """Each equation with the loops around it in which its target is one and the same: those within its declaration,
    or within what it was last set in. `begun`: the loops around that, by tensor."""
    match statement:
        case Equation(target, op):
            around = begun.get(target.tensor, ())
            shared = sum(1 for one, other in zip(around, loops, strict=False) if one is other)
            yield statement, loops[shared:]
            if op == "=":
                begun[target.tensor] = loops
        case Loop(body=body):
            for inner in body:
                yield from _equations(inner, (*loops, statement), begun)
        case Guard(body=body):
            for inner in body:
                yield from _equations(inner, loops, begun)
        case Alloc(tensor):
            begun[tensor] = loops


def _equation(equation: Equation, loops: tuple[Loop, ...]) -> str:
    text = expression_text(equation.value)
    value = text if len(text) <= _SHOWN else f"an expression of {listed(_tensors(equation) or ('loop variables',))}"
    if equation.op == "=":
        return f"sets {equation.target.tensor} to {value}"
    kept = variables_of(equation.target)
    reduced = [loop.variable for loop in loops if loop.variable not in kept]
    over = f" over {listed(reduced)}" if reduced else ""
    return f"{_VERBS[equation.op]} {value}{over} into {equation.target.tensor}"


def _tensors(equation: Equation) -> tuple[str, ...]:
    return tuple(dict.fromkeys(access.tensor for access in accesses(equation.value)))
