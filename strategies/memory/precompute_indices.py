"""Computes a subscript once for every value of the loops it depends on, and reads it from a table from then on.

    Before    L^{n,m}_{x,y}[...A_{f(x)}...]
    After     I^{i32,g}_{n};L^{n}_{i}[I_i=f(i);] L^{n,m}_{x,y}[...A_{I_x}...]

The table has a dimension for each loop that the expression depends on. Every subscript below the innermost of these
loops that has the expression, of what is read, looks it up; what is written stays as it is, since a table does not show
that every element is. Conditions on these loops alone that guard all of these places guard the filling too.

Legal when: the expression stands in a subscript of what is read, computes something of loop variables alone, has values
of 32 bits, and is computed more often than the table has entries. That the subscripts it stands in stay in range is
proved again, from the table's single equation and its guard.

Pays when: the expression is dear (divisions and remainders) and used again and again: then a load from a small table,
which stays in cache, is cheaper.

Leads to: set_storage_scope, operator_fusion.

Inverse: compute_inline (of the table).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import ClassVar

from leir.analysis.affine import Interval, interval
from leir.analysis.model import statements_of
from leir.analysis.nestforms import conjuncts
from leir.edit import (
    accesses,
    enclosing,
    expression_at,
    expressions,
    expressions_to,
    insert_at,
    iterations_around,
    map_expression,
    nested,
    replace_at,
    statement_at,
    variables_of,
    walk,
    walk_expression,
)
from leir.names import substitute_in, unused_tensor, variable_sequence
from leir.printer import expression_text
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Equation,
    Expr,
    Guard,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Select,
    Stmt,
    Variable,
)
from strategies.base import BitExact, Fact, Level, Strategy, counted, listed, numbered, path_text

DIVISIONS = ("//", "%")  # a candidate has one of these, or two operations
LARGEST = 2**31 - 1


class PrecomputeIndices(Strategy):
    name: ClassVar[str] = "precompute_indices"
    level: ClassVar[Level] = "memory"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "The subscript {index} at {path} {divides} in each of {times} iterations; for {looked_up}, {entries} would do, "
        "one for each iteration of {loops}{kept}.",
        "The subscript {index} at {path} depends on {loops} alone, and is computed in {times} iterations, where "
        "{entries} would do for {looked_up}{kept}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "A table {table}, filled at {filled}, holds {index} for each iteration of {loops}; {places} {read} {entry} "
        "instead{kept}.",
        "In the subscripts of {looked_up}, {index} becomes {entry}, an entry of the table {table} that a nest at "
        "{filled} fills once{kept}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "For the reads of {looked_up}, {index} is computed in the table alone, {bytes}, and loaded in {times} "
        "iterations{kept}. The elements touched are the same, so every bit stays.",
        "A table of {bytes} is read where the subscripts of {looked_up} computed {index}{kept}. No value of another "
        "tensor changes: every bit stays.",
    )

    path: Path
    within: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["PrecomputeIndices"]:
        for path, statement in walk(program):
            seen: list[Expr] = []
            for number, whole in enumerate(expressions(statement)):
                for within, part in walk_expression(whole):
                    if not isinstance(part, Access) or _is_target(statement, (number, *within)):
                        continue
                    for index in range(len(part.indices)):
                        place = (number, *within, index)
                        inner = part.indices[index]
                        if inner not in seen and _is_dear(inner) and _depends_on_loops_alone(inner):
                            seen.append(inner)
                            step = cls(path=path, within=place)
                            if step._times(program) > prod(step._table(program).shape):
                                yield step

    def facts(self, program: Program) -> Iterator[Fact]:
        chain = _chain(program, self.path, self.within)
        at = f"{path_text(self.within)} within the statement at {path_text(self.path)}"
        found = expression_text(chain[-1]) if chain else "no expression"
        yield Fact("expression-is-there", bool(chain), f"{found} stands at {at}")
        index = chain[-1]
        outer = [each.tensor for each in chain[:-1] if isinstance(each, Access)]
        where = f"part of a subscript of {outer[-1]}" if outer else "no part of a subscript"
        yield Fact("stands-in-a-subscript", bool(outer), f"{found} is {where}")
        access = max(n for n, outer in enumerate(chain[:-1], 1) if isinstance(outer, Access))
        written = _is_target(statement_at(program, self.path), self.within[:access])
        element = expression_text(chain[access - 1])
        what = "sets" if written else "reads"
        if not isinstance(statement_at(program, self.path), Equation):
            what = "asks for"
        evidence = f"the statement at {path_text(self.path)} {what} {element}"
        yield Fact("element-is-read", not written, evidence)
        names = sorted(variables_of(index))
        own = _depends_on_loops_alone(index) and not isinstance(index, Variable) and not _has_floats(index)
        evidence = (
            f"{found} is computed from {listed(names)} alone" if own else f"{found} is not computed from loops alone"
        )
        yield Fact("depends-on-loops-alone", own, evidence)
        table = self._table(program)
        ranges: dict[str, Interval] = {
            loop.variable: (loop.first, loop.first + loop.extent - 1) for loop in table.loops
        }
        low, high = interval(index, ranges)
        yield Fact("values-fit-the-table", -LARGEST <= low <= high <= LARGEST, f"{found} is between {low} and {high}")
        entries, times = prod(table.shape), self._times(program)
        most = "up to " if self._is_conditional(program) else ""
        evidence = f"{found} is computed in {most}{counted(times, 'iteration')}, for a table of {entries}"
        yield Fact("is-used-again", times > entries, evidence)

    def rewrite(self, program: Program) -> Program:
        index, table = expression_at(program, self._place()), self._table(program)

        def entry_for(part: Expr) -> Expr:
            return table.entry if part == index else part

        def looked_up(expression: Expr) -> Expr:
            if not isinstance(expression, Access):
                return expression
            return Access(expression.tensor, tuple(map_expression(part, entry_for) for part in expression.indices))

        below = _map_reads(statement_at(program, table.innermost), looked_up)
        after = replace_at(program, table.innermost, below)
        names = dict(zip((loop.variable for loop in table.loops), variable_sequence(), strict=False))
        own: dict[str, Expr] = {old: Variable(new) for old, new in names.items()}
        filled = substitute_in(Equation(table.entry, "=", index).target, own)
        assert isinstance(filled, Access)
        loops = [replace(loop, kind="L", variable=names[loop.variable], body=()) for loop in table.loops]
        conditions = [substitute_in(condition, own) for condition in self._conditions(program, table)]
        guards = [Guard(reduce(partial(Binary, "&&"), conditions), ())] if conditions else []
        fill = nested([*loops, *guards], (Equation(filled, "=", substitute_in(index, own)),))
        return insert_at(after, (self.path[0],), Alloc(table.entry.tensor, "i32", "g", table.shape), *fill)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        index, table = expression_at(before, self._place()), self._table(before)
        below = statement_at(after, (table.innermost[0] + 2, *table.innermost[1:]))
        places = sum(access.tensor == table.entry.tensor for access in accesses(below))
        holders = [access for access in accesses(below) if access.tensor != table.entry.tensor]
        reads = [a.tensor for a in holders if any(_has(part, table.entry) for part in a.indices)]
        keep = [a.tensor for a in holders if any(_has(part, index) for part in a.indices)]
        entries = prod(table.shape)
        result = {
            "path": path_text(self.path),
            "index": expression_text(index),
            "entry": expression_text(table.entry),
            "table": table.entry.tensor,
            "filled": path_text((self.path[0] + 1,)),
            "loops": listed(loop.variable for loop in table.loops),
            "places": numbered(places, "place"),
            "read": "reads" if places == 1 else "read",
            "looked_up": listed(dict.fromkeys(reads)),
            "kept": f"; the subscripts of {listed(dict.fromkeys(keep))} keep it" if keep else "",
            "entries": f"{'up to ' if self._conditions(before, table) else ''}{entries}",
            "times": f"{'up to ' if self._is_conditional(before) else ''}{self._times(before)}",
            "bytes": f"{4 * entries} bytes",
        }
        if any(isinstance(part, Binary) and part.op in DIVISIONS for _, part in walk_expression(index)):
            result["divides"] = "divides"
        return result

    def _place(self) -> Place:
        return Place(self.path, self.within)

    def _times(self, program: Program) -> int:
        """How often the expression is computed at its place, guards left out of account."""
        return iterations_around(program, self.path)

    def _is_conditional(self, program: Program) -> bool:
        """Whether a guard or a choice may leave the expression out."""
        around = [*(node for _, node in enclosing(program, self.path)), *_chain(program, self.path, self.within)]
        return any(
            isinstance(node, Guard | Select) or (isinstance(node, Binary) and node.op in ("&&", "||"))
            for node in around
        )

    def _conditions(self, program: Program, table: "_Table") -> list[Expr]:
        """What holds wherever the expression is looked up, as far as the table's loops and no tensor decide it."""
        index = expression_at(program, self._place())
        loops = {loop.variable for loop in table.loops}
        found: list[list[Expr]] = []
        for statement in statements_of(program):
            if statement.path[: len(table.innermost)] != table.innermost:
                continue
            names = [loop.variable for _, loop in statement.loops]
            for use in statement.uses:
                if use.mode == "read" and any(
                    part == index for i in use.access.indices for _, part in walk_expression(i)
                ):
                    held = [*(guard.condition for _, guard in statement.guards)]
                    held += [condition for condition, holds in use.conditions if holds]
                    found.append(
                        [part for each in held for part in conjuncts(each)] if len(set(names)) == len(names) else []
                    )
        first, *others = found
        return [
            part
            for part in dict.fromkeys(first)
            if variables_of(part) <= loops and not any(accesses(part)) and all(part in other for other in others)
        ]

    def _table(self, program: Program) -> "_Table":
        names = variables_of(expression_at(program, self._place()))
        around = [(path, node) for path, node in enclosing(program, self.path) if isinstance(node, Loop)]
        used = [(path, loop) for path, loop in around if loop.variable in names]
        loops = tuple(loop for _, loop in used)
        entry = Access(unused_tensor(program), tuple(Variable(loop.variable) for loop in loops))
        return _Table(loops, entry, used[-1][0])


@dataclass(frozen=True, slots=True)
class _Table:
    """The loops that an expression depends on, from the outside in, its `entry` there, and the path of the last."""

    loops: tuple[Loop, ...]
    entry: Access
    innermost: Path

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(loop.first + loop.extent for loop in self.loops)


def _chain(program: Program, path: Path, within: Path) -> list[Expr]:
    """The expressions from a statement's own down to the one at a place; empty where there is none."""
    try:
        return expressions_to(program, Place(path, within))
    except LookupError:
        return []


def _has(expression: Expr, part: Expr) -> bool:
    """Whether an expression is the part, or contains it."""
    return any(found == part for _, found in walk_expression(expression))


def _is_target(statement: Stmt, within: Path) -> bool:
    """Whether an equation's target stands at a place in a statement."""
    return isinstance(statement, Equation) and within == (0,)


def _map_reads(statement: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """`change` applied to every subexpression in a statement and below but the targets of equations themselves."""
    match statement:
        case Equation(target, op, value):
            indices = tuple(map_expression(index, change) for index in target.indices)
            return Equation(Access(target.tensor, indices), op, map_expression(value, change))
        case Guard(condition, body):
            return Guard(map_expression(condition, change), tuple(_map_reads(s, change) for s in body))
        case Loop(body=body):
            return replace(statement, body=tuple(_map_reads(s, change) for s in body))
        case Alloc():
            return statement


def _is_dear(expression: Expr) -> bool:
    operators = [part.op for _, part in walk_expression(expression) if isinstance(part, Binary)]
    return len(operators) > 1 or any(op in DIVISIONS for op in operators)


def _depends_on_loops_alone(expression: Expr) -> bool:
    return bool(variables_of(expression)) and not any(accesses(expression))


def _has_floats(expression: Expr) -> bool:
    parts = [part for _, part in walk_expression(expression)]
    return any(isinstance(part, Real) or (isinstance(part, Binary) and part.op in ("/", "**")) for part in parts)
