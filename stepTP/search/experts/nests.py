"""What stands at the top of a program, as the experts see it: plain nests of one equation, and what each computes."""

from dataclasses import dataclass
from math import prod

from leir.edit import perfect_nest, sole_equation
from leir.syntax import Access, Binary, Equation, Guard, Loop, Program, Stmt, Variable


@dataclass(frozen=True, slots=True)
class Nest:
    """A perfect nest of serial loops from 0 on, at top level. `guarded`: with guards between loops and equation."""

    number: int  # of the statement in the program
    loops: tuple[Loop, ...]
    guarded: bool
    equation: Equation

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(loop.variable for loop in self.loops)

    @property
    def extents(self) -> dict[str, int]:
        return {loop.variable: loop.extent for loop in self.loops}

    @property
    def runs(self) -> int:
        return prod(loop.extent for loop in self.loops)

    @property
    def target(self) -> tuple[str, ...] | None:
        """The variables that the result is subscripted by; None where a subscript is anything else."""
        return subscripts(self.equation.target)

    @property
    def reduced(self) -> tuple[str, ...]:
        """The loops that the result has no subscript for."""
        kept = self.target
        return () if kept is None else tuple(name for name in self.variables if name not in kept)


@dataclass(frozen=True, slots=True)
class Product:
    """The loops of a matrix product: C_{b,i,j} += A_{b,i,k} * B_{b,k,j}, with subscripts in any order.

    `rows` and `columns` are chosen so that the result's last subscript is the columns'.
    """

    batch: tuple[str, ...]
    rows: str
    columns: str
    depth: str
    left: Access  # has the rows
    right: Access


def subscripts(access: Access) -> tuple[str, ...] | None:
    """The variables of an access whose subscripts are variables, each once; else None."""
    names = [index.name for index in access.indices if isinstance(index, Variable)]
    return tuple(names) if len(set(names)) == len(access.indices) else None


def plain_nest(number: int, statement: Stmt) -> Nest | None:
    """The nest that a statement is; None where it is none, or somebody has scheduled it."""
    levels = [level for _, level in perfect_nest(statement)]
    found = sole_equation(statement)
    loops = tuple(level for level in levels if isinstance(level, Loop))
    if found is None or any(loop.kind != "L" or loop.first for loop in loops):
        return None
    return Nest(number, loops, any(isinstance(level, Guard) for level in levels), found[1])


def plain_nests(program: Program) -> dict[int, Nest]:
    """The plain nests with a loop, by the number of their statement."""
    found = (plain_nest(number, statement) for number, statement in enumerate(program.body))
    return {nest.number: nest for nest in found if nest is not None and nest.loops}


def as_product(nest: Nest) -> Product | None:
    """The matrix product that a nest computes, if it does."""
    equation, target = nest.equation, nest.target
    if nest.guarded or target is None or len(target) < 2 or len(nest.reduced) != 1 or equation.op != "+=":
        return None
    match equation.value:
        case Binary("*", Access() as one, Access() as other):
            pass
        case _:
            return None
    depth = nest.reduced[0]
    for left, right in ((one, other), (other, one)):
        names, others = subscripts(left), subscripts(right)
        if names is None or others is None or depth not in names or depth not in others:
            return None
        columns = target[-1]
        if columns not in others or columns in names:
            continue
        rows = [name for name in target[:-1] if name in names and name not in others]
        batch = [name for name in target[:-1] if name not in rows[-1:]]
        if rows and set(names) | set(others) == set(nest.variables):
            return Product(tuple(batch), rows[-1], columns, depth, left, right)
    return None
