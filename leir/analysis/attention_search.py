"""The search for an attention: a sum of values weighted by a softmax, and the reductions behind it.

The weighted sum is looked at in the variables of its own loops, with the temporaries opened that lie between it and its
operands (`leir.analysis.definitions`), so that the parts may be fused, split, inlined or tiled. Each piece is proved by
itself; one that does not hold raises `NotFound`, whose message says why.
"""

from leir.analysis.attention import Attention, Inner, Levels, Statistic
from leir.analysis.definitions import Opening, Reduction, Wanted, definitions_of, shared_levels
from leir.analysis.frames import Frame
from leir.analysis.model import Statement
from leir.analysis.softmax import NotFound, exponential, follows, instance_of, prove_same_terms
from leir.analysis.solving import Values, solution
from leir.analysis.types import is_float
from leir.analysis.weights import Weights, weights_of
from leir.edit import accesses, perfect_nest, sole_equation, statement_at, variables_of
from leir.names import bound_variables, substitute_in, unused_variable
from leir.printer import equation_text, expression_text
from leir.syntax import Access, Equation, Expr, Guard, Loop, Path, Program, Variable


def _reads(expression: Expr) -> bool:
    """Whether an expression reads a tensor."""
    return any(True for _ in accesses(expression))


class Match:
    """A weighted sum under examination. Each method proves one piece, or raises NotFound."""

    def __init__(self, program: Program, nest: Path) -> None:
        found = sole_equation(statement_at(program, nest), nest)
        assert found is not None
        self.program = program
        self.path, self.equation = found
        self.definitions = definitions_of(program)
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
        opening = self._opening(self._following(None))
        term = opening.expression(self.equation.value, self.identity, self.path, self.frame)
        found = weights_of(term, opening.reductions, self.keys)
        if found is None:
            shown = f"{expression_text(term)}, the term of {equation_text(self.equation)}"
            raise NotFound(f"{shown} is no value times exp(a-D), or that over E, with D the maximum of other terms")
        return found

    def _opening(self, wanted: Wanted) -> Opening:
        """Opens temporaries only: an output stays, whatever reads it."""

        def temporary(access: Access, statement: Statement, shared: set[str]) -> bool:
            return self._temporary(access.tensor) is not None and wanted(access, statement, shared)

        return Opening(self.definitions, temporary)

    def _temporary(self, tensor: str) -> Statement | None:
        """The equation that alone writes a temporary."""
        return None if tensor in self.definitions.outputs else self.definitions.sole(tensor)

    def _following(self, maximum: str | None) -> Wanted:
        """Opens what depends on a maximum, or on the one of the given tensor."""

        def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
            del statement, shared
            return self._follows(access, maximum)

        return wanted

    def _follows(self, access: Access, maximum: str | None) -> bool:
        return follows(self.definitions, access.tensor, maximum)

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

        opening = self._opening(wanted)
        term = opening.expression(self.equation.value, self.identity, self.path, self.frame)
        parts = weights_of(term, opening.reductions, self.keys)
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
        text = equation_text(found.equation)
        own = self._opened_terms(opening, found, parts.maximum.tensor)
        values = instance_of(found, found.values, own, parts.score, self.frame)
        if values is None:
            raise NotFound(f"the terms of {text} are not the {expression_text(parts.score)} that it is subtracted from")
        prove_same_terms(found.statement, values, self.terms_frame(), equation_text(self.equation))
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
            if statement.node.op != "+=" or path == self.path or self._temporary(target.tensor) is None:
                continue
            found = Reduction(statement, {name: Variable(name) for name in sorted(variables_of(target))})
            trial = self._opening(opening.wanted)
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
        opening = self._opening(self._following(maximum.access.tensor))
        term = self._terms(opening, found)
        parts = exponential(term, opening.reductions)
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
        text = equation_text(found.equation)
        if found.equation.op != "+=":
            raise NotFound(f"{text} is no sum")
        own = self._opening(self._wanted_in(found, parts.maximum.tensor))
        term = self._terms(own, found)
        opening.opened |= own.opened
        opening.leaves |= own.leaves
        power = exponential(term, own.reductions)
        if power is None or power.total or power.maximum.tensor != parts.maximum.tensor:
            raise NotFound(f"{text} is no sum of exp(a-{parts.maximum.tensor}): its terms are {expression_text(term)}")
        score, subtracted = power.score, power.maximum
        values = instance_of(found, rows, score, parts.score, self.frame)
        if values is None:
            raise NotFound(f"the scores of {text} are not {expression_text(parts.score)}")
        same = substitute_in(subtracted, values)
        if not self.frame.equal(same, parts.maximum):
            raise NotFound(f"{text} subtracts {expression_text(same)}, not {expression_text(parts.maximum)}")
        prove_same_terms(found.statement, values, self.terms_frame(), equation_text(self.equation))

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
        own = self._opening(self._wanted_in(found, maximum))
        term = self._terms(own, found)
        opening.opened |= own.opened
        opening.leaves |= own.leaves
        return term

    def _terms(self, opening: Opening, found: Reduction) -> Expr:
        """The terms of a reduction in its own variables."""
        path = found.statement.path
        own: Values = {loop.variable: Variable(loop.variable) for _, loop in found.statement.loops}
        return opening.expression(found.equation.value, own, path, self.definitions.frame(path))

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
            raise NotFound(f"a guard of {equation_text(found.equation)} reads a tensor")
        deeper = Frame((*frame.variables, *ranges), (*frame.where, *conditions))
        known = set(opening.reductions)
        value = opening.expression(found.equation.value, values, found.statement.path, deeper)
        below = [a for a in accesses(value) if a in opening.reductions and a not in known]
        inner = tuple(self._inner(opening, each, deeper) for each in dict.fromkeys(below))
        return Inner(access, found.equation, tuple(levels), value, inner)
