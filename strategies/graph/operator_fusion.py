"""Makes one nest of two neighbours with equal headers: the body of the second follows that of the first.

    Before    K^{n}_{x}[...x...] K^{n}_{y}[...y...]
    After     K^{n}_{x}[...x... ...x...]

`depth` counts the levels, loops and guards, that become common; levels below stay apart. Headers are equal when each
level has the same kind (for B the same axis), extent and first value, or the same condition, whatever its variables are
called. Allocations between the two nests move before them.

Legal when: every read still finds the value of the same write. That fails where a later iteration of the first nest
makes what an earlier iteration of the second uses. Loop kinds are proved again: what is legal in sequence can be a race
between threads.

Pays when: the second nest uses what the first reads or writes, so that a value is used again while it is near (a
register, a cache) instead of after a pass over the whole tensor; and where two kernels become one.

Inverse: operator_fission.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from leir.edit import accesses, perfect_nest, replace_at, statement_at, statements_at, variables_of, walk
from leir.names import substitute_each, substitute_in
from leir.printer import expression_text, header_text
from leir.syntax import Alloc, Equation, Expr, Guard, Loop, Path, Program, Stmt, Variable
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    describe_at,
    flow_preserved,
    listed,
    path_text,
    renamed_loops,
    statement_or_none,
)


class OperatorFusion(Strategy):
    name: ClassVar[str] = "operator_fusion"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "The nests at {first} and {second} are neighbours with equal headers, {header}, and both use {shared}: in one "
        "nest the second use comes in the same iteration, not after a pass of {iterations}.",
        "{produced} is written by the nest at {first} and read by its neighbour at {second}, a pass of {iterations} "
        "iterations later; in one nest, the iteration that writes it is the one that reads it.",
        "Under {header} the program passes the same {iterations} iterations twice, at {first} and at {second}. One "
        "pass can do the work of both.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "The header {header} stays once; inside it, the body of {second} follows the body of {first}. {renames}",
        "What the two nests share, {header}, is written once. Each of its iterations now does what {first} did and "
        "then what {second} did. {renames}",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{statements_before} nests of this list become {statements_after}; each equation runs as often as before, "
        "with the same operands, so the results keep every bit.",
        "No read changes its writer and no accumulation its order, so nothing changes in the results. {iterations} "
        "iterations of loop overhead go.",
    )

    path: Path
    depth: int = Field(ge=1)

    @classmethod
    def candidates(cls, program: Program) -> Iterator["OperatorFusion"]:
        lists = [(), *(path for path, node in walk(program) if isinstance(node, Loop | Guard))]
        for path in lists:
            for number, node in enumerate(statements_at(program, path)):
                second = _neighbour(program, (*path, number))
                if isinstance(node, Loop | Guard) and second is not None:
                    common = len(_common_levels(node, statement_at(program, second)))
                    yield from (cls(path=(*path, number), depth=depth) for depth in range(common, 0, -1))

    def facts(self, program: Program) -> Iterator[Fact]:
        first = statement_or_none(program, self.path)
        yield Fact("path-is-a-nest", isinstance(first, Loop | Guard), describe_at(program, self.path))
        assert first is not None
        second = _neighbour(program, self.path)
        evidence = "no nest follows it" if second is None else describe_at(program, second)
        yield Fact("has-a-neighbour", second is not None, f"{path_text(self.path)}: {evidence}")
        assert second is not None
        common = _common_levels(first, statement_at(program, second))
        evidence = f"{len(common)} levels are equal from the outside in, not {self.depth}"
        if len(common) >= self.depth:
            evidence = f"{header_text(_levels(first)[: self.depth])} at {path_text(self.path)} and {path_text(second)}"
        yield Fact("headers-are-equal", len(common) >= self.depth, evidence)
        after = self.rewrite(program)
        yield flow_preserved(program, after, renamed_loops(program, after))

    def rewrite(self, program: Program) -> Program:
        second = _neighbour(program, self.path)
        assert second is not None
        one, other = statement_at(program, self.path), statement_at(program, second)
        names: dict[str, Expr] = {v: Variable(w) for w, v in _pairs(one, other, self.depth) if v != w}
        fused = _with_tail(one, self.depth, substitute_each(_tail(other, self.depth), names))
        between = statements_at(program, self.path[:-1])[self.path[-1] + 1 : second[-1]]
        without = program
        for _ in (*between, other):
            without = replace_at(without, (*self.path[:-1], self.path[-1] + 1))
        return replace_at(without, self.path, *between, fused)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        second = _neighbour(before, self.path)
        assert second is not None
        one, other = statement_at(before, self.path), statement_at(before, second)
        pairs = _pairs(one, other, self.depth)
        renames = [f"its {v} is written {w}" for w, v in pairs if v != w]
        parent = self.path[:-1]
        result = {
            "first": path_text(self.path),
            "second": path_text(second),
            "header": header_text(_levels(one)[: self.depth]),
            "iterations": str(math.prod(n.extent for n in _levels(one)[: self.depth] if isinstance(n, Loop))),
            "renames": f"In the second, {listed(renames)}." if renames else "No name changes.",
            "statements_before": str(sum(isinstance(s, Loop | Guard) for s in statements_at(before, parent))),
            "statements_after": str(sum(isinstance(s, Loop | Guard) for s in statements_at(after, parent))),
        }
        names: dict[str, Expr] = {v: Variable(w) for w, v in pairs}
        common = {w for w, _ in pairs}
        here = [a for a in dict.fromkeys(accesses(one)) if variables_of(a) <= common]
        again = [e for a in accesses(other) if variables_of(e := substitute_in(a, names)) <= common]
        written = [s.target for _, s in walk(one) if isinstance(s, Equation)]
        if shared := [a for a in here if a in again]:
            result["shared"] = listed(map(expression_text, shared))
        if produced := [a for a in shared if a in written]:
            result["produced"] = listed(map(expression_text, produced))
        return result


def _neighbour(program: Program, path: Path) -> Path | None:
    """The next statement of the same list that is no allocation, if it is a nest."""
    siblings = statements_at(program, path[:-1])
    for number in range(path[-1] + 1, len(siblings)):
        if not isinstance(siblings[number], Alloc):
            return (*path[:-1], number) if isinstance(siblings[number], Loop | Guard) else None
    return None


def _levels(nest: Stmt) -> list[Loop | Guard]:
    return [level for _, level in perfect_nest(nest)]


def _common_levels(one: Stmt, other: Stmt) -> list[Loop | Guard]:
    """The levels from the outside in that are equal in both."""
    names: dict[str, Expr] = {}
    common: list[Loop | Guard] = []
    for a, b in zip(_levels(one), _levels(other), strict=False):
        match a, b:
            case Loop(), Loop():
                axes_agree = a.kind != "B" or a.variable[:2] == b.variable[:2]
                if (a.kind, a.extent, a.first) != (b.kind, b.extent, b.first) or not axes_agree:
                    return common
                names[b.variable] = Variable(a.variable)
            case Guard(), Guard():
                if substitute_in(b.condition, names) != a.condition:
                    return common
            case _:
                return common
        common.append(a)
    return common


def _pairs(one: Stmt, other: Stmt, depth: int) -> list[tuple[str, str]]:
    """The variables of the common loops, in the first nest and in the second."""
    levels = zip(_levels(one)[:depth], _levels(other)[:depth], strict=True)
    return [(a.variable, b.variable) for a, b in levels if isinstance(a, Loop) and isinstance(b, Loop)]


def _tail(nest: Stmt, depth: int) -> tuple[Stmt, ...]:
    return _levels(nest)[depth - 1].body


def _with_tail(nest: Stmt, depth: int, more: tuple[Stmt, ...]) -> Stmt:
    assert isinstance(nest, Loop | Guard)
    if depth == 1:
        return replace(nest, body=(*nest.body, *more))
    return replace(nest, body=(_with_tail(nest.body[0], depth - 1, more),))
