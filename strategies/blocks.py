"""A loop cut in blocks: the index of an iteration, the guard of a last block that is not full, and what a block uses.

Shared by the strategies that split loops.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from leir.analysis.cost import NestCost, cost
from leir.analysis.types import is_float, promote, type_of
from leir.edit import dtypes, enclosing, perfect_nest, replace_at, statement_at, walk
from leir.syntax import Alloc, Binary, Equation, Expr, Guard, Integer, Loop, Path, Program, Stmt, Variable


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


def first_block(program: Program, sizes: Mapping[Path, int]) -> NestCost | None:
    """What the first iterations of loops take, as many of each as `sizes` says by its path, the outermost loop first.

    In one iteration of the loops around these. None where a guard stands around them, or an element cannot be counted.
    """
    path = next(iter(sizes))
    for loop_path, size in sizes.items():
        loop = statement_at(program, loop_path)
        assert isinstance(loop, Loop)
        program = replace_at(program, loop_path, replace(loop, extent=size))
    alone = statement_at(program, path)
    for number, (_, level) in reversed(list(zip(path[1:], enclosing(program, path), strict=True))):
        if isinstance(level, Guard):
            return None
        declared = (s for n, s in enumerate(level.body) if isinstance(s, Alloc) and n != number)
        alone = replace(level, extent=1, body=(*declared, alone))
    (nest,) = cost(replace(program, body=(*(s for s in program.body if isinstance(s, Alloc)), alone))).nests
    return nest if all(one.elements.exact for one in (*nest.reads, *nest.writes)) else None


def is_used_again(program: Program, sizes: Mapping[Path, int]) -> bool | None:
    """Whether two iterations of a block, as `first_block` takes it, use one element; None where that is not known."""
    block, one = first_block(program, sizes), first_block(program, dict.fromkeys(sizes, 1))
    if block is None or one is None:
        return None
    apart, together = ([each.elements.value for each in (*nest.reads, *nest.writes)] for nest in (one, block))
    if len(apart) != len(together):
        return None
    count = prod(sizes.values())
    return any(whole < count * part for whole, part in zip(together, apart, strict=True))


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
