"""A nest of one equation as work that can be cut or joined: its loops, and a temporary for its results.

What `tensor_split_to_decouple_operators` and `tensor_concat_to_fuse_operators` share.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from leir.analysis.affine import is_exact
from leir.analysis.box import as_expression, as_sum, plus
from leir.analysis.matching import is_of_indices
from leir.analysis.reduction import writes_apart
from leir.edit import (
    accesses,
    insert_at,
    loops_around,
    map_expression,
    nested,
    perfect_nest,
    replace_at,
    sole_equation,
    statement_at,
    statements_at,
    variables_of,
    walk,
    walk_expression,
)
from leir.names import substitute_in, tensor_names, tensor_sequence
from leir.printer import expression_text
from leir.syntax import (
    Access,
    Alloc,
    AssignOp,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Program,
    Stmt,
    Variable,
)
from strategies.blocks import reorderable_accumulations
from strategies.parts import conditions_of

PUT: dict[AssignOp, str] = {
    "=": "copied to",
    "+=": "added to",
    "*=": "multiplied into",
    "max=": "merged by maximum into",
    "min=": "merged by minimum into",
}  # what becomes of results that go from a temporary to a target


@dataclass(frozen=True, slots=True)
class Work:
    """A perfect nest of one equation. `levels`: its loops and guards, outside first; `around`: the loops around it."""

    path: Path
    equation_path: Path
    levels: tuple[Loop | Guard, ...]
    equation: Equation
    around: tuple[Loop, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(level for level in self.levels if isinstance(level, Loop))

    @property
    def spatial(self) -> tuple[Loop, ...]:
        """The loops that the target's subscripts depend on."""
        used = variables_of(self.equation.target)
        return tuple(loop for loop in self.loops if loop.variable in used)

    @property
    def reduced(self) -> tuple[Loop, ...]:
        return tuple(loop for loop in self.loops if loop not in self.spatial)

    @property
    def target(self) -> str:
        return self.equation.target.tensor

    def indices_of(self, access: Access) -> tuple[Variable, ...]:
        """What names an element of a temporary for a read: the variables around, and its own in order."""
        own = {loop.variable for loop in self.loops}
        inside = [e for index in access.indices for _, e in walk_expression(index, ()) if isinstance(e, Variable)]
        around = [Variable(loop.variable) for loop in self.around]
        return (*around, *dict.fromkeys(variable for variable in inside if variable.name in own))

    def shape_of(self, entry: Access) -> tuple[int, ...]:
        """The shape of a temporary whose subscripts are variables of these loops and of those around."""
        ends = {loop.variable: loop.first + loop.extent for loop in (*self.around, *self.loops)}
        return tuple(ends[index.name] for index in entry.indices if isinstance(index, Variable))

    def axis(self, variable: str) -> Loop | None:
        """The loop with a variable; None if the nest has none."""
        return next((loop for loop in self.loops if loop.variable == variable), None)

    def closed(self, loops: Iterable[Loop]) -> tuple[Guard, ...]:
        """The guards that read no tensor and depend on some loops, and on those around, alone."""
        known = {loop.variable for loop in (*self.around, *loops)}
        guards = [level for level in self.levels if isinstance(level, Guard)]
        return tuple(g for g in guards if variables_of(g.condition) <= known and not any(accesses(g.condition)))


def work_at(program: Program, path: Path) -> Work | None:
    """The work of the statement at a path; None where that is no perfect nest of one equation."""
    statement = statement_at(program, path)
    found = sole_equation(statement, path)
    if found is None:
        return None
    equation_path, equation = found
    levels = tuple(replace(level, body=()) for _, level in perfect_nest(statement, path))
    return Work(path, equation_path, levels, equation, loops_around(program, path))


def works(program: Program) -> Iterator[Work]:
    """All works that are no sole statement of a loop or guard: whole nests."""
    for path, node in walk(program):
        if isinstance(node, Loop | Guard) and (len(path) == 1 or len(statements_at(program, path[:-1])) > 1):
            work = work_at(program, path)
            if work is not None:
                yield work


def moved(work: Work, loop: Loop, first: int, extent: int) -> Work:
    """The work in `extent` iterations of one of its loops from value `first` on, which then count from zero."""

    def level_of(level: Loop | Guard) -> Loop | Guard:
        if isinstance(level, Guard):
            return Guard(_moved(level.condition, loop, first), ())
        return replace(level, first=0, extent=extent) if level.variable == loop.variable else level

    target = moved_access(work.equation.target, loop, first)
    equation = Equation(target, work.equation.op, _moved(work.equation.value, loop, first))
    return replace(work, levels=tuple(map(level_of, work.levels)), equation=equation)


def moved_access(access: Access, loop: Loop, first: int) -> Access:
    """The access as the work that begins at `first` of a loop makes it."""
    new = _moved(access, loop, first)
    assert isinstance(new, Access)
    return new


def _moved(expression: Expr, loop: Loop, first: int) -> Expr:
    """An expression with `first` more than the variable in its place, subscripts written as sums again."""
    values: dict[str, Expr] = {loop.variable: plus(Variable(loop.variable), Integer(first))} if first else {}

    def tidied(node: Expr) -> Expr:
        if isinstance(node, Access):
            moving = [is_of_indices(index) and loop.variable in variables_of(index) for index in node.indices]
            sums = (as_expression(as_sum(e)) if moves else e for e, moves in zip(node.indices, moving, strict=True))
            return Access(node.tensor, tuple(sums))
        return node

    return map_expression(substitute_in(expression, values), tidied) if first else expression


def new_names(program: Program) -> Iterator[str]:
    """The tensor names that a program does not use, in order."""
    taken = tensor_names(program)
    return (name for name in tensor_sequence() if name not in taken)


def result_entry(name: str, work: Work) -> Access:
    """The element of a temporary that holds a result: a subscript for each loop around, and for each spatial one."""
    return Access(name, tuple(Variable(loop.variable) for loop in (*work.around, *work.spatial)))


def into(work: Work, entry: Access) -> Stmt:
    """The nest of the work, with its results in a temporary."""
    (nest,) = nested(work.levels, (Equation(entry, work.equation.op, work.equation.value),))
    return nest


def out_of(work: Work, entry: Access) -> Stmt:
    """The nest that takes the results of the work from a temporary to its target."""
    equation = replace(work.equation, value=entry)
    (nest,) = nested((*_serial(work.spatial), *work.closed(work.spatial)), (equation,))
    return nest


def copy_of(work: Work, access: Access, entry: Access) -> Stmt:
    """The nest that copies what an access reads to a temporary."""
    used = variables_of(access)
    loops = tuple(loop for loop in work.loops if loop.variable in used)
    (nest,) = nested((*_serial(loops), *work.closed(loops)), (Equation(entry, "=", access),))
    return nest


def plain_reads(program: Program, work: Work) -> tuple[Access, ...]:
    """What the value reads in every iteration by subscripts that are variables, or do without the nest's loops."""
    own = {loop.variable for loop in work.loops}
    found: list[Access] = []
    for within, part in walk_expression(work.equation.value, (1,)):
        if isinstance(part, Access) and not conditions_of(program, work.equation_path, within):
            moving = [index for index in part.indices if variables_of(index) & own]
            if all(isinstance(index, Variable) for index in moving) and len(set(moving)) == len(moving):
                found.append(part)
    return tuple(dict.fromkeys(found))


def _serial(loops: Iterable[Loop]) -> tuple[Loop, ...]:
    """The loops, those of vectors and unrolled ones in plain order."""
    return tuple(replace(loop, kind="L") if loop.kind in ("V", "U") else loop for loop in loops)


def declared(program: Program, tensors: Iterable[tuple[str, DType, tuple[int, ...]]]) -> Program:
    """The program with the declarations that new global temporaries need: those not of the first output's type."""
    default = program.outputs[0].dtype
    allocs = [Alloc(name, dtype, "g", shape) for name, dtype, shape in tensors if dtype != default]
    return insert_at(program, (0,), *allocs) if allocs else program


def why_guards_are_open(work: Work) -> str:
    """Why it is not known for which results a guard of the nest lets a term through; empty if it is.

    A temporary that is filled and then gets no term must not be read: the language counts on a write.
    """
    for level in work.levels:
        if isinstance(level, Guard):
            names = {name: name for name in sorted(variables_of(level.condition))}
            known = level in work.closed(work.spatial) or is_exact(level.condition, names)
            if any(accesses(level.condition)) or not known:
                return f"the guard {expression_text(level.condition)} is no condition on loops that is decided here"
    return ""


def results_lie_apart(program: Program, work: Work) -> bool:
    """Whether no two iterations of the spatial loops store one element, within one iteration of the loops around."""
    around = tuple(Variable(loop.variable) for loop in work.around)
    results, elements = next(names := new_names(program)), next(names)
    element = Access(elements, (*around, *work.equation.target.indices))
    probe = replace(work, equation=Equation(element, "=", Integer(0)))
    copy = out_of(probe, result_entry(results, work))
    alone = replace_at(program, work.path, copy)
    return writes_apart(alone, (*work.path, *(0 for _ in perfect_nest(copy))))


def keeps_order_of_terms(program: Program, work: Work) -> bool:
    """Whether results that are accumulated in a temporary, and then into the target, keep every bit.

    They do if each element of the target is one result that nothing else goes into, or if no rounding is involved.
    """
    if work.equation.op == "=" or work.equation_path in reorderable_accumulations(program, work.path, exact=True):
        return True
    others = (n for p, n in walk(program) if isinstance(n, Equation) and p != work.equation_path)
    is_whole = {loop.variable for loop in work.around} <= variables_of(work.equation.target)
    return is_whole and all(node.target.tensor != work.target for node in others)


def grouping_text(equation: Equation) -> str:
    """Why the terms of an accumulation may be grouped in any way, where they may."""
    rounds = "" if equation.op in ("max=", "min=") else ", but for rounding"
    return f"{expression_text(equation.target)} is the same however its terms are grouped{rounds}"


def reads_tensor(work: Work, tensor: str) -> bool:
    """Whether the nest reads a tensor: in the value, a subscript or a guard."""
    parts = [*work.equation.target.indices, work.equation.value]
    parts += [level.condition for level in work.levels if isinstance(level, Guard)]
    return any(access.tensor == tensor for part in parts for access in accesses(part))
