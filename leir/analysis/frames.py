"""Integer points for which expressions are compared: whether two have one value at every point.

Integer parts and conditions on integers are compared as quasi-affine functions, so it does not matter how they are
written. Accesses are equal where their subscripts are; operands that may change places without any change of the value
are tried in both orders.
"""

from dataclasses import dataclass

from leir.analysis.affine import Interval, affine, condition, is_exact
from leir.analysis.isl import TooHard, example, question
from leir.analysis.matching import COMMUTING, MIRRORED
from leir.edit import accesses, with_operands
from leir.syntax import BINARY_FUNCTIONS, Binary, Call, Expr, Select, operands


@dataclass(frozen=True, slots=True)
class Frame:
    """The points: variables with their ranges, and what holds of them."""

    variables: tuple[tuple[str, int, int], ...]  # name, first value, extent
    where: tuple[Expr, ...] = ()

    def names(self) -> dict[str, str]:
        return {name: f"x{number}" for number, (name, _, _) in enumerate(self.variables)}

    def ranges(self) -> dict[str, Interval]:
        return {name: (first, first + extent - 1) for name, first, extent in self.variables}

    def domain(self) -> list[str]:
        """isl constraints of the points; what is not quasi-affine counts as true."""
        names = self.names()
        own = [f"{first} <= {names[name]} < {first + extent}" for name, first, extent in self.variables]
        return own + [condition(e, names) for e in self.where]

    def never(self, *wrong: str) -> bool:
        """Whether no point meets some isl constraints at once; False where that cannot be decided."""
        try:
            return example(question(list(self.names().values()), [*self.domain(), *wrong])) is None
        except TooHard:
            return False

    def always(self, test: Expr) -> bool:
        """Whether a condition holds at every point, provably."""
        return self.never(condition(test, self.names(), holds=False))

    def nowhere(self, test: Expr) -> bool:
        """Whether a condition holds at no point, provably."""
        return self.never(condition(test, self.names()))

    def equal(self, one: Expr, other: Expr) -> bool:
        """Whether two expressions have one value at every point, given that equal accesses have."""
        if one == other:
            return True
        names = self.names()
        a, b = affine(one, names), affine(other, names)
        if a is not None and b is not None:
            return self.never(f"{a} != {b}")
        if all(is_test(test) and is_exact(test, names) for test in (one, other)):
            return self._implies(one, other) and self._implies(other, one)
        if isinstance(one, Select) and isinstance(other, Select):
            return self._equal_choices(one, other)
        return any(
            all(self.equal(x, y) for x, y in zip(below, others, strict=True)) for below, others in alike(one, other)
        )

    def _implies(self, one: Expr, other: Expr) -> bool:
        names = self.names()
        return self.never(condition(one, names), condition(other, names, holds=False))

    def _equal_choices(self, one: Select, other: Select) -> bool:
        if not self.equal(one.condition, other.condition):
            return False
        there = Frame(self.variables, (*self.where, one.condition))
        return there.equal(one.then, other.then) and self.equal(one.otherwise, other.otherwise)


def is_test(expression: Expr) -> bool:
    """Whether an expression is a condition on integers: it reads no tensor."""
    boolean = isinstance(expression, Binary) and expression.op in ("<", "<=", ">", ">=", "==", "!=", "&&", "||")
    return boolean and not any(True for _ in accesses(expression))


Pairing = tuple[tuple[Expr, ...], tuple[Expr, ...]]


def alike(one: Expr, other: Expr) -> tuple[Pairing, ...]:
    """The operands of two nodes that compute the same of them, in the orders in which they may be compared."""
    below, others = operands(one), operands(other)
    if type(one) is not type(other) or not below or len(below) != len(others):
        return ()
    turned = ((below, others[::-1]),)
    match one, other:
        case Binary(op), Binary(same) if op != same:
            return turned if MIRRORED.get(op) == same else ()
        case _ if with_operands(one, others) != other:
            return ()
        case (Binary(op), _) if op in COMMUTING:
            return ((below, others), *turned)
        case (Call(function), _) if function in BINARY_FUNCTIONS:
            return ((below, others), *turned)
        case _:
            return ((below, others),)
