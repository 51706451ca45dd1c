"""What TVM evaluates, prints or analyses more than once, and how deep that is nested.

TVM's passes look twice or more at a condition and at conditions that are compared; the code for a floor division of
open sign, and for rounding to bf16, has its operands several times. Nested in each other, the work multiplies with each
level. So no more than `LEVELS` are left in one expression: what lies deeper is computed into a temporary first.
`is_rising` and `may_cancel` say what else TVM's passes want written otherwise.
"""

from collections.abc import Mapping

from leir.analysis.affine import constant, interval
from leir.analysis.types import COMPARISONS
from leir.edit import walk_expression
from leir.syntax import Access, Binary, Call, Cast, Expr, Integer, Real, Select, Unary, Variable, operands

LEVELS = 3

Ranges = Mapping[str, tuple[int, int]]


class Nesting:
    """How often the parts of one statement's expressions are repeated, each expression looked at once."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.known: dict[int, tuple[Expr, int]] = {}  # by identity; the expression is held, so that it stays its own

    def is_deep(self, expression: Expr) -> bool:
        """Whether the expression, where something repeats it, must go through a temporary."""
        return self.levels(expression) >= LEVELS

    def levels(self, expression: Expr) -> int:
        """How many repetitions are nested in an expression, temporaries taken into account."""
        if id(expression) not in self.known:
            self.known[id(expression)] = (expression, self._levels(expression))
        return self.known[id(expression)][1]

    def _levels(self, expression: Expr) -> int:
        match expression:
            case Select(test, then, otherwise):
                return max(self._repeated(test), self.levels(then), self.levels(otherwise))
            case Binary("&&" | "||"):
                turned = turned_right(expression)
                if is_harmless(turned.right):
                    return max(self.levels(turned.left), self.levels(turned.right))
                return max(self._repeated(turned.left), self.levels(turned.right))
            case Binary("//" | "%") if not self.is_plain_division(expression):
                return LEVELS
            case Binary("<" | "<=" | ">" | ">=" | "==" | "!=", left, right) if _compares(left) or _compares(right):
                return max(self._repeated(left), self._repeated(right))
            case Cast("bf16"):
                return LEVELS
            case _:
                return max((self.levels(operand) for operand in operands(expression)), default=0)

    def _repeated(self, expression: Expr) -> int:
        return 1 if self.is_deep(expression) else self.levels(expression) + 1

    def is_plain_division(self, expression: Expr) -> bool:
        """Whether TVM, too, sees that `//` or `%` divides what is at least 0 by more than 0, where floors are plain."""
        left, right = operands(expression)
        is_index = _is_index_arithmetic(left) and _is_index_arithmetic(right)
        return is_index and interval(left, self.ranges)[0] >= 0 and interval(right, self.ranges)[0] > 0


def turned_right(expression: Binary) -> Binary:
    """`(a && b) && c` as `a && (b && c)`, so that no condition holds a condition, where `b` may not be evaluated early.

    The two have one value and evaluate the same; in the second the choices nest in their results.
    """
    while isinstance(left := expression.left, Binary) and left.op == expression.op and not is_harmless(left.right):
        expression = Binary(expression.op, left.left, Binary(expression.op, left.right, expression.right))
    return expression


def is_harmless(expression: Expr) -> bool:
    """Whether evaluating an expression can neither read out of bounds nor divide by zero."""
    match expression:
        case Access() | Binary("//" | "%"):
            return False
        case _:
            return all(is_harmless(operand) for operand in operands(expression))


def is_rising(expression: Expr) -> bool:
    """Whether index arithmetic takes no variable with a negative factor: such divisions TVM rewrites rightly."""
    match expression:
        case Integer() | Variable():
            return True
        case Binary("*", left, right):
            factors = (constant(left), constant(right))
            return all(factor is None or factor >= 0 for factor in factors) and is_rising(left) and is_rising(right)
        case Binary("-", left, right):
            return constant(right) is not None and is_rising(left)
        case Unary("-"):
            return constant(expression) is not None
        case _:
            return all(is_rising(operand) for operand in operands(expression))


def may_cancel(comparison: Expr) -> bool:
    """Whether a comparison of index arithmetic has a variable twice, so that its terms may cancel.

    TVM 0.27 takes `j+i-i>=8`, for j below 8, for a fact about what it guards, and then fails ("Divide by zero") on the
    tensors that are read there. It takes no fact from `!(j+i-i<8)`,
    which is the same for integers alone.
    """
    found = [part for _, part in walk_expression(comparison) if isinstance(part, Variable)]
    return len(set(found)) < len(found) and any(_is_index_arithmetic(side) for side in operands(comparison))


def _compares(expression: Expr) -> bool:
    if isinstance(expression, Binary) and expression.op in COMPARISONS:
        return True
    return any(_compares(operand) for operand in operands(expression))


def _is_index_arithmetic(expression: Expr) -> bool:
    match expression:
        case Integer() | Variable():
            return True
        case Binary("+" | "-" | "*" | "//" | "%") | Call("max" | "min") | Unary("-"):
            return all(_is_index_arithmetic(operand) for operand in operands(expression))
        case Real() | _:
            return False
