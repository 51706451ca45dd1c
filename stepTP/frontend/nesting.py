"""Loops and subscripts of statements that are put together from others: names by depth, sums with one constant."""

from collections.abc import Iterator
from dataclasses import replace

from leir.names import substitute_in, variable_sequence
from leir.syntax import Access, Alloc, Binary, Equation, Expr, Guard, Integer, Loop, Stmt, Unary, Variable, equation


def named_by_depth(statement: Stmt, depth: int = 0, names: dict[str, Expr] | None = None) -> Stmt:
    """The statement with its loops named i, j, k, ... by the number of loops around them."""
    names = names or {}
    match statement:
        case Loop(_, variable, _, _, body):
            name = next(v for n, v in enumerate(variable_sequence()) if n == depth)
            inner = {**names, variable: Variable(name)}
            return replace(statement, variable=name, body=tuple(named_by_depth(s, depth + 1, inner) for s in body))
        case Guard(condition, body):
            return Guard(substitute_in(condition, names), tuple(named_by_depth(s, depth, names) for s in body))
        case Equation(target, op, value):
            new_target = substitute_in(target, names)
            assert isinstance(new_target, Access)
            return equation(new_target, op, substitute_in(value, names))
        case Alloc():
            return statement


def grown(start: Integer, step: int, variable: str) -> Expr:
    """start + step * variable."""
    if step == 0:
        return start
    term: Expr = Variable(variable)
    term = term if abs(step) == 1 else Binary("*", term, Integer(abs(step)))
    if step < 0:
        return Binary("-", start, term)
    return term if start.value == 0 else Binary("+", term, start)


def tidy(index: Expr) -> Expr:
    """A sum with its constants put together: positive terms, the constant, negative terms."""
    terms = list(_terms(index, 1))
    if len(terms) == 1:
        return index
    constant = sum(sign * term.value for sign, term in terms if isinstance(term, Integer))
    positive: list[Expr] = [term for sign, term in terms if sign > 0 and not isinstance(term, Integer)]
    negative: list[Expr] = [term for sign, term in terms if sign < 0 and not isinstance(term, Integer)]
    if constant > 0 or (constant == 0 and not positive):
        positive.append(Integer(constant))
    elif constant < 0:
        negative.append(Integer(-constant))
    result: Expr = positive[0] if positive else Unary("-", negative.pop(0))
    for term in positive[1:]:
        result = Binary("+", result, term)
    for term in negative:
        result = Binary("-", result, term)
    return result


def _terms(index: Expr, sign: int) -> Iterator[tuple[int, Expr]]:
    match index:
        case Binary("+", left, right):
            yield from _terms(left, sign)
            yield from _terms(right, sign)
        case Binary("-", left, right):
            yield from _terms(left, sign)
            yield from _terms(right, -sign)
        case Unary("-", operand):
            yield from _terms(operand, -sign)
        case _:
            yield sign, index
