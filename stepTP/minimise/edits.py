"""Edits of a subject that keep its parts in step: the paths of its steps, and the program that it should equal.

An edit of statements is made in `against` too, at the statement with the same text, and cannot be made where there is
none: one that is made on one side alone would only make the two differ.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from leir.edit import accesses, replace_at, statement_at, tensors_written, walk
from leir.names import substitute_each
from leir.syntax import Alloc, Equation, Guard, Loop, Path, Place, Program, Stmt, integer
from stepTP.minimise.subject import Subject
from stepTP.records import Step

Moves = Callable[[Path], Path | None]  # from a statement's path to its path after the edit; None: it is gone
Parts = Mapping[int, tuple[Stmt, ...]]  # outermost statements by number, and what is to stand in their places


def stay(path: Path) -> Path:
    return path


def with_parts(subject: Subject, parts: Parts, moves: Moves = stay) -> Iterator[Subject]:
    """The subject with outermost statements replaced, in both of its programs."""
    program, against = _put(subject.program, parts), subject.against
    if program is None:
        return
    if against is not None:
        places = {number: _places(against, subject.program.body[number]) for number in parts}
        if any(len(found) != 1 for found in places.values()):
            return
        against = _put(against, {places[number][0]: new for number, new in parts.items()})
        if against is None:
            return
    yield from with_programs(subject, program, against, moves)


def with_programs(
    subject: Subject, program: Program, against: Program | None, moves: Moves = stay
) -> Iterator[Subject]:
    """The subject with other programs; its steps follow what they are about.

    What an edit does to the programs between steps is not known: later steps are moved like the first, or stay.
    """
    changed = replace(subject, program=program, against=against)
    if not subject.steps:
        yield changed
        return
    moved = [moved_step(step, moves) for step in subject.steps]
    if moved[0] is None:
        return
    if all(moved):
        yield replace(changed, steps=tuple(step for step in moved if step))
    if len(moved) > 1:
        yield replace(changed, steps=(moved[0], *subject.steps[1:]))


def moved_step(step: Step, moves: Moves) -> Step | None:
    """The step with its paths moved; None where a place that it is about is gone.

    Of the arguments of strategies, lists of numbers are paths, but for `within`, which starts at the statement.
    """

    def moved(value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], list):
            below = [moved(item) for item in value]
            return None if None in below else below
        if isinstance(value, list):
            path = moves(tuple(value))
            return None if path is None else list(path)
        return value

    args = {name: value if name == "within" else moved(value) for name, value in step.args.items()}
    gone = any(new is None and step.args[name] is not None for name, new in args.items())
    return None if gone else step.model_copy(update={"args": args})


def without(program: Program, gone: Collection[Path]) -> tuple[Parts, Moves]:
    """What leaves these statements out; loops and guards in which nothing but declarations is left go too."""
    moved: dict[Path, Path] = {}

    def kept(body: tuple[Stmt, ...], path: Path, new: Path) -> tuple[Stmt, ...]:
        result: list[Stmt] = []
        for number, statement in enumerate(body):
            here, there = (*path, number), (*new, len(result))
            if here in gone:
                continue
            if isinstance(statement, Loop | Guard):
                below = kept(statement.body, here, there)
                if all(isinstance(s, Alloc) for s in below):
                    continue
                statement = statement if below == statement.body else replace(statement, body=below)
            moved[here] = there
            result.append(statement)
        return tuple(result)

    left = kept(program.body, (), ())
    parts: dict[int, tuple[Stmt, ...]] = {}
    for number, statement in enumerate(program.body):
        there = moved.get((number,))
        new = () if there is None else (left[there[0]],)
        if new != (statement,):
            parts[number] = new
    return parts, moved.get


def unwrapped(program: Program, path: Path) -> tuple[Parts, Moves]:
    """What puts the body of a loop, at its first iteration, or of a guard in its place."""
    match statement_at(program, path):
        case Loop(_, variable, _, first, body):
            new = substitute_each(body, {variable: integer(first)})
        case Guard(body=body):
            new = body
        case Equation() | Alloc() as statement:
            raise ValueError(f"nothing stands below {statement}")
    last = len(path) - 1

    def moves(old: Path) -> Path | None:
        if old[:last] != path[:last] or len(old) <= last or old[last] < path[last] or old == path:
            return old
        if old[last] > path[last]:
            return (*old[:last], old[last] + len(new) - 1, *old[last + 1 :])
        return (*path[:last], path[last] + old[last + 1], *old[last + 2 :])

    changed = replace_at(program, path, *new)
    kept = len(changed.body) - len(program.body) + 1
    return {path[0]: changed.body[path[0] : path[0] + kept]}, moves


def within_operand(subject: Subject, place: Place, operand: int) -> Subject:
    """The subject for which an operand of what stands at `place` takes the place of that: where its first step is about
    a part of the operand, the child numbers lose the operand's."""
    first = subject.steps[0] if subject.steps else None
    if first is None or first.args.get("path") != list(place.path):
        return subject
    within, above = first.args.get("within") or [], [*(place.within or ()), operand]
    if within[: len(above)] != above:
        return subject
    args = {**first.args, "within": [*above[:-1], *within[len(above) :]]}
    return replace(subject, steps=(first.model_copy(update={"args": args}), *subject.steps[1:]))


def pruned(program: Program) -> tuple[Program, Moves]:
    """The program without what leads to no output, and without inputs that nothing reads (but the first, if none is
    read)."""
    needed = {d.tensor for d in program.outputs}
    while not (read := _read_for(program, needed)) <= needed:
        needed |= read
    gone = {path for path, s in walk(program) if not isinstance(s, Loop | Guard) and _target(s) not in needed}
    parts, moves = without(program, gone)
    body = put(program.body, parts)
    inputs = tuple(d for d in program.inputs if d.tensor in needed) or program.inputs[:1]
    return Program(inputs, program.outputs, body), moves


def _read_for(program: Program, needed: Collection[str]) -> set[str]:
    """The tensors that are read where one of those that are needed is written."""
    read: set[str] = set()
    for _, statement in walk(program):
        match statement:
            case Guard(condition=condition) if not set(tensors_written(statement)).isdisjoint(needed):
                read |= {access.tensor for access in accesses(condition)}
            case Equation(target=target) if target.tensor in needed:
                read |= {access.tensor for access in accesses(statement)}
            case _:
                pass
    return read


def _target(statement: Equation | Alloc) -> str:
    return statement.tensor if isinstance(statement, Alloc) else statement.target.tensor


def put(body: tuple[Stmt, ...], parts: Parts) -> tuple[Stmt, ...]:
    """The outermost statements with those of `parts` replaced."""
    return tuple(chain.from_iterable(parts.get(number, (s,)) for number, s in enumerate(body)))


def then(first: Moves, second: Moves) -> Moves:
    """Where a statement is after two edits."""
    return lambda path: None if (there := first(path)) is None else second(there)


def map_statements(statement: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """`change` applied to the statement and to all below it, those below first."""
    if isinstance(statement, Loop | Guard):
        statement = replace(statement, body=tuple(map_statements(s, change) for s in statement.body))
    return change(statement)


def _put(program: Program, parts: Parts) -> Program | None:
    body = put(program.body, parts)
    return replace(program, body=body) if body else None


def _places(program: Program, statement: Stmt) -> list[int]:
    return [number for number, own in enumerate(program.body) if own == statement]
