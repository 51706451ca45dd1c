"""Types: integer subscripts and divisions, float bases, boolean conditions, what is accumulated into what."""

from collections.abc import Iterator
from functools import lru_cache

from leir.analysis.types import type_problems
from leir.check.diagnostic import Diagnostic
from leir.edit import dtypes, tensors_in, walk_with
from leir.printer import expression_text
from leir.syntax import DType, Equation, Path, Place, Program, Stmt, reads


def check_types(program: Program) -> Iterator[Diagnostic]:
    """Everything about types that holds statement by statement."""
    types = dtypes(program)
    for number, statement in enumerate(program.body):
        own = tuple((tensor, types[tensor]) for tensor in tensors_in(statement))
        for code, message, path, within in _problems(statement, own):
            yield Diagnostic(code, message, Place((number, *path), within))


@lru_cache(maxsize=4096)  # a step leaves most statements, and the types of their tensors, as they are
def _problems(outermost: Stmt, types: tuple[tuple[str, DType], ...]) -> tuple[tuple[str, str, Path, Path], ...]:
    """What is wrong with the types in an outermost statement: code, message, and the place from there."""
    found: list[tuple[str, str, Path, Path]] = []
    known = dict(types)
    for path, statement in walk_with(outermost):
        found += ((problem.code, problem.message, path, problem.within) for problem in type_problems(statement, known))
        if isinstance(statement, Equation) and statement.op != "=" and reads(statement.value, statement.target.tensor):
            target = expression_text(statement.target)
            message = f"{target} {statement.op} reads {statement.target.tensor}: write {target}=... instead"
            found.append(("accumulation-reads-target", message, path, (1,)))
    return tuple(found)
