"""Expressions that are written otherwise and are one computation, bit for bit.

Operands of what commutes may have changed sides, and subscripts may be one sum in another order. Sums of floats in
another order are another computation.
"""

from functools import lru_cache

from leir.analysis.box import Sum, as_expression, as_sum
from leir.analysis.matching import COMMUTING, MIRRORED, is_of_indices
from leir.edit import map_expression, with_operands
from leir.printer import expression_text
from leir.syntax import BINARY_FUNCTIONS, Access, Binary, Call, Expr, Variable, operands


def same_spelling(left: Expr, right: Expr) -> bool:
    """Whether two expressions are one computation, but for how they are written."""
    return left is right or left == right or (type(left) is type(right) and normal(left) == normal(right))


@lru_cache(maxsize=4096)
def normal(expression: Expr) -> Expr:
    """The expression with operands and terms in one order: equal for expressions that differ in nothing else."""
    return expression if isinstance(expression, Variable) else map_expression(expression, _ordered)


def _ordered(part: Expr) -> Expr:
    match part:
        case Access(tensor, indices):
            return Access(tensor, tuple(normal_index(i) if is_of_indices(i) else i for i in indices))
        case Binary(op, left, right) if op in COMMUTING or op in ("&&", "||"):
            return Binary(op, *sorted((left, right), key=expression_text))
        case Binary(">" | ">=" as op, left, right):
            return Binary(MIRRORED[op], right, left)
        case Call(function, arguments) if function in BINARY_FUNCTIONS:
            return Call(function, tuple(sorted(arguments, key=expression_text)))
        case _:
            return part


@lru_cache(maxsize=4096)
def normal_index(index: Expr) -> Expr:
    """An integer expression of loop variables as a sum, and the sums within it, with their terms in one order."""
    total = as_sum(index)
    terms: dict[Expr, int] = {}
    for term, factor in total.terms.items():
        below = operands(term)
        own = with_operands(term, tuple(map(normal_index, below))) if below else term
        terms[own] = terms.get(own, 0) + factor
    ordered = sorted(terms.items(), key=lambda item: expression_text(item[0]))
    return as_expression(Sum(dict(ordered), total.constant))
