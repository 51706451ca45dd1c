"""Swaps two loops of a perfect nest.

    Before    K^{n}_{x}...Q^{m}_{y}[...]
    After     Q^{m}_{y}...K^{n}_{x}[...]

Loops and guards may stand between the two. A guard between them that reads the outer variable moves below both, and
with it, in their order, the guards after it, which it may protect.

Legal when: every read still finds the value of the same write (every dependence stays lexicographically positive); only
the order in which one accumulation takes its terms is free, if that order can only change roundings. Loop kinds are
proved again.

Pays when: the inner loop then runs along memory, an operand stays in a register over the inner loop, or an independent
loop comes outside, where it can run in parallel. Any order of a nest is a few swaps away.

Inverse: loop_reorder.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.flow import flow_difference
from leir.analysis.types import is_float, type_of
from leir.edit import accesses, dtypes, expressions, nested, perfect_nest, replace_at, statement_at, variables_of, walk
from leir.printer import expression_text, header_text
from leir.syntax import Access, Binary, Equation, Expr, Guard, Loop, Path, Program, Variable
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    describe_at,
    flow_preserved,
    listed,
    path_text,
    same_loops,
    statement_or_none,
)


class LoopReorder(Strategy):
    name: ClassVar[str] = "loop_reorder"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "In {header} the innermost loop is {innermost}; with {new_innermost} innermost, {unit} is walked along memory.",
        "{fixed} does not depend on {new_innermost}: with that loop innermost, its element stays the same from one "
        "iteration to the next, and can stay in a register.",
        "{header} is one of the orders of its loops. With {inner}, of {inner_extent} iterations, outside {outer}, of "
        "{outer_extent}, other steps come within reach.",
        "The nest is perfect from {outer} down to {inner}, and nothing ties the two to this order.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Loops {outer} and {inner} swap: {header} becomes {new_header}. The equations below stay as they are.",
        "{inner} moves out and {outer} in, so that {header} is now {new_header}; nothing else changes.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{exact}: the results keep every bit. Work stays the same, only its order changes.",
        "{sums} takes its terms in another order, so the results agree to rounding, not bit for bit.",
        "Along the innermost loop, {near} of {accesses} accesses stay in place or move by one element, where it were "
        "{near_before}. {exact}.",
        "Along the innermost loop, {near} of {accesses} accesses stay in place or move by one element, where it were "
        "{near_before}. {sums} adds up in another order, which changes its rounding.",
    )

    outer: Path
    inner: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["LoopReorder"]:
        for path, node in walk(program):
            if isinstance(node, Loop):
                below = perfect_nest(node, path)[1:]
                loops = (p for p, n in below if isinstance(n, Loop) and n.kind != "V")  # a vector loop stays innermost
                yield from (cls(outer=path, inner=inner) for inner in loops)

    def facts(self, program: Program) -> Iterator[Fact]:
        for path in (self.outer, self.inner):
            found = isinstance(statement_or_none(program, path), Loop)
            yield Fact("paths-are-loops", found, describe_at(program, path))
        below = [path for path, _ in perfect_nest(statement_at(program, self.outer), self.outer)]
        evidence = f"the levels at {listed(map(path_text, below))} hold nothing but each other"
        yield Fact("nest-is-perfect", self.inner in below[1:], evidence)
        after = self.rewrite(program)
        yield flow_preserved(program, after, same_loops(program, after), unordered=_accumulations(after))

    def rewrite(self, program: Program) -> Program:
        nest = perfect_nest(statement_at(program, self.outer), self.outer)
        first, *between, last = (node for path, node in nest if len(path) <= len(self.inner))
        assert isinstance(first, Loop) and isinstance(last, Loop)
        guards = [n for n, node in enumerate(between) if isinstance(node, Guard)]
        bound = [n for n in guards if first.variable in variables_of(*expressions(between[n]))]
        moving = [n for n in guards if bound and n >= bound[0]]
        staying = [node for n, node in enumerate(between) if n not in moving]
        levels = [last, *staying, first, *(between[n] for n in moving)]
        return replace_at(program, self.outer, *nested(levels, last.body))

    def is_bit_exact(self, program: Program) -> bool:
        after = self.rewrite(program)
        exact = _accumulations(after, exact=True)
        return flow_difference(program, after, same_loops(program, after), unordered=exact) is None

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        old, new = (perfect_nest(statement_at(p, self.outer)) for p in (before, after))
        outer, inner = statement_at(before, self.outer), statement_at(before, self.inner)
        assert isinstance(outer, Loop) and isinstance(inner, Loop)
        result = {
            "outer": outer.variable,
            "inner": inner.variable,
            "outer_extent": str(outer.extent),
            "inner_extent": str(inner.extent),
            "header": header_text(level for _, level in old),
            "new_header": header_text(level for _, level in new),
        }
        if self.is_bit_exact(before):
            result["exact"] = "Every sum takes its terms in the order it had"
        else:
            targets = [
                statement_at(after, path) for path in _accumulations(after) if path[: len(self.outer)] == self.outer
            ]
            result["sums"] = listed(dict.fromkeys(s.target.tensor for s in targets if isinstance(s, Equation)))
        innermost, new_innermost = ([n.variable for _, n in nest if isinstance(n, Loop)][-1] for nest in (old, new))
        if innermost == new_innermost:
            return result
        used = list(dict.fromkeys(a for node in old[-1][1].body for a in accesses(node)))
        steps, new_steps = ([_step(a, variable) for a in used] for variable in (innermost, new_innermost))
        result["innermost"], result["new_innermost"] = innermost, new_innermost
        result["accesses"] = str(len(used))
        result["near_before"], result["near"] = (str(sum(s in (0, 1) for s in each)) for each in (steps, new_steps))
        for term, step in (("fixed", 0), ("unit", 1)):
            gained = [expression_text(a) for a, s, t in zip(used, steps, new_steps, strict=True) if t == step != s]
            if gained:
                result[term] = gained[0]
        return result


def _step(access: Access, variable: str) -> int | None:
    """By how many elements an access moves when the variable grows by one: 0, 1, or None for anything else."""
    if variable not in variables_of(access):
        return 0
    *leading, last = access.indices
    ahead = any(variable in variables_of(index) for index in leading)
    return 1 if not ahead and _slope(last, variable) == 1 else None


def _slope(expression: Expr, variable: str) -> int | None:
    """The coefficient of a variable in a sum; None where it stands in anything else."""
    match expression:
        case Variable(name) if name == variable:
            return 1
        case Binary("+" | "-" as op, left, right):
            a, b = _slope(left, variable), _slope(right, variable)
            return None if a is None or b is None else a + b if op == "+" else a - b
        case _:
            return None if variable in variables_of(expression) else 0


def _accumulations(program: Program, *, exact: bool = False) -> list[Path]:
    """The accumulations whose terms' order can change nothing but roundings; with `exact`, not even those.

    A float cut to an integer at each step is none of them.
    """
    result: list[Path] = []
    types = dtypes(program)
    for path, node in walk(program):
        if isinstance(node, Equation) and node.op != "=":
            to_float = is_float(types[node.target.tensor])
            keeps_bits = node.op in ("max=", "min=") or not to_float
            if (to_float or not is_float(type_of(node.value, types))) and (keeps_bits or not exact):
                result.append(path)
    return result
