"""Subtly wrong mutants and right variants of programs, drawn by a seed: what verification must refuse, and must not.

A mutant changes one thing that a person or a model gets wrong. A variant computes the same on paper with other
roundings: sums backwards or in parts, quotients as products, steps of the strategies.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from leir.analysis.access import tensors
from leir.check import check
from leir.edit import map_expression, perfect_nest, replace_at, statement_at, variables_of, walk, walk_expression
from leir.names import substitute, unused_tensor
from leir.syntax import (
    Access,
    Binary,
    Call,
    Cast,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Program,
    Real,
    Select,
    Variable,
)
from strategies.base import Refused
from strategies.catalog import strategies

Random = np.random.RandomState
Named = tuple[str, Program]

_OPERATORS = {"+": "-", "-": "+", "*": "+", "/": "*", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_FUNCTIONS = {"max": "min", "min": "max", "exp": "expm1", "tanh": "erf", "erf": "tanh", "sqrt": "abs", "log": "log1p",
              "abs": None, "sin": "tanh", "cos": "exp"}  # fmt: skip
_FILLS = {"+=": Real(1.0), "*=": Real(2.0), "max=": Real(0.0), "min=": Real(0.0)}


def _equations(program: Program) -> list[tuple[Path, Equation]]:
    return [(path, node) for path, node in walk(program) if isinstance(node, Equation)]


def _in_value(program: Program, random: Random, change: Callable[[Expr], Expr | None], name: str) -> Iterator[Named]:
    """One subexpression of one equation's value changed, of those where `change` gives another."""
    places = []
    for path, equation in _equations(program):
        for number, (_, e) in enumerate(walk_expression(equation.value)):
            new = change(e)
            if new is not None and new != e:
                places.append((path, equation, number, e, new))
    if not places:
        return
    path, equation, _, old, new = places[random.randint(len(places))]
    done: list[bool] = []

    def once(e: Expr) -> Expr:
        if e == old and not done:
            done.append(True)
            return new
        return e

    value = map_expression(equation.value, once)
    yield f"{name} at {path}", replace_at(program, path, replace(equation, value=value))


def _operator(e: Expr) -> Expr | None:
    match e:
        case Binary(op, left, right) if op in _OPERATORS and not _is_index(e):
            return Binary(_OPERATORS[op], left, right)
        case _:
            return None


def _is_index(e: Expr) -> bool:
    """Whether an expression has only loop variables and integers: subscripts are changed by a mutation of their own."""
    return not any(isinstance(part, Access | Real) for _, part in walk_expression(e))


def _function(e: Expr) -> Expr | None:
    match e:
        case Call(name, arguments) if name in _FUNCTIONS:
            other = _FUNCTIONS[name]
            return arguments[0] if other is None else Call(other, arguments)
        case _:
            return None


def _constant(e: Expr) -> Expr | None:
    return Real(e.value * 1.01) if isinstance(e, Real) and e.value and np.isfinite(e.value) else None


def _scaling(e: Expr) -> Expr | None:
    match e:
        case Binary("*" | "/", left, Real() | Integer()):
            return left
        case _:
            return None


def _sign(e: Expr) -> Expr | None:
    match e:
        case Binary("-", left, right) if not _is_index(e):
            return Binary("-", right, left)
        case _:
            return None


def _swapped_branches(e: Expr) -> Expr | None:
    return Select(e.condition, e.otherwise, e.then) if isinstance(e, Select) else None


def mutants(program: Program, random: Random) -> Iterator[Named]:
    """One mutant of each kind that the program has a place for."""
    shapes = {name: tensor.shape for name, tensor in tensors(program).items()}

    def shifted(e: Expr) -> Expr | None:
        if not isinstance(e, Access) or not e.indices:
            return None
        axis = random.randint(len(e.indices))
        size = shapes[e.tensor][axis]
        if size == 1:
            return None
        index = Binary("%", Binary("+", e.indices[axis], Integer(1)), Integer(size))
        return Access(e.tensor, (*e.indices[:axis], index, *e.indices[axis + 1 :]))

    def transposed(e: Expr) -> Expr | None:
        if not isinstance(e, Access) or len(e.indices) < 2:
            return None
        shape = shapes[e.tensor]
        if shape[-1] != shape[-2] or shape[-1] == 1:
            return None
        return Access(e.tensor, (*e.indices[:-2], e.indices[-1], e.indices[-2]))

    def narrowed(e: Expr) -> Expr | None:
        return Cast("bf16", e) if isinstance(e, Access) and shapes[e.tensor] != () else None

    for name, change in (
        ("operator", _operator), ("function", _function), ("constant by 1%", _constant), ("scaling left out", _scaling),
        ("difference turned round", _sign), ("branches swapped", _swapped_branches), ("subscript shifted", shifted),
        ("subscripts swapped", transposed), ("operand rounded to bf16", narrowed),
    ):  # fmt: skip
        yield from _in_value(program, random, change, name)
    yield from _in_loops(program, random)
    yield from _in_accumulations(program, random)
    yield from _in_elements(program, random)
    yield from _in_guards(program, random)


def _in_loops(program: Program, random: Random) -> Iterator[Named]:
    loops = [(path, node) for path, node in walk(program) if isinstance(node, Loop) and node.extent > 1]
    path, loop = loops[random.randint(len(loops))]
    yield f"last iteration of {path} left out", replace_at(program, path, replace(loop, extent=loop.extent - 1))
    path, loop = loops[random.randint(len(loops))]
    later = replace(loop, extent=loop.extent - 1, first=loop.first + 1)
    yield f"first iteration of {path} left out", replace_at(program, path, later)
    path, loop = loops[random.randint(len(loops))]
    other = Binary("!=", Variable(loop.variable), Integer(loop.first + random.randint(loop.extent)))
    yield f"an iteration of {path} left out", replace_at(program, path, replace(loop, body=(Guard(other, loop.body),)))


def _in_accumulations(program: Program, random: Random) -> Iterator[Named]:
    sums = [(path, node) for path, node in _equations(program) if node.op != "="]
    if not sums:
        return
    path, equation = sums[random.randint(len(sums))]
    other = {"+=": "max=", "max=": "+=", "min=": "max=", "*=": "+="}[equation.op]
    yield f"{equation.op} becomes {other} at {path}", replace_at(program, path, replace(equation, op=other))
    path, equation = sums[random.randint(len(sums))]
    levels = [node for _, node in perfect_nest(statement_at(program, path[:1])) if isinstance(node, Loop)]
    kept = set().union(*(variables_of(index) for index in equation.target.indices))
    start: object = Equation(equation.target, "=", _FILLS[equation.op])
    for loop in reversed(levels):
        if loop.variable in kept:
            start = Loop("L", loop.variable, loop.extent, loop.first, (start,))  # type: ignore[arg-type]
    body = (*program.body[: path[0]], start, *program.body[path[0] :])
    yield f"another start of the accumulation at {path}", replace(program, body=body)


def _in_elements(program: Program, random: Random) -> Iterator[Named]:
    """One row, column or head wrong by 1%."""
    writes = [(path, node) for path, node in _equations(program) if node.target.indices]
    path, equation = writes[random.randint(len(writes))]
    around = {
        node.variable: node
        for length in range(1, len(path))
        for node in (statement_at(program, path[:length]),)
        if isinstance(node, Loop)
    }
    named = [v for index in equation.target.indices for v in sorted(variables_of(index)) if v in around]
    if not named:
        return
    loop = around[named[random.randint(len(named))]]
    chosen = Binary("==", Variable(loop.variable), Integer(loop.first + random.randint(loop.extent)))
    if any(isinstance(e, Access) for _, e in walk_expression(equation.value)):
        value = Select(chosen, Binary("*", equation.value, Real(1.01)), equation.value)
        yield f"{loop.variable} of {path} wrong in one place", replace_at(program, path, replace(equation, value=value))


def _in_guards(program: Program, random: Random) -> Iterator[Named]:
    guards = [(path, node) for path, node in walk(program) if isinstance(node, Guard)]
    if not guards:
        return
    path, guard = guards[random.randint(len(guards))]
    done: list[bool] = []

    def moved(e: Expr) -> Expr:
        if isinstance(e, Binary) and e.op in ("<", "<=") and not done:
            done.append(True)
            return Binary(e.op, Binary("+", e.left, Integer(1)), e.right)
        return e

    yield (
        f"guard of {path} moved",
        replace_at(program, path, replace(guard, condition=map_expression(guard.condition, moved))),
    )


def variants(program: Program, random: Random, steps: int) -> Iterator[Named]:
    """Right programs: each kind once where there is a place, then `steps` legal steps of the strategies, chained."""
    rewritten = {
        "backwards": _backwards(program),
        "in two parts": _in_parts(program),
        "quotients as products": _products(program),
        "sums regrouped": _regrouped(program),
        "wider": _wider(program),
    }
    for name, new in rewritten.items():
        if new is not None and new != program and not check(new):
            yield name, new
    now, taken = program, 0
    for _ in range(8 * steps):
        if taken == steps:
            break
        kind = strategies()[random.randint(len(strategies()))]
        found = [candidate for _, candidate in zip(range(12), kind.candidates(now), strict=False)]
        if not found:
            continue
        step = found[random.randint(len(found))]
        try:
            now = step.apply(now).program
        except Refused:
            continue
        taken += 1
        yield f"{step.name} after {taken - 1} steps", now


def _backwards(program: Program) -> Program:
    """Every reduction in the opposite order."""
    for path, equation in _equations(program):
        if equation.op == "=":
            continue
        kept = set().union(*(variables_of(index) for index in equation.target.indices))
        for length in range(1, len(path)):
            loop = statement_at(program, path[:length])
            if isinstance(loop, Loop) and loop.variable not in kept and len(loop.body) == 1:
                last = Integer(2 * loop.first + loop.extent - 1)
                inner = substitute(loop.body[0], {loop.variable: Binary("-", last, Variable(loop.variable))})
                program = replace_at(program, path[:length], replace(loop, body=(inner,)))
                break
    return program


def _in_parts(program: Program) -> Program | None:
    """The first sum as two, of its first and second half, added at the end."""
    for path, equation in _equations(program):
        statement = program.body[path[0]]
        levels = [node for _, node in perfect_nest(statement)]
        if equation.op != "+=" or any(isinstance(level, Guard) for level in levels) or len(levels) != len(path):
            continue
        kept = set().union(*(variables_of(index) for index in equation.target.indices))
        reduced = [n for n, level in enumerate(levels) if level.variable not in kept and level.extent > 1]
        if not reduced:
            continue
        cut = levels[reduced[0]]
        half = cut.extent // 2
        name = unused_tensor(program)
        other = Access(name, equation.target.indices)

        def nest(chosen: Loop, target: Access, levels=levels, cut=cut, equation=equation) -> object:
            body: object = replace(equation, target=target)
            for level in reversed(levels):
                body = replace(chosen if level is cut else level, body=(body,))
            return body

        first = nest(replace(cut, extent=half), equation.target)
        second = nest(replace(cut, extent=cut.extent - half, first=cut.first + half), other)
        join: object = Equation(equation.target, "+=", other)
        for level in reversed([level for level in levels if level.variable in kept]):
            join = replace(level, body=(join,))
        body = (*program.body[: path[0]], first, second, join, *program.body[path[0] + 1 :])
        return replace(program, body=body)
    return None


def _products(program: Program) -> Program:
    return _mapped(program, lambda e: Binary("*", e.left, Binary("/", Real(1.0), e.right))
                   if isinstance(e, Binary) and e.op == "/" and not isinstance(e.left, Real) else e)  # fmt: skip


def _regrouped(program: Program) -> Program:
    """(a + b) + c as a + (b + c), products likewise."""

    def regroup(e: Expr) -> Expr:
        match e:
            case Binary(op, Binary(inner, a, b), c) if op == inner and op in "+*" and not _is_index(e):
                return Binary(op, a, Binary(op, b, c))
            case Binary(op, a, b) if op in "+*" and not _is_index(e):
                return Binary(op, b, a)
            case _:
                return e

    return _mapped(program, regroup)


def _wider(program: Program) -> Program:
    """Every read of f32 in f64."""
    return _mapped(program, lambda e: Cast("f64", e) if isinstance(e, Access) else e)


def _mapped(program: Program, change: Callable[[Expr], Expr]) -> Program:
    for path, equation in _equations(program):
        program = replace_at(program, path, replace(equation, value=map_expression(equation.value, change)))
    return program
