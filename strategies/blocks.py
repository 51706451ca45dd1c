"""A loop cut in blocks: the index of an iteration, and the guard of a last block that is not full.

Shared by the strategies that split loops.
"""

from dataclasses import replace

from leir.analysis.types import is_float, promote, type_of
from leir.edit import dtypes, perfect_nest, statement_at, walk
from leir.syntax import Binary, Equation, Expr, Guard, Integer, Loop, Path, Program, Stmt, Variable


def block_index(loop: Loop, factor: int, inner: str) -> Expr:
    """The value of the loop's variable in a block, which it now counts, at `inner` within the block."""
    return Binary("+", Binary("*", Variable(loop.variable), Integer(factor)), Variable(inner))


def iteration_number(loop: Loop) -> Expr:
    """The number of a loop's iteration, from 0 on."""
    variable = Variable(loop.variable)
    return Binary("-", variable, Integer(loop.first)) if loop.first else variable


def tail_guard(loop: Loop, factor: int, inner: str) -> Expr:
    """What holds for the iterations that the loop has, and for none past its end."""
    return Binary("<", block_index(loop, factor, inner), Integer(loop.first + loop.extent))


def guarded(body: tuple[Stmt, ...], condition: Expr) -> tuple[Stmt, ...]:
    """The guard below the loops of a perfect nest: a header reads nothing, so it needs no protection."""
    match body:
        case (Loop() as loop,):
            return (replace(loop, body=guarded(loop.body, condition)),)
        case _:
            return (Guard(condition, body),)


def loops_of_nest(statement: Stmt) -> list[Loop]:
    """The loops of a perfect nest, from the outside in, as far as no guard stands between."""
    result: list[Loop] = []
    for _, node in perfect_nest(statement):
        if not isinstance(node, Loop):
            break
        result.append(node)
    return result


def reorderable_accumulations(program: Program, path: Path, *, exact: bool = False) -> list[Path]:
    """The accumulations below a path whose terms' order can change nothing but roundings; with `exact`, not even those.

    A float cut to an integer at each step is none of them, nor the maximum of integers cut to fewer bits. Sums and
    products of integers wrap around, so that they are the same in any order.
    """
    result: list[Path] = []
    types = dtypes(program)
    for inner, node in walk(statement_at(program, path), path):
        if isinstance(node, Equation) and node.op != "=":
            own, value = types[node.target.tensor], type_of(node.value, types)
            if is_float(own):
                is_free = node.op in ("max=", "min=") or not exact
            elif node.op in ("max=", "min="):
                is_free = promote(own, value) == own
            else:
                is_free = not is_float(value)
            if is_free:
                result.append(inner)
    return result
