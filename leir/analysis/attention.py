"""Sums of values weighted by a softmax: O = sum over j of exp(a_j-D)/E * v_j, with D the maximum and E the sum.

The weighted sum is looked at in the variables of its own loops, with the temporaries opened that lie between it and its
operands (`leir.analysis.definitions`), so that the parts may be fused, split, inlined or tiled. Each piece is proved by
itself; one that does not hold raises `NotFound`, whose message says why.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from leir.analysis.affine import affine, condition
from leir.analysis.definitions import (
    Definitions,
    Frame,
    Opening,
    Reduction,
    Values,
    Wanted,
    shared_levels,
    solution,
    subscript_pairs,
)
from leir.analysis.isl import TooHard, conjunction
from leir.analysis.model import Statement
from leir.analysis.relations import wrong_instance
from leir.analysis.types import is_float
from leir.edit import accesses, perfect_nest, sole_equation, statement_at, variables_of, walk
from leir.names import bound_variables, substitute_in, unused_variable
from leir.printer import expression_text, statement_text
from leir.syntax import (
    Access,
    Binary,
    Call,
    Equation,
    Expr,
    Guard,
    Loop,
    Path,
    Program,
    Real,
    Select,
    Variable,
    operands,
)

Levels = tuple[Loop | Guard, ...]


class NotFound(Exception):
    """A piece of the pattern is not there, or not provably so: the message is the evidence."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The parts of a term: exp(score-maximum), over `total` if that is not None, times `value`."""

    score: Expr
    maximum: Access
    total: Access | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Inner:
    """A reduction that a score or a value reads, with loops of its own: `access` is its element where it is read."""

    access: Access
    equation: Equation
    levels: Levels
    value: Expr
    inner: "tuple[Inner, ...]"


@dataclass(frozen=True, slots=True)
class Statistic:
    """The maximum or the sum of a row: its element as the weighted sum sees it, and the path of its equation."""

    access: Access
    path: Path


@dataclass(frozen=True, slots=True)
class Attention:
    """A weighted sum in the variables of its loops.

    `rows`, `keys`, `columns`: the levels of its nest that number the rows, run over the terms, and number the elements
    of a row. `total` is None where nothing sums the weights. `inner`: the reductions of score and value. `opened`: the
    equations that only serve the weighted sum, or maximum and total. `leaves`: what is read of the rest, and where.
    """

    path: Path
    target: Access
    rows: Levels
    keys: Levels
    columns: Levels
    weights: Weights
    maximum: Statistic
    total: Statistic | None
    inner: tuple[Inner, ...]
    opened: tuple[Path, ...]
    leaves: tuple[tuple[str, Path], ...]


def may_be_weighted_sum(program: Program, nest: Path) -> bool:
    """Whether a nest holds one sum whose terms depend on an exponential and a maximum: cheap, and no proof."""
    found = sole_equation(statement_at(program, nest))
    if found is None or found[1].op != "+=":
        return False
    definitions = Definitions(program)
    names = list(dict.fromkeys(access.tensor for access in accesses(found[1].value)))
    has_maximum = any(definitions.depends_on(name, lambda e: e.op == "max=") for name in names)
    exponential = _has_exp(found[1].value) or any(definitions.depends_on(n, lambda e: _has_exp(e.value)) for n in names)
    return has_maximum and exponential and isinstance(found[1].value, Binary)


def _reads(expression: Expr) -> bool:
    """Whether an expression reads a tensor."""
    return any(True for _ in accesses(expression))


def _has_exp(expression: Expr) -> bool:
    here = isinstance(expression, Call) and expression.function == "exp"
    return here or any(_has_exp(operand) for operand in operands(expression))


class Match:
    """A weighted sum under examination. Each method proves one piece, or raises NotFound."""

    def __init__(self, program: Program, nest: Path) -> None:
        found = sole_equation(statement_at(program, nest), nest)
        assert found is not None
        self.program = program
        self.path, self.equation = found
        self.definitions = Definitions(program)
        self.frame = self.definitions.frame(self.path)
        self.statement = self.definitions.statements[self.path]
        self.levels = tuple(level for _, level in perfect_nest(statement_at(program, nest), nest))
        self.identity: Values = {loop.variable: Variable(loop.variable) for _, loop in self.statement.loops}
        elements = variables_of(self.equation.target)
        self.keys = {n.variable for n in self.levels if isinstance(n, Loop) and n.variable not in elements}
        self.rows: set[str] = set()
        self.columns: set[str] = set()
        self.taken = bound_variables(program)
        self.inside: set[str] = set()

    def weights(self) -> Weights:
        """The parts of a term, once everything is opened that depends on a maximum."""
        opening = Opening(self.definitions, self._following(None))
        term = opening.expression(self.equation.value, self.identity, self.path, self.frame)
        found = _parts(term, opening.reductions, self.keys)
        if found is None:
            shown = f"{expression_text(term)}, the term of {statement_text(self.equation)}"
            raise NotFound(f"{shown} is no value times exp(a-D), or that over E, with D the maximum of other terms")
        return found

    def _following(self, maximum: str | None) -> Wanted:
        """Opens what depends on a maximum, or on the one of the given tensor."""

        def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
            del statement, shared
            return self._follows(access, maximum)

        return wanted

    def _follows(self, access: Access, maximum: str | None) -> bool:
        """Whether a value depends on a maximum, or on the one of the given tensor."""
        return self.definitions.depends_on(
            access.tensor, lambda e: e.op == "max=" and maximum in (None, e.target.tensor)
        )

    def attention(self, maximum: Access) -> Attention:
        """Everything in the variables of the nest: scores opened, maximum and sum over the same terms."""
        self.rows = rows = variables_of(maximum)
        self.columns = {n.variable for n in self.levels if isinstance(n, Loop)} - rows - self.keys
        tensor = maximum.tensor

        def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
            del statement
            names = variables_of(access)
            is_score = rows <= names | shared and bool(names & self.keys) and not names & self.columns
            return is_score or self._follows(access, tensor)

        opening = Opening(self.definitions, wanted)
        term = opening.expression(self.equation.value, self.identity, self.path, self.frame)
        parts = _parts(term, opening.reductions, self.keys)
        if parts is None or parts.maximum != maximum:
            raise NotFound(f"{expression_text(term)} is no value times exp(a-D), or that over E")
        if any(_reads(level.condition) for level in self.levels if isinstance(level, Guard)):
            raise NotFound("a guard of the sum reads a tensor")
        rows_, keys, columns = self._divided()
        largest = self._maximum(opening, parts)
        total = self._total(opening, parts, largest)
        used = [a for a in (*accesses(parts.score), *accesses(parts.value)) if a in opening.reductions]
        inner = tuple(self._inner(opening, access, self.frame) for access in dict.fromkeys(used))
        leaves = tuple(dict.fromkeys((access.tensor, path) for access, path in opening.leaves))
        return Attention(
            self.path,
            self.equation.target,
            rows_,
            keys,
            columns,
            parts,
            largest,
            total,
            inner,
            tuple(opening.opened),
            leaves,
        )

    def _divided(self) -> tuple[Levels, Levels, Levels]:
        """The levels of the nest: of rows, of terms, and of the elements of a row."""
        result: tuple[list[Loop | Guard], list[Loop | Guard], list[Loop | Guard]] = ([], [], [])
        columns = self.columns
        for level in self.levels:
            names = {level.variable} if isinstance(level, Loop) else variables_of(level.condition)
            if names & self.keys and names & columns:
                assert isinstance(level, Guard)
                raise NotFound(f"({expression_text(level.condition)}) has other terms for other elements of a row")
            result[1 if names & self.keys else 2 if names & columns else 0].append(level)
        rows, keys, columns = result
        return tuple(rows), tuple(keys), tuple(columns)

    def _maximum(self, opening: Opening, parts: Weights) -> Statistic:
        """The maximum, proved to be over the scores of the sum's own terms."""
        found = opening.reductions[parts.maximum]
        text = statement_text(found.equation)
        own = self._opened_terms(opening, found, parts.maximum.tensor)
        values = self._bound(found, found.values, own, parts.score)
        if values is None:
            raise NotFound(f"the terms of {text} are not the {expression_text(parts.score)} that it is subtracted from")
        self._same_terms(found, values)
        return Statistic(parts.maximum, found.statement.path)

    def _total(self, opening: Opening, parts: Weights, maximum: Statistic) -> Statistic | None:
        """The sum of the weights: the one that a term divides by, or else one that the program takes besides."""
        if parts.total is not None:
            found = opening.reductions[parts.total]
            self._prove_total(opening, found, parts, found.values)
            return Statistic(parts.total, found.statement.path)
        for path, statement in self.definitions.statements.items():
            assert isinstance(statement.node, Equation)
            target = statement.node.target
            if statement.node.op != "+=" or path == self.path or self.definitions.sole(target.tensor) is None:
                continue
            found = Reduction(statement, {name: Variable(name) for name in variables_of(target)})
            trial = Opening(self.definitions, opening.wanted)
            values = self._rows_of(found, maximum)
            if values is None or not self._follows(target, maximum.access.tensor):
                continue
            try:
                self._prove_total(trial, found, parts, values)
            except NotFound:
                continue
            opening.opened |= {path: None, **trial.opened}
            opening.leaves |= trial.leaves
            access = substitute_in(target, dict(values))
            assert isinstance(access, Access)
            return Statistic(access, path)
        return None

    def _rows_of(self, found: Reduction, maximum: Statistic) -> dict[str, Expr] | None:
        """The values of a sum's variables in the row of the maximum that its terms subtract."""
        opening = Opening(self.definitions, self._following(maximum.access.tensor))
        term = self._terms(opening, found)
        parts = _exponential(term, opening.reductions)
        if parts is None or parts.total is not None or parts.maximum.tensor != maximum.access.tensor:
            return None
        loops = {loop.variable: loop for _, loop in found.statement.loops}
        common = shared_levels(found.statement.path, self.path)
        shared = {loop.variable for where, loop in found.statement.loops if len(where) <= common}
        known: Values = {name: self.identity[name] for name in sorted(shared)}
        own = {name: loop for name, loop in loops.items() if name not in shared}
        values = solution(parts.maximum.indices, maximum.access.indices, known, own, self.frame)
        if values is None or not variables_of(found.equation.target) <= set(values):
            return None
        return {name: value for name, value in values.items() if name in variables_of(found.equation.target) | shared}

    def _prove_total(self, opening: Opening, found: Reduction, parts: Weights, rows: Values) -> None:
        """That a sum is the sum of exp(score-maximum) over the terms of the weighted sum. Raises NotFound."""
        text = statement_text(found.equation)
        if found.equation.op != "+=":
            raise NotFound(f"{text} is no sum")
        own = Opening(self.definitions, self._wanted_in(found, parts.maximum.tensor))
        term = self._terms(own, found)
        opening.opened |= own.opened
        opening.leaves |= own.leaves
        exponential = _exponential(term, own.reductions)
        if exponential is None or exponential.total or exponential.maximum.tensor != parts.maximum.tensor:
            raise NotFound(f"{text} is no sum of exp(a-{parts.maximum.tensor}): its terms are {expression_text(term)}")
        score, subtracted = exponential.score, exponential.maximum
        values = self._bound(found, rows, score, parts.score)
        if values is None:
            raise NotFound(f"the scores of {text} are not {expression_text(parts.score)}")
        same = substitute_in(subtracted, values)
        if not self.frame.equal(same, parts.maximum):
            raise NotFound(f"{text} subtracts {expression_text(same)}, not {expression_text(parts.maximum)}")
        self._same_terms(found, values)

    def _wanted_in(self, found: Reduction, maximum: str) -> Wanted:
        """What is opened in a term of a maximum or a sum: what follows the maximum, and scores."""
        rows = variables_of(found.equation.target)
        free = {loop.variable for _, loop in found.statement.loops} - rows

        def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
            del statement, shared
            names = variables_of(access)
            return self._follows(access, maximum) or (rows <= names and bool(names & free))

        return wanted

    def _opened_terms(self, opening: Opening, found: Reduction, maximum: str) -> Expr:
        own = Opening(self.definitions, self._wanted_in(found, maximum))
        term = self._terms(own, found)
        opening.opened |= own.opened
        opening.leaves |= own.leaves
        return term

    def _terms(self, opening: Opening, found: Reduction) -> Expr:
        """The terms of a reduction in its own variables."""
        path = found.statement.path
        own: Values = {loop.variable: Variable(loop.variable) for _, loop in found.statement.loops}
        return opening.expression(found.equation.value, own, path, self.definitions.frame(path))

    def _bound(self, found: Reduction, rows: Values, terms: Expr, score: Expr) -> dict[str, Expr] | None:
        """The values of a reduction's variables in the instance whose term is a score of the weighted sum."""
        loops = {loop.variable: loop for _, loop in found.statement.loops if loop.variable not in rows}
        pairs = list(subscript_pairs(terms, score))
        patterns, values = [p for p, _ in pairs], [v for _, v in pairs]
        unknown = [n for n, p in enumerate(patterns) if variables_of(p) & set(loops)]
        known = dict(rows)
        solved = solution([patterns[n] for n in unknown], [values[n] for n in unknown], known, loops, self.frame)
        if solved is None or not set(loops) <= set(solved):
            return None
        if not self.frame.equal(substitute_in(terms, solved), score):
            return None
        return solved

    def _same_terms(self, found: Reduction, values: Values) -> None:
        """That the terms of a reduction are those of the weighted sum, each once. Raises NotFound."""
        statement = found.statement
        text = statement_text(found.equation)
        if any(_reads(guard.condition) for _, guard in statement.guards):
            raise NotFound(f"a guard of {text} reads a tensor")
        names = statement.names("y")
        inside = [f"{n.first} <= {names[n.variable]} < {n.first + n.extent}" for _, n in statement.loops]
        inside += [condition(guard.condition, names) for _, guard in statement.guards]
        frame = self.terms_frame()
        own = frame.names()
        targets = [affine(values[loop.variable], own) for _, loop in statement.loops]
        if None in targets:
            raise NotFound(f"the terms of {text} are not found by quasi-affine subscripts")
        whole = f"{{ S[{','.join(names.values())}] : {conjunction(inside)} }}"
        moved = ",".join(text for text in targets if text is not None)
        piece = f"{{ A[{','.join(own.values())}] -> S[{moved}] : {conjunction(frame.domain())} }}"
        try:
            wrong = wrong_instance(whole, piece)
        except TooHard as reason:
            raise NotFound(f"whether {text} has the same terms is too hard to say: {reason}") from None
        if wrong is not None:
            reason, point = wrong
            where = ", ".join(f"{n.variable}={value}" for (_, n), value in zip(statement.loops, point, strict=True))
            how = {"no longer runs": "has a term of its own", "did not run before": "lacks a term"}.get(reason, reason)
            raise NotFound(f"{text} {how} at {where}, where {statement_text(self.equation)} differs")

    def terms_frame(self) -> Frame:
        """The instances of the weighted sum, those of the elements of a row as one."""
        kept = tuple(v for v in self.frame.variables if v[0] not in self.columns)
        return Frame(kept, tuple(e for e in self.frame.where if not variables_of(e) & self.columns))

    def _inner(self, opening: Opening, access: Access, frame: Frame) -> Inner:
        """A reduction of a score or a value, in the nest's variables and fresh ones for its own loops."""
        found = opening.reductions[access]
        if not is_float(self.definitions.dtypes[access.tensor]):
            raise NotFound(f"{access.tensor}, which a score reads, is no float")
        names: dict[str, str] = {}
        for loop in found.free():
            is_free = loop.variable not in self.identity and loop.variable not in self.inside
            fresh = loop.variable if is_free else unused_variable(self.taken)
            self.taken |= {fresh}
            self.inside |= {fresh}
            names[loop.variable] = fresh
        values: dict[str, Expr] = {**found.values, **{old: Variable(new) for old, new in names.items()}}
        levels: list[Loop | Guard] = []
        inside = {path: loop for path, loop in found.statement.loops if loop.variable in names}
        guards = {path: g for path, g in found.statement.guards if variables_of(g.condition) & set(names)}
        for path in sorted((*inside, *guards), key=len):
            if path in inside:
                loop = inside[path]
                levels.append(Loop("L", names[loop.variable], loop.extent, loop.first, ()))
            else:
                levels.append(Guard(substitute_in(guards[path].condition, values), ()))
        ranges = tuple((n.variable, n.first, n.extent) for n in levels if isinstance(n, Loop))
        conditions = tuple(n.condition for n in levels if isinstance(n, Guard))
        if any(_reads(each) for each in conditions):
            raise NotFound(f"a guard of {statement_text(found.equation)} reads a tensor")
        deeper = Frame((*frame.variables, *ranges), (*frame.where, *conditions))
        known = set(opening.reductions)
        value = opening.expression(found.equation.value, values, found.statement.path, deeper)
        below = [a for a in accesses(value) if a in opening.reductions and a not in known]
        inner = tuple(self._inner(opening, each, deeper) for each in dict.fromkeys(below))
        return Inner(access, found.equation, tuple(levels), value, inner)


def read_elsewhere(program: Program, attention: Attention) -> dict[str, tuple[Path, ...]]:
    """The statements that read a tensor of an opened equation, other than those equations and the weighted sum."""
    own = {*attention.opened, attention.path}
    made = {tensor_written(program, path) for path in attention.opened}
    result: dict[str, list[Path]] = {}
    for path, node in walk(program):
        if path in own or not isinstance(node, Equation | Guard):
            continue
        parts = (node.value, *node.target.indices) if isinstance(node, Equation) else (node.condition,)
        for access in (a for part in parts for a in accesses(part)):
            if access.tensor in made and path not in result.setdefault(access.tensor, []):
                result[access.tensor].append(path)
    return {tensor: tuple(paths) for tensor, paths in sorted(result.items())}


def tensor_written(program: Program, path: Path) -> str:
    """The tensor that the equation at a path writes."""
    node = statement_at(program, path)
    assert isinstance(node, Equation)
    return node.target.tensor


def why_changed(match: Match, attention: Attention) -> str:
    """Why a leaf might have another value where the weighted sum stands than where it is read; empty if none has."""
    for tensor, path in attention.leaves:
        for writer in match.definitions.writers.get(tensor, []):
            common = shared_levels(path, attention.path)
            if path == attention.path or writer[:common] != path[:common]:
                continue
            low, high = sorted((path[common], attention.path[common]))
            if low <= writer[common] <= high:
                reader = statement_text(statement_at(match.program, path))
                shown = statement_text(statement_at(match.program, writer))
                return f"{shown} stands between {reader} and {statement_text(match.equation)}, and writes {tensor}"
    return ""


@dataclass(frozen=True, slots=True)
class _Exponential:
    """exp(score-maximum), or exp(score-maximum-log(total))."""

    score: Expr
    maximum: Access
    total: Access | None = None


def _exponential(expression: Expr, reductions: Mapping[Access, Reduction]) -> _Exponential | None:
    """The parts of exp(a-D), where D is a maximum; E may be in it as a logarithm, as a log-softmax has it."""
    match expression:
        case Call("exp", (Binary("-", Binary("-", score, Access() as maximum), Call("log", (Access() as total,))),)):
            found = _Exponential(score, maximum, total)
        case Call("exp", (Binary("-", score, Access() as maximum),)):
            found = _Exponential(score, maximum)
        case Call("exp", (Binary("-", score, subtracted),)) if (both := _log_sum_exp(subtracted)) is not None:
            found = _Exponential(score, *both)
        case _:
            return None
    is_maximum = found.maximum in reductions and reductions[found.maximum].equation.op == "max="
    is_sum = found.total is None or found.total in reductions
    return found if is_maximum and is_sum else None


def _log_sum_exp(expression: Expr) -> tuple[Access, Access] | None:
    """D and E of D+log(E), which may be kept from an infinite D."""
    match expression:
        case Binary("+", Access() as maximum, Call("log", (Access() as total,))):
            return maximum, total
        case Binary("+", Call("log", (Access() as total,)), Access() as maximum):
            return maximum, total
        case Select(Binary("==", Call("abs", (one,)), Real(math.inf)), other, finite) if one == other:
            both = _log_sum_exp(finite)
            return both if both is not None and both[0] == one else None
        case _:
            return None


def _parts(term: Expr, reductions: Mapping[Access, Reduction], keys: set[str]) -> Weights | None:
    """The parts of a product with one exp(a-D) in it, of which D does not change over the terms."""
    factors = list(_factors(term, False))
    for number, (factor, inverse) in enumerate(factors):
        found = None if inverse else _exponential(factor, reductions)
        if found is None or variables_of(found.maximum) & keys:
            continue
        own = found.total
        others = factors[:number] + factors[number + 1 :]
        divisors = [
            other
            for other, inverse in others
            if inverse and isinstance(other, Access) and other in reductions and not variables_of(other) & keys
        ]
        total = divisors[0] if len(divisors) == 1 and own is None else own
        assert total is None or isinstance(total, Access)
        rest = [(e, inverse) for e, inverse in others if not (inverse and e == total and own is None)]
        return Weights(found.score, found.maximum, total, _product(rest))
    return None


def _factors(expression: Expr, inverse: bool) -> Iterator[tuple[Expr, bool]]:
    """The factors of products and quotients, and whether each divides; ones left out."""
    match expression:
        case Binary("*" | "/" as op, left, right):
            yield from _factors(left, inverse)
            yield from _factors(right, inverse != (op == "/"))
        case Real(1.0):
            pass
        case _:
            yield expression, inverse


def _product(factors: list[tuple[Expr, bool]]) -> Expr:
    """The factors multiplied, and divided, in their order."""
    result: Expr | None = None
    for factor, inverse in sorted(factors, key=lambda item: item[1]):
        if result is None:
            result = Binary("/", Real(1.0), factor) if inverse else factor
        else:
            result = Binary("/" if inverse else "*", result, factor)
    return Real(1.0) if result is None else result
