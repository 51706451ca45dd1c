"""The comparison of value flow against running both programs, on random rewrites of random programs."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from leir.analysis.flow import Correspondence, Origin, flow_difference
from leir.edit import replace_at, statement_at, statements_at, walk
from leir.names import substitute
from leir.syntax import Alloc, Binary, Equation, Expr, Guard, Integer, Loop, Path, Program, Stmt, Variable
from tests.leir.enumeration import affine_program, evaluate, events

Rewritten = tuple[Program, dict[Path, Origin]]


def identity(program: Program) -> dict[Path, Origin]:
    """Every equation comes from itself."""
    return {path: Origin(path, variables(program, path)) for path, node in walk(program) if isinstance(node, Equation)}


def variables(program: Program, path: Path) -> tuple[Expr, ...]:
    around = (statement_at(program, path[:length]) for length in range(1, len(path)))
    return tuple(Variable(node.variable) for node in around if isinstance(node, Loop))


def moved(program: Program, after: Program, pairs: dict[Path, Path]) -> Rewritten:
    """The rewritten program, whose equations keep their loop variables' names; `pairs`: from after to before."""
    return after, {new: Origin(old, variables(program, old)) for new, old in pairs.items()}


def swap_statements(draw: random.Random, program: Program) -> Rewritten:
    lists = [(), *(path for path, node in walk(program) if isinstance(node, Loop | Guard))]
    lists = [path for path in lists if len(statements_at(program, path)) > 1]
    if not lists:
        return program, identity(program)
    path = draw.choice(lists)
    first = draw.randrange(len(statements_at(program, path)) - 1)
    one, two = statement_at(program, (*path, first)), statement_at(program, (*path, first + 1))
    if isinstance(one, Alloc) or isinstance(two, Alloc):
        return program, identity(program)
    after = replace_at(replace_at(program, (*path, first), two), (*path, first + 1), one)

    def back(new: Path) -> Path:
        depth = len(path)
        if new[:depth] == path and new[depth] in (first, first + 1):
            return (*new[:depth], 2 * first + 1 - new[depth], *new[depth + 1 :])
        return new

    return moved(program, after, {new: back(new) for new, node in walk(after) if isinstance(node, Equation)})


def swap_loops(draw: random.Random, program: Program) -> Rewritten:
    nests = [(path, node) for path, node in walk(program) if isinstance(node, Loop) and len(node.body) == 1]
    nests = [(path, node) for path, node in nests if isinstance(node.body[0], Loop)]
    if not nests:
        return program, identity(program)
    path, outer = draw.choice(nests)
    inner = outer.body[0]
    assert isinstance(inner, Loop)
    after = replace_at(program, path, replace(inner, body=(replace(outer, body=inner.body),)))
    return moved(program, after, {new: new for new, node in walk(after) if isinstance(node, Equation)})


def reverse_loop(draw: random.Random, program: Program) -> Rewritten:
    path, loop = draw.choice([(path, node) for path, node in walk(program) if isinstance(node, Loop)])
    value = Binary("-", Integer(2 * loop.first + loop.extent - 1), Variable(loop.variable))
    return with_value(program, path, loop, value, lambda body: replace(loop, body=body))


def split_loop(draw: random.Random, program: Program) -> Rewritten:
    path, loop = draw.choice([(path, node) for path, node in walk(program) if isinstance(node, Loop)])
    factor = draw.randint(1, 3)
    outer, inner = f"{loop.variable}x", f"{loop.variable}y"
    tiles = (loop.extent + factor - 1) // factor
    value: Expr = Binary("+", Binary("*", Variable(outer), Integer(factor)), Variable(inner))
    value = Binary("+", value, Integer(loop.first))
    end = loop.first + loop.extent + draw.choice([0, 0, 0, -1, 1])

    def split(body: tuple[Stmt, ...]) -> Loop:
        guard = Guard(Binary("<", value, Integer(end)), body)
        return Loop("L", outer, tiles, 0, (Loop("L", inner, factor, 0, (guard,)),))

    return with_value(program, path, loop, value, split, (0, 0))


def with_value(
    program: Program,
    path: Path,
    loop: Loop,
    value: Expr,
    around: Callable[[tuple[Stmt, ...]], Stmt],
    deeper: Path = (),
) -> Rewritten:
    """The loop's body with its variable replaced, in other loops; `deeper`: where the body stands in those."""
    body = tuple(substitute(s, {loop.variable: value}) for s in loop.body)
    after = replace_at(program, path, around(body))
    origins: dict[Path, Origin] = {}
    for old, node in walk(program):
        if isinstance(node, Equation):
            inside = old[: len(path)] == path
            values = variables(program, old)
            if inside:
                values = tuple(value if v == Variable(loop.variable) else v for v in values)
            origins[(*path, *deeper, *old[len(path) :]) if inside else old] = Origin(old, values)
    return after, origins


def fuse(draw: random.Random, program: Program) -> Rewritten:
    """Two adjacent loops of one range become one loop."""
    places: list[tuple[Path, Loop, Loop]] = []
    for path in [(), *(path for path, node in walk(program) if isinstance(node, Loop | Guard))]:
        body = statements_at(program, path)
        for number, (one, two) in enumerate(pairwise(body)):
            if isinstance(one, Loop) and isinstance(two, Loop) and (one.extent, one.first) == (two.extent, two.first):
                places.append(((*path, number), one, two))
    if not places:
        return swap_loops(draw, program)
    path, one, two = draw.choice(places)
    renamed = tuple(substitute(s, {two.variable: Variable(one.variable)}) for s in two.body)
    second = (*path[:-1], path[-1] + 1)
    after = replace_at(replace_at(program, second), path, replace(one, body=(*one.body, *renamed)))
    origins: dict[Path, Origin] = {}
    for new, node in walk(after):
        if not isinstance(node, Equation):
            continue
        depth = len(path)
        old = new
        if new[:depth] == path and new[depth] >= len(one.body):
            old = (*second, new[depth] - len(one.body), *new[depth + 1 :])
        elif new[: depth - 1] == path[:-1] and new[depth - 1] > path[-1]:
            old = (*new[: depth - 1], new[depth - 1] + 1, *new[depth:])
        values = variables(program, old)
        if old[:depth] == second:
            values = tuple(Variable(one.variable) if v == Variable(two.variable) else v for v in values)
        origins[new] = Origin(old, values)
    return after, origins


def runs(program: Program, correspondence: Correspondence | None) -> tuple[object, ...]:
    """What every instance reads from whom, what is left at the end, and which instances there are."""
    origins = correspondence or identity(program)
    written: dict[object, object] = {}
    reads: list[object] = []
    instances: list[object] = []
    numbers: dict[object, int] = {}
    first: dict[str, str] = {}
    for _, node in walk(program):
        if isinstance(node, Equation):
            first.setdefault(node.target.tensor, node.op)
    for event in events(program):
        origin = origins[event.statement]
        assert origin is not None
        values = {loop.variable: value for _, loop, value in event.loops}
        instance = (origin.path, tuple(evaluate(value, values) for value in origin.variables))
        key = (event.tensor, event.element)
        number = numbers[instance] = numbers.get(instance, -1) + 1
        if event.mode != "write":
            source = written.get(key)
            if source is None and event.tensor in first:
                source = first[event.tensor] if first[event.tensor] != "=" else None
            reads.append((instance, number, event.op, event.tensor, source))
        if event.mode != "read":
            written[key] = instance
            instances.append(instance)
            numbers.pop(instance)
    unwritten = first.get("C", "=")
    final = {index: written.get(("C", (index,)), unwritten) for index in range(4)}
    return sorted(map(repr, reads)), sorted(map(repr, final.items())), sorted(map(repr, instances))


@pytest.mark.parametrize("rewrite", [swap_statements, swap_loops, reverse_loop, split_loop, fuse])
@pytest.mark.parametrize("number", range(60))
def test_flow_differs_exactly_where_running_differs(rewrite, number: int):
    before = affine_program(f"{rewrite.__name__} {number}")
    after, correspondence = rewrite(random.Random(number), before)
    found = flow_difference(before, after, correspondence)
    assert (found is None) == (runs(before, None) == runs(after, correspondence)), found
