"""Whether expressions of two programs have the same value, given that what they read does."""

from collections.abc import Collection

from leir.analysis.affine import affine, is_exact
from leir.analysis.isl import example, question
from leir.analysis.model import Statement, domain, names_at
from leir.edit import with_operands
from leir.syntax import Access, Expr, operands


class SameValue:
    """Whether expressions are equal in every instance of a statement, up to the storage of what is not an input."""

    def __init__(self, inputs: Collection[str], statement: Statement) -> None:
        self.inputs = inputs
        self.statement = statement
        self.names = statement.names("x")

    def holds(self, old: Expr, new: Expr) -> bool:
        if old == new:
            return True
        match old, new:
            case Access(tensor, old_indices), Access(other, new_indices) if tensor == other:
                if tensor not in self.inputs:
                    old_indices = tuple(e for e in old_indices if affine(e, self.names) is None)
                    new_indices = tuple(e for e in new_indices if affine(e, self.names) is None)
                return self.all_hold(old_indices, new_indices)
            case _:
                a, b = affine(old, self.names), affine(new, self.names)
                if a is not None and b is not None:
                    differ = [*domain(self.statement, "x"), f"{a} != {b}"]
                    return example(question(self.statement.dimensions("x"), differ)) is None
                below = operands(old)
                if type(old) is not type(new) or len(below) != len(operands(new)) or not below:
                    return False
                return with_operands(new, below) == old and self.all_hold(below, operands(new))

    def all_hold(self, old: tuple[Expr, ...], new: tuple[Expr, ...]) -> bool:
        return len(old) == len(new) and all(self.holds(a, b) for a, b in zip(old, new, strict=True))


def opaque_conditions(statement: Statement) -> list[Expr]:
    """The conditions of the guards around a statement that the instances' domain does not express."""
    return [g.condition for p, g in statement.guards if not is_exact(g.condition, names_at(statement, p, "x"))]
