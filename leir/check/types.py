"""Types: integer subscripts and divisions, float bases, boolean conditions, what is accumulated into what."""

from collections.abc import Iterator

from leir.analysis.types import type_problems
from leir.check.diagnostic import Diagnostic
from leir.edit import dtypes, walk
from leir.printer import expression_text
from leir.syntax import Equation, Place, Program, reads


def check_types(program: Program) -> Iterator[Diagnostic]:
    """Everything about types that holds statement by statement."""
    types = dtypes(program)
    for path, statement in walk(program):
        for problem in type_problems(statement, types):
            yield Diagnostic(problem.code, problem.message, Place(path, problem.within))
        if isinstance(statement, Equation) and statement.op != "=" and reads(statement.value, statement.target.tensor):
            target = expression_text(statement.target)
            message = f"{target} {statement.op} reads {statement.target.tensor}: write {target}=... instead"
            yield Diagnostic("accumulation-reads-target", message, Place(path, (1,)))
