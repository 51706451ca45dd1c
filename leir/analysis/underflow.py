"""What underflow may take from a value that is written otherwise.

A new product or quotient may lose half of the smallest number, times what it is multiplied by afterwards.
"""

import math
from collections.abc import Callable

from leir.analysis.algebra import Algebra
from leir.analysis.intervals import Range, largest_magnitude, least_magnitude, smallest_normal
from leir.edit import walk_expression
from leir.syntax import Binary, Expr, Unary


def lost_to_underflow(new: Expr, old: Expr, algebra: Algebra, range_of: Callable[[Expr], Range]) -> float:
    """What products and quotients of the new expression that the old one has not may lose, in smallest numbers."""
    kept = {part for _, part in walk_expression(old)}

    def size(part: Expr) -> float:
        found = range_of(part)
        return math.inf if found.nan else largest_magnitude(found)

    def visit(part: Expr) -> float:
        if part in kept or algebra.is_atom(part):
            return 0.0
        match part:
            case Unary(_, operand):
                return visit(operand)
            case Binary("+" | "-", left, right):
                return visit(left) + visit(right)
            case Binary("*" | "/" as op, left, right):
                a, b = visit(left), visit(right)
                carried = (a * size(right) if a else 0.0) + (b * size(left) if b else 0.0)
                if op == "/":
                    least = least_magnitude(range_of(right))
                    if least == 0.0:
                        return math.inf
                    carried = (a + (b * size(left) / least if b else 0.0)) / least if a or b else 0.0
                whole_range = range_of(part)
                normal = smallest_normal(algebra.dtype)
                is_large = whole_range.low >= normal or whole_range.high <= -normal
                return carried + (0.0 if is_large else 0.5)
            case Binary("**"):
                return 0.5
            case _:
                return 0.0

    return visit(new)
