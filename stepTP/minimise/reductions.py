"""The reductions, in the order in which they are taken: what gives smaller candidates of the best subject so far.

Each gives its candidates from the boldest on. None needs to be right: a candidate that is ill formed, does not apply or
does not fail the same way is not taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from leir.edit import (
    accesses,
    expressions,
    map_statement,
    replace_at,
    replace_expression_at,
    storage,
    tensors_written,
    walk,
    walk_expression,
    with_dtypes,
)
from leir.parser import parse
from leir.syntax import (
    DTYPES,
    Access,
    Alloc,
    Declaration,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Stmt,
    equation,
    operands,
)
from stepTP.minimise.edits import (
    Moves,
    map_statements,
    pruned,
    put,
    then,
    unwrapped,
    with_parts,
    with_programs,
    within_operand,
    without,
)
from stepTP.minimise.extents import less_than, reached_shape, smaller
from stepTP.minimise.search import Search
from stepTP.minimise.subject import Subject, integers_of

Item = TypeVar("Item")


def chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """All of them, then each half, each quarter, and so on down to single ones: ddmin's complements leave these out."""
    size = len(items)
    while size:
        yield from (items[start : start + size] for start in range(0, len(items), size))
        size //= 2


def fewer_steps(search: Search) -> Iterator[Subject]:
    """A start nearer to what fails, and steps left out; one proposal in place of all that a strategy has."""
    best = search.best
    states = search.states() if len(best.steps) > 1 else ()
    for number in range(len(states) - 1, 0, -1):
        yield replace(best, program=parse(states[number]), steps=best.steps[number:])
    for gone in chunks(range(len(best.steps))):
        if len(gone) < len(best.steps):
            yield replace(best, steps=tuple(s for n, s in enumerate(best.steps) if n not in gone))
    if best.steps and not best.steps[-1].args:
        for proposal in search.proposals():
            yield replace(best, steps=(*best.steps[:-1], proposal))


def fewer_outputs(search: Search) -> Iterator[Subject]:
    """Outputs left out, with what leads to nothing else; in their place a temporary, which ends the program there."""
    best = search.best
    names = [d.tensor for d in best.program.outputs]
    for gone in chunks(names):
        if len(gone) < len(names):
            program, moves = _with_outputs(best.program, gone)
            against = _with_outputs(best.against, gone)[0] if best.against is not None else None
            yield from with_programs(best, program, against, moves)
    if best.against is None:
        for declared in _temporaries(best.program):
            program, moves = _without_allocation(replace(best.program, outputs=(declared,)), declared.tensor)
            yield from with_programs(best, program, None, moves)
    program, moves = pruned(best.program)
    yield from with_programs(best, program, pruned(best.against)[0] if best.against is not None else None, moves)


def _with_outputs(program: Program, gone: Sequence[str]) -> tuple[Program, Moves]:
    return pruned(replace(program, outputs=tuple(d for d in program.outputs if d.tensor not in gone)))


def _without_allocation(program: Program, tensor: str) -> tuple[Program, Moves]:
    """The pruned program in which the tensor is no longer declared by a statement."""
    paths = [path for path, s in walk(program) if isinstance(s, Alloc) and s.tensor == tensor]
    parts, first = without(program, paths)
    left, second = pruned(replace(program, body=put(program.body, parts)))
    return left, then(first, second)


def _temporaries(program: Program) -> Iterator[Declaration]:
    """The global temporaries, as they would be declared in a signature, in the order in which they are written."""
    known, own = storage(program), {d.tensor for d in (*program.inputs, *program.outputs)}
    allocated = {s.tensor: s.shape for _, s in walk(program) if isinstance(s, Alloc)}
    for name in dict.fromkeys(name for statement in program.body for name in tensors_written(statement)):
        dtype, scope = known[name]
        shape = allocated.get(name) or reached_shape(program, name)
        if name not in own and scope == "g" and shape is not None:
            yield Declaration(name, dtype, shape)


def fewer_inputs(search: Search) -> Iterator[Subject]:
    """Inputs left out that nothing reads; one stays if none is read."""
    best = search.best
    programs = [p for p in (best.program, best.against) if p is not None]
    read = {access.tensor for program in programs for access in accesses(program)}
    inputs = tuple(d for d in best.program.inputs if d.tensor in read) or best.program.inputs[:1]
    program, *others = [replace(p, inputs=inputs) for p in programs]
    yield replace(best, program=program, against=others[0] if others else None)


def later_beginnings(search: Search) -> Iterator[Subject]:
    """A temporary is an input, and what computes it is left out; the last ones first."""
    best = search.best
    for declared in [*_temporaries(best.program)][::-1]:
        program, moves, cut = _fed(best.program, declared)
        if best.against is None:
            yield from with_programs(best, program, None, moves)
            continue
        against, _, other = _fed(best.against, declared)
        if cut == other:
            yield from with_programs(best, program, against, moves)


def _fed(program: Program, declared: Declaration) -> tuple[Program, Moves, list[Stmt]]:
    """The program that gets a tensor as an input, and the outermost statements that computed it."""
    writes = [
        path
        for path, s in walk(program)
        if (isinstance(s, Equation) and s.target.tensor == declared.tensor)
        or (isinstance(s, Alloc) and s.tensor == declared.tensor)
    ]
    parts, first = without(program, writes)
    left, second = pruned(Program((*program.inputs, declared), program.outputs, put(program.body, parts)))
    return left, then(first, second), [program.body[number] for number in parts]


def smaller_sizes(search: Search) -> Iterator[Subject]:
    return smaller(search.best)


def fewer_statements(search: Search) -> Iterator[Subject]:
    """Statements left out, level by level of the tree."""
    best = search.best
    levels: dict[int, list[Path]] = {}
    for path, _ in walk(best.program):
        levels.setdefault(len(path), []).append(path)
    for depth in sorted(levels):
        for gone in chunks(levels[depth]):
            yield from with_parts(best, *without(best.program, gone))


def fewer_levels(search: Search) -> Iterator[Subject]:
    """The body of a loop, at its first iteration, or of a guard in its place."""
    best = search.best
    for path, statement in walk(best.program):
        if isinstance(statement, Loop | Guard):
            yield from with_parts(best, *unwrapped(best.program, path))


def smaller_expressions(search: Search) -> Iterator[Subject]:
    """A number in place of a subexpression, or one of its operands, the largest first."""
    best = search.best
    for path, statement in walk(best.program):
        for number, expression in enumerate(expressions(statement)):
            for within, part in walk_expression(expression, (number,)):
                place = Place(path, within)
                if isinstance(statement, Equation) and within == (0,):
                    continue
                for new in _NUMBERS:
                    yield from _with_expression(best, place, new)
                for at, operand in enumerate(() if isinstance(part, Access) else operands(part)):
                    yield from _with_expression(within_operand(best, place, at), place, operand)


_NUMBERS: tuple[Expr, ...] = (Real(1.0), Integer(0), Integer(1))


def _with_expression(subject: Subject, place: Place, new: Expr) -> Iterator[Subject]:
    program, number = replace_expression_at(subject.program, place, new), place.path[0]
    yield from with_parts(subject, {number: (program.body[number],)})


def fewer_axes(search: Search) -> Iterator[Subject]:
    """A tensor without one of its axes."""
    best = search.best
    ranks = {access.tensor: len(access.indices) for access in accesses(best.program)}
    ranks |= {d.tensor: len(d.shape) for d in (*best.program.inputs, *best.program.outputs)}
    for tensor, rank in ranks.items():
        for axis in range(rank):
            against = _without_axis(best.against, tensor, axis) if best.against is not None else None
            yield from with_programs(best, _without_axis(best.program, tensor, axis), against)


def _without_axis(program: Program, tensor: str, axis: int) -> Program:
    def less(items: tuple[Item, ...]) -> tuple[Item, ...]:
        return (*items[:axis], *items[axis + 1 :])

    def access(expression: Expr) -> Expr:
        if isinstance(expression, Access) and expression.tensor == tensor:
            return replace(expression, indices=less(expression.indices))
        return expression

    def declared(declarations: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
        return tuple(replace(d, shape=less(d.shape)) if d.tensor == tensor else d for d in declarations)

    def plain(statement: Stmt) -> Stmt:
        if isinstance(statement, Alloc):
            return replace(statement, shape=less(statement.shape)) if statement.tensor == tensor else statement
        return statement

    body = tuple(map_statements(map_statement(statement, access), plain) for statement in program.body)
    return Program(declared(program.inputs), declared(program.outputs), body)


def fewer_marks(search: Search) -> Iterator[Subject]:
    """Serial loops, plain stores, f32: everywhere, then at one place after the other."""
    best = search.best
    for dtype in DTYPES:
        against = with_dtypes(best.against, {dtype: "f32"}) if best.against is not None else None
        yield from with_programs(best, with_dtypes(best.program, {dtype: "f32"}), against)
    everywhere = {n: (map_statements(s, _unmarked),) for n, s in enumerate(best.program.body)}
    yield from with_parts(best, {n: new for n, new in everywhere.items() if new != (best.program.body[n],)})
    for path, statement in walk(best.program):
        plain = _unmarked(statement)
        if plain != statement:
            program = replace_at(best.program, path, plain)
            yield from with_parts(best, {path[0]: (program.body[path[0]],)})


def _unmarked(statement: Stmt) -> Stmt:
    match statement:
        case Loop():
            return replace(statement, kind="L")
        case Alloc():
            return replace(statement, dtype="f32")
        case Equation(target, _, value):
            return equation(target, "=", value)
        case Guard():
            return statement


def smaller_numbers(search: Search) -> Iterator[Subject]:
    """Smaller arguments of steps, first values of loops, and literals."""
    best = search.best
    for number, step in enumerate(best.steps):
        for name, value in integers_of(step).items():
            for new in less_than(value):
                changed = step.model_copy(update={"args": {**step.args, name: new}})
                yield replace(best, steps=(*best.steps[:number], changed, *best.steps[number + 1 :]))
    for path, statement in walk(best.program):
        if isinstance(statement, Loop) and statement.first:
            program = replace_at(best.program, path, replace(statement, first=0))
            yield from with_parts(best, {path[0]: (program.body[path[0]],)})
        for number, expression in enumerate(expressions(statement)):
            for within, part in walk_expression(expression, (number,)):
                match part:
                    case Integer(value):
                        news = [Integer(new) for new in less_than(value)]
                    case Real(value) if value not in (0.0, 1.0):
                        news = [Real(1.0), Real(2.0)]
                    case _:
                        news = []
                for new in news:
                    yield from _with_expression(best, Place(path, within), new)


REDUCTIONS: tuple[Callable[[Search], Iterator[Subject]], ...] = (
    fewer_steps,
    fewer_outputs,
    fewer_inputs,
    later_beginnings,
    smaller_sizes,
    fewer_statements,
    fewer_levels,
    smaller_expressions,
    fewer_axes,
    fewer_marks,
    smaller_numbers,
)
