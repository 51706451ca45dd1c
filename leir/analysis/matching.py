"""Whether one expression is another under some choice of loop variables."""

from collections.abc import Collection, Sequence

from leir.edit import with_operands
from leir.syntax import Expr, Variable, operands


def matching_values(
    pattern: Sequence[Expr], expressions: Sequence[Expr], variables: Collection[str]
) -> dict[str, Expr] | None:
    """The value of each of `variables` under which the patterns are the expressions, one by one.

    None if they never are, or if a variable does not occur in the patterns. Trees are compared as they are written, and
    every other variable stands for itself.
    """
    values: dict[str, Expr] = {}

    def matches(own: Expr, other: Expr) -> bool:
        if isinstance(own, Variable) and own.name in variables:
            return values.setdefault(own.name, other) == other
        below, others = operands(own), operands(other)
        if not below or type(own) is not type(other) or len(below) != len(others):
            return own == other
        same_node = with_operands(own, others) == other
        return same_node and all(matches(a, b) for a, b in zip(below, others, strict=True))

    if len(pattern) != len(expressions) or not all(matches(a, b) for a, b in zip(pattern, expressions, strict=True)):
        return None
    return values if len(values) == len(variables) else None
