"""Which statements the questions about sets can be asked about, once names, ranks and types have been looked at."""

from dataclasses import replace

from leir.check.diagnostic import Diagnostic
from leir.edit import body_of, expression_at
from leir.names import unused_tensor
from leir.syntax import Access, Alloc, Equation, Guard, Loop, Path, Program, Stmt

# After one of these, the statement has no iterations or no elements to reason about.
_MEANINGLESS = frozenset({
    "unknown-tensor", "unknown-variable", "variable-out-of-loop", "shadowed-variable", "input-written",
    "duplicate-name", "reserved-name", "rank-mismatch", "tensor-too-large", "loop-too-long", "subscript-not-integer",
    "operand-not-integer", "condition-not-bool", "divisor-maybe-zero", "allocated-twice", "access-before-allocation",
    "access-after-lifetime", "axis-prefix-missing",
})  # fmt: skip
# After one of these, no kernel has the blocks and threads that loop kinds speak of.
_NO_KERNEL = frozenset({
    "axis-prefix-missing", "block-in-thread-loop", "axis-bound-twice", "block-loop-has-siblings",
    "thread-loop-has-siblings",
})  # fmt: skip


def standing(program: Program, found: list[Diagnostic]) -> tuple[Program, frozenset[str]] | None:
    """The program with every statement that has lost its meaning replaced by an allocation that nothing uses, so that
    paths stay; and the tensors that those statements write. None where the signature itself is at fault."""
    places = [diagnostic.place for diagnostic in found if diagnostic.code in _MEANINGLESS]
    if any(place.declaration is not None for place in places):
        return None
    fallen = {place.path for place in places}
    if not fallen:
        return program, frozenset()
    empty = Alloc(unused_tensor(program), "f32", "g", ())
    lost: set[str] = set()

    def visit(statement: Stmt, path: Path) -> Stmt:
        if path in fallen:
            lost.update(_written(statement))
            return empty
        if isinstance(statement, Loop | Guard):
            return replace(statement, body=tuple(visit(s, (*path, n)) for n, s in enumerate(statement.body)))
        return statement

    body = tuple(visit(statement, (number,)) for number, statement in enumerate(program.body))
    return replace(program, body=body), frozenset(lost)


def has_kernels(found: list[Diagnostic]) -> bool:
    """Whether loops nest as kernels do."""
    return not any(diagnostic.code in _NO_KERNEL for diagnostic in found)


def concerns(diagnostic: Diagnostic, program: Program, tensors: frozenset[str]) -> bool:
    """Whether a diagnostic is about the elements of one of some tensors."""
    place = diagnostic.place
    if place.declaration is not None:
        return place.declaration in tensors
    if place.within is None:
        return False
    access = expression_at(program, place)
    return isinstance(access, Access) and access.tensor in tensors


def _written(statement: Stmt) -> set[str]:
    own = {statement.target.tensor} if isinstance(statement, Equation) else set[str]()
    return own.union(*(_written(inner) for inner in body_of(statement)))
