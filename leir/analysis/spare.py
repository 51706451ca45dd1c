"""How many more roundings a value may take than it does, counted in units of the type's roundoff u.

The language allows a call 4 units in the last place, 8 u, while the functions of all targets are within 2; a product or
quotient may be formed in two operations, and a term from exp in a sum may be rescaled by a call and a product; a sum
of many terms loses far less than the worst case that is allowed for it. These are the rules by which results are judged
(`stepTP.verify.tolerance`). What an expression leaves unused of them, a rewrite may use: roundings that are spare where
the value is formed, and where it goes on to.

What is allowed is allowed for the source, and the steps of a trajectory share it. So a detour grants nothing, and takes
its roundings: a factor that is divided by again, an exponential that another one is multiplied by, as exp(a)*exp(b)
stands for exp(a+b). Where a term is added and taken away again, nothing is left. What is spare may be less than none.
"""

import math

from leir.analysis.detours import cancelled, has_opposite_terms
from leir.analysis.intervals import relative_error
from leir.analysis.terms import term_of
from leir.analysis.types import computing_type
from leir.analysis.values import Ranges
from leir.edit import enclosing, statement_at, variables_of
from leir.syntax import Access, Binary, Call, Equation, Expr, Guard, Loop, Path, Select, Unary, operands

CALL = 4.0  # of the 8 that are allowed, the functions of a target take 4 at most
OPERATION = 1.0  # of the 2 that are allowed
RESCALED = 8.0  # of the 9 that are allowed for a term from exp in a sum
MANY = 8  # terms of a sum, from which on it does not come near its worst case
IN_MANY = 2.0
EXPONENTIAL = 2 * (CALL + OPERATION)  # of one more in a product: what it would grant by itself, and what it takes
_CALLS = ("exp", "expm1", "log", "log1p", "erf", "tanh", "sin", "cos")
_TAME = ("tanh", "erf")  # a relative error of the argument is none larger of the value


def spare_where_formed(expression: Expr, found: Ranges, path: Path) -> float:
    """The roundings that forming a value leaves to spare, relative to the value."""
    match expression:
        case Call("sqrt", (operand,)):
            return OPERATION + spare_where_formed(operand, found, path) * 0.5
        case Call(function) if function in _CALLS:
            return CALL
        case Binary("*" | "/"):
            return _spare_in_product(expression, found, path)
        case Binary("+" | "-") if has_opposite_terms(expression, _no_atom):
            return -math.inf
        case Unary("-", operand) | Call("abs", (operand,)):
            return spare_where_formed(operand, found, path)
        case Select(_, then, otherwise):
            return min(spare_where_formed(part, found, path) for part in (then, otherwise))
        case Access(tensor):
            return _spare_in_tensor(tensor, found)
        case _:
            return 0.0


def _spare_in_product(expression: Expr, found: Ranges, path: Path) -> float:
    term = term_of(expression, _no_atom)
    factors, divisors = cancelled(term.factors, term.divisors)
    taken = len(term.factors) + len(term.divisors) - len(factors) - len(divisors)
    operands = (*factors, *divisors)
    exponentials = sum(isinstance(operand, Call) and operand.function == "exp" for operand in operands)
    spare = OPERATION * (len(operands) - 1.0 - taken)
    spare += sum(spare_where_formed(operand, found, path) for operand in operands)
    return spare - max(exponentials - 1, 0) * EXPONENTIAL


def _no_atom(_: Expr) -> bool:
    return False


def _spare_in_tensor(tensor: str, found: Ranges) -> float:
    writes = found.writes.get(tensor, ())
    if len(writes) != 1 or found.dtypes[tensor] != computing_type(found.dtypes[tensor]):
        return 0.0
    (write,) = writes
    if write.equation.op == "=":
        return spare_where_formed(write.equation.value, found, write.path)
    return _spare_in_sum(found, write.path)


def spare_where_used(found: Ranges, path: Path, within: Path, largest: float) -> float:
    """The roundings that an equation leaves to spare where it uses a part of its value, relative to that part.

    `largest`: of the part's magnitude.
    """
    equation = statement_at(found.program, path)
    assert isinstance(equation, Equation)
    chain: list[Expr] = [equation.value]
    for number in within[1:]:
        chain.append(operands(chain[-1])[number])
    spare, size, summed = 0.0, largest, False
    for number, outer, inner in zip(within[:0:-1], chain[-2::-1], chain[:0:-1], strict=True):
        match outer:
            case Binary("*" | "/" as op) if op == "*" or number == 0 or not summed:
                formed = spare_where_formed(inner, found, path)
                if math.isinf(formed):
                    return -math.inf
                spare, size = spare + spare_where_formed(outer, found, path) - formed, math.inf
            case Unary("-") | Call("abs" | "max" | "min"):
                pass
            case Select() if number > 0:
                pass
            case Binary("+" | "-") if has_opposite_terms(outer, _no_atom):
                return -math.inf
            case Binary("+" | "-"):
                size, summed = math.inf, True
            case Call(function) if function in _TAME and not summed:
                spare, size = spare + CALL, 1.0
            case Call("exp") if size <= 1.0 and not summed:
                spare, size = spare + CALL, math.inf
            case Call("sqrt") if not summed:
                spare, size = spare + OPERATION, math.inf
            case _:
                return spare
    return spare + _spare_in_sum(found, path)


def _spare_in_sum(found: Ranges, path: Path) -> float:
    """What an accumulation leaves to spare, relative to the sizes of its terms.

    Terms that are far below the largest are not allowed its roundings; where none is, all count.
    """
    equation = statement_at(found.program, path)
    assert isinstance(equation, Equation)
    levels = [level for _, level in enclosing(found.program, path)]
    dtype = found.dtypes[equation.target.tensor]
    if equation.op != "+=" or any(isinstance(level, Guard) for level in levels) or _chooses(equation.value):
        return 0.0  # there may be one term only
    kept = variables_of(equation.target)
    terms = math.prod(level.extent for level in levels if isinstance(level, Loop) and level.variable not in kept)
    if terms > 1 and is_from_exp(equation.value):
        bounds = found.of(equation.value, path)
        alike = bounds.finite and bounds.low > 0 and 3 * bounds.low >= terms * relative_error(dtype) * bounds.high
        return RESCALED * (terms - 1) if alike else 0.0
    return IN_MANY if terms >= MANY and dtype == computing_type(dtype) else 0.0


def is_from_exp(expression: Expr) -> bool:
    """Whether a value is exp of something, times other factors."""
    match expression:
        case Call("exp"):
            return True
        case Binary("*", left, right):
            return is_from_exp(left) or is_from_exp(right)
        case Binary("/", left):
            return is_from_exp(left)
        case _:
            return False


def _chooses(expression: Expr) -> bool:
    if isinstance(expression, Select):
        return True
    return not isinstance(expression, Access) and any(map(_chooses, operands(expression)))
