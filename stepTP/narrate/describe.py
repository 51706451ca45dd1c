"""Programs in words: what each top-level statement computes, read off its equations."""

from collections.abc import Iterable, Iterator

from leir.edit import accesses, variables_of, walk
from leir.printer import expression_text
from leir.syntax import Alloc, Equation, Guard, Loop, Program, Stmt

_SHOWN = 44  # characters of an expression that a sentence still carries
_VERBS = {"+=": "sums", "*=": "multiplies", "max=": "takes the maximum of", "min=": "takes the minimum of"}


def purpose(statement: Stmt) -> str:
    """What a top-level statement does: `takes the maximum of A_{i,j} over j into D`, with at most two equations."""
    if isinstance(statement, Alloc):
        return f"declares {statement.tensor}"
    found = list(_equations(statement, ()))
    shown = [_equation(equation, loops) for equation, loops in found[:2]]
    rest = len(found) - len(shown)
    if rest:
        shown.append(f"has {counted(rest, 'more equation')}")
    return listed(shown)


def loops_text(statement: Stmt) -> str:
    """The loops of a nest's header: `i, j of 16*512`; empty for a statement without loops."""
    loops: list[Loop] = []
    node = statement
    while isinstance(node, Loop | Guard):
        if isinstance(node, Loop):
            loops.append(node)
        if len(node.body) != 1:
            break
        node = node.body[0]
    if not loops:
        return ""
    return f"{', '.join(loop.variable for loop in loops)} of {'*'.join(str(loop.extent) for loop in loops)}"


def kinds(program: Program) -> dict[str, list[str]]:
    """The variables of loops that are not serial, by kind, each once."""
    result: dict[str, list[str]] = {}
    for _, node in walk(program):
        if isinstance(node, Loop) and node.kind != "L" and node.variable not in result.get(node.kind, []):
            result.setdefault(node.kind, []).append(node.variable)
    return result


def tensors_read(statement: Stmt) -> tuple[str, ...]:
    """The tensors that a statement reads, in order of appearance; accumulators are written, not read."""
    found: dict[str, None] = {}
    for _, node in walk_with(statement):
        match node:
            case Equation(target, _, value):
                names = [a.tensor for index in target.indices for a in accesses(index)] + [
                    a.tensor for a in accesses(value)
                ]
            case Guard(condition):
                names = [a.tensor for a in accesses(condition)]
            case _:
                names = []
        found.update(dict.fromkeys(names))
    return tuple(found)


def tensors_written(statement: Stmt) -> tuple[str, ...]:
    """The tensors that a statement writes, in order of appearance."""
    targets = (node.target.tensor for _, node in walk_with(statement) if isinstance(node, Equation))
    return tuple(dict.fromkeys(targets))


def walk_with(statement: Stmt) -> Iterator[tuple[tuple[int, ...], Stmt]]:
    """The statement itself and every statement below it."""
    yield (), statement
    yield from walk(statement)


def listed(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = list(parts) or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


def counted(count: int, noun: str) -> str:
    """`1 nest`, `2 nests`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _equations(statement: Stmt, loops: tuple[Loop, ...]) -> Iterator[tuple[Equation, tuple[Loop, ...]]]:
    match statement:
        case Equation():
            yield statement, loops
        case Loop(body=body):
            for inner in body:
                yield from _equations(inner, (*loops, statement))
        case Guard(body=body):
            for inner in body:
                yield from _equations(inner, loops)
        case Alloc():
            return


def _equation(equation: Equation, loops: tuple[Loop, ...]) -> str:
    text = expression_text(equation.value)
    value = text if len(text) <= _SHOWN else f"an expression of {listed(_tensors(equation)) or 'loop variables'}"
    if equation.op == "=":
        return f"sets {equation.target.tensor} to {value}"
    kept = set[str]().union(*(variables_of(index) for index in equation.target.indices))
    reduced = [loop.variable for loop in loops if loop.variable not in kept]
    over = f" over {', '.join(reduced)}" if reduced else ""
    return f"{_VERBS[equation.op]} {value}{over} into {equation.target.tensor}"


def _tensors(equation: Equation) -> tuple[str, ...]:
    return tuple(dict.fromkeys(access.tensor for access in accesses(equation.value)))
