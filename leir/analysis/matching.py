"""Whether expressions, and the headers of nests, are the same under some choice of loop variables."""

from collections.abc import Collection, Sequence

from leir.edit import perfect_nest, with_operands
from leir.names import substitute_in
from leir.syntax import Expr, Guard, Loop, Stmt, Variable, operands


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


def common_levels(one: Stmt, other: Stmt) -> list[Loop | Guard]:
    """The levels of two perfect nests, from the outside in, that are equal but for the names of their loops."""
    nests = [[level for _, level in perfect_nest(nest)] for nest in (one, other)]
    names: dict[str, Expr] = {}
    common: list[Loop | Guard] = []
    for a, b in zip(*nests, strict=False):
        match a, b:
            case Loop(), Loop():
                axes_agree = a.kind != "B" or a.variable[:2] == b.variable[:2]
                if (a.kind, a.extent, a.first) != (b.kind, b.extent, b.first) or not axes_agree:
                    return common
                names[b.variable] = Variable(a.variable)
            case Guard(), Guard():
                if substitute_in(b.condition, names) != a.condition:
                    return common
            case _:
                return common
        common.append(a)
    return common
