"""One equation with all that is around it in one form, however its loops are written.

Loops begin at 0; two that only occur as the digits of one number, as a split or a tiling leaves them, are one loop, and
the guard of their tail is its extent. Temporaries that are computed ahead may be opened.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from leir.analysis.box import Sum, as_expression, as_sum, plus
from leir.analysis.definitions import Opening, definitions_of, why_written_between
from leir.analysis.model import Statement
from leir.analysis.types import is_kept
from leir.edit import accesses, enclosing, sole_equation, statement_at, variables_of, with_operands
from leir.names import substitute_in
from leir.syntax import Access, Binary, Equation, Expr, Guard, Integer, Loop, Path, Program, Unary, Variable, operands

Levels = tuple[Loop | Guard, ...]


@dataclass(frozen=True, slots=True)
class NestForm:
    """An equation at `path` and the levels around it below a list. `names`: what each loop of the text is now called.

    `changed`: why an operand that is opened may have changed since; empty if none has.
    """

    path: Path
    levels: Levels
    equation: Equation
    names: dict[str, str]
    changed: str = ""

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(level for level in self.levels if isinstance(level, Loop))

    @property
    def guards(self) -> tuple[Expr, ...]:
        return tuple(level.condition for level in self.levels if isinstance(level, Guard))


def equation_path(program: Program, path: Path) -> Path | None:
    """The path of the one equation of a nest, or of the equation that stands there."""
    statement = statement_at(program, path)
    if isinstance(statement, Equation):
        return path
    found = sole_equation(statement, path)
    return None if found is None else found[0]


def nest_form(program: Program, path: Path, above: int, *, opened: bool) -> NestForm:
    """The form of the equation at a path, with the levels around it but for the first `above`.

    `opened`: with the temporaries opened that are stored exactly as they were computed.
    """
    statement = statement_at(program, path)
    assert isinstance(statement, Equation)
    levels = tuple(replace(level, body=()) for where, level in enclosing(program, path) if len(where) > above)
    changed = ""
    if opened:
        statement, changed = _opened(program, path, statement)
    names = {level.variable: level.variable for level in levels if isinstance(level, Loop)}
    form = _from_zero(NestForm(path, levels, statement, names, changed))
    while (joined := _joined(form)) is not None:
        form = joined
    return form


def _opened(program: Program, path: Path, own: Equation) -> tuple[Equation, str]:
    definitions = definitions_of(program)

    def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
        del shared
        node = statement.node
        assert isinstance(node, Equation)
        kept = is_kept(node.value, definitions.dtypes[access.tensor], definitions.dtypes)
        return node.op == "=" and kept and access.tensor not in {a.tensor for a in accesses(node.value)}

    opening = Opening(definitions, wanted)
    value = opening.expression(own.value, definitions.identity(path), path, definitions.frame(path))
    reasons = (why_written_between(definitions, access.tensor, at, path) for access, at in opening.leaves)
    return replace(own, value=value), next((reason for reason in reasons if reason), "")


def _from_zero(form: NestForm) -> NestForm:
    """The form with all loops beginning at 0."""
    moved: dict[str, Expr] = {
        loop.variable: plus(Variable(loop.variable), Integer(loop.first)) for loop in form.loops if loop.first > 0
    }
    if not moved:
        return form

    def shifted(expression: Expr) -> Expr:
        if isinstance(expression, Access):
            places = [substitute_in(index, moved) for index in expression.indices]
            return Access(expression.tensor, tuple(as_expression(as_sum(place)) for place in places))
        if isinstance(expression, Variable):
            return moved.get(expression.name, expression)
        return with_operands(expression, tuple(shifted(operand) for operand in operands(expression)))

    target = shifted(form.equation.target)
    assert isinstance(target, Access)
    levels = tuple(
        Guard(shifted(level.condition), ()) if isinstance(level, Guard) else replace(level, first=0)
        for level in form.levels
    )
    equation = replace(form.equation, target=target, value=shifted(form.equation.value))
    return replace(form, levels=levels, equation=equation)


class _NotDigits(Exception):
    """Two loops do not only occur as the digits of one number."""


def _joined(form: NestForm) -> NestForm | None:
    """The form with two of its loops as one, where they are the digits of one number wherever they occur."""
    for outer, inner in permutations(form.loops, 2):
        if form.loops.index(outer) > form.loops.index(inner) or not _are_neighbours(form, outer, inner):
            continue
        try:
            return _as_one(form, outer, inner)
        except _NotDigits:
            continue
    return None


def _are_neighbours(form: NestForm, outer: Loop, inner: Loop) -> bool:
    """Whether the order of the terms stays if the inner loop moves to the outer one."""
    kept = variables_of(form.equation.target)
    between = form.loops[form.loops.index(outer) + 1 : form.loops.index(inner)]
    alike = (outer.variable in kept) == (inner.variable in kept)
    moves = outer.variable in kept or all(loop.variable in kept for loop in between)
    return alike and moves and "B" not in (outer.kind, inner.kind)


def _as_one(form: NestForm, outer: Loop, inner: Loop) -> NestForm:
    """The form with the loops as one, called like the outer. Raises _NotDigits."""
    size, whole = inner.extent, outer.extent * inner.extent

    def of_index(index: Expr) -> Expr:
        if not variables_of(index) & {outer.variable, inner.variable}:
            return index
        if isinstance(index, Variable | Unary) or (isinstance(index, Binary) and index.op in ("+", "-", "*")):
            total = as_sum(index)
            high, low = (total.terms.get(Variable(loop.variable), 0) for loop in (outer, inner))
            if high != low * size:
                raise _NotDigits
            terms: dict[Expr, int] = {Variable(outer.variable): low} if low else {}
            for term, factor in total.terms.items():
                if term not in (Variable(outer.variable), Variable(inner.variable)):
                    new = below(term)
                    terms[new] = terms.get(new, 0) + factor
            return as_expression(Sum(terms, total.constant))
        return below(index)

    def below(index: Expr) -> Expr:
        return with_operands(index, tuple(of_index(operand) for operand in operands(index)))

    def visit(expression: Expr) -> Expr:
        if not any(accesses(expression)):
            return of_index(expression)
        if isinstance(expression, Access):
            return Access(expression.tensor, tuple(of_index(index) for index in expression.indices))
        return with_operands(expression, tuple(visit(operand) for operand in operands(expression)))

    extent, levels = whole, list[Loop | Guard]()
    for level in form.levels:
        if isinstance(level, Guard):
            rest: list[Expr] = []
            for test in conjuncts(visit(level.condition)):
                bound = _bound(test, outer.variable)
                extent = extent if bound is None else min(extent, bound)
                rest += [test] if bound is None else []
            levels += [Guard(_all(rest), ())] if rest else []
        elif level != inner:
            levels.append(level)
    kind = outer.kind if outer.kind == inner.kind else "L"
    levels = [replace(outer, kind=kind, extent=extent) if level == outer else level for level in levels]
    target = visit(form.equation.target)
    assert isinstance(target, Access)
    equation = replace(form.equation, target=target, value=visit(form.equation.value))
    names = {old: outer.variable if now == inner.variable else now for old, now in form.names.items()}
    return replace(form, levels=tuple(levels), equation=equation, names=names)


def conjuncts(test: Expr) -> Iterator[Expr]:
    """The conditions that hold if and only if one does."""
    match test:
        case Binary("&&", left, right):
            yield from conjuncts(left)
            yield from conjuncts(right)
        case _:
            yield test


def _all(tests: Sequence[Expr]) -> Expr:
    result, *rest = tests
    for test in rest:
        result = Binary("&&", result, test)
    return result


def _bound(test: Expr, variable: str) -> int | None:
    """n, of a condition that says no more than that a variable is less than n."""
    match test:
        case Binary("<" | "<=" as op, less, more) | Binary(">" | ">=" as op, more, less):
            room = as_sum(Binary("-", more, less))
            if dict(room.terms) == {Variable(variable): -1}:
                return room.constant + (1 if "=" in op else 0)
        case _:
            pass
    return None
