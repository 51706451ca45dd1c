"""How accesses move through memory as a loop runs."""

from math import prod

from leir.edit import variables_of
from leir.syntax import Access, Binary, Expr, Integer, Variable


def stride(access: Access, variable: str, shape: tuple[int, ...]) -> int | None:
    """By how many elements an access moves in memory when the variable grows by one; None where that is no constant."""
    total = 0
    for number, index in enumerate(access.indices):
        slope = slope_of(index, variable)
        if slope is None:
            return None
        total += slope * prod(shape[number + 1 :])
    return total


def slope_of(expression: Expr, variable: str) -> int | None:
    """The coefficient of a variable in a sum; None where it stands in anything else."""
    match expression:
        case Variable(name) if name == variable:
            return 1
        case Binary("+" | "-" as op, left, right):
            a, b = slope_of(left, variable), slope_of(right, variable)
            return None if a is None or b is None else a + b if op == "+" else a - b
        case Binary("*", factor, Integer(value)) | Binary("*", Integer(value), factor):
            slope = slope_of(factor, variable)
            return None if slope is None else slope * value
        case _:
            return None if variable in variables_of(expression) else 0
