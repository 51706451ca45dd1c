"""What a source's programs are compared with on a GPU: its nests, each with one loop bound to a GPU axis."""

from dataclasses import replace

from leir.analysis.cost import cost
from leir.analysis.kernels import binds_axis
from leir.check import check
from leir.edit import replace_at, statement_at
from leir.names import substitute_each, unused_variable, variables_around
from leir.syntax import Loop, Path, Program, Variable

THREADS = 1024  # iterations that become the threads of one block; more become blocks


def bound_outermost(program: Program) -> Program:
    """The program with the outermost independent loop bound in every nest that binds no axis.

    The loop becomes `tx` where it has up to 1,024 iterations, else `bx`, as the Step-TP paper binds its sources. A loop
    that the checker refuses to bind leaves its place to the next one in; a nest without any stays one thread.
    """
    for nest in cost(program).nests:
        if not binds_axis(statement_at(program, nest.path)):
            tried = (bound(program, path) for path in nest.independent)
            program = next((found for found in tried if not check(found)), program)
    return program


def bound(program: Program, path: Path) -> Program:
    """The program with the loop at `path` bound, as its variable says from then on; nothing is checked."""
    loop = statement_at(program, path)
    assert isinstance(loop, Loop)
    name = unused_variable(variables_around(program, path), "tx" if loop.extent <= THREADS else "bx")
    body = substitute_each(loop.body, {loop.variable: Variable(name)})
    return replace_at(program, path, replace(loop, kind="B", variable=name, body=body))
