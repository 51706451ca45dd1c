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

Leads to: set_storage_scope, compute_inline.

Inverse: operator_fission.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from leir.analysis.access import tensors
from leir.analysis.matching import common_levels
from leir.edit import (
    accesses,
    enclosing,
    iterations_around,
    loops_around,
    perfect_nest,
    replace_at,
    statement_at,
    statements_at,
    tensors_read,
    tensors_written,
    variables_of,
    walk,
)
from leir.names import substitute_each, substitute_in
from leir.printer import expression_text, header_text
from leir.syntax import Access, Alloc, Expr, Guard, Loop, Path, Program, Stmt, Variable
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    called,
    counted,
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
        "The nests at {first} and {second} are neighbours with equal headers, {header}, and both use {shared}: in "
        "one nest the second use comes in the same iteration, not after the whole of the first nest.",
        "The nest at {first} writes up to {whole} elements of {passed} before its neighbour at {second} reads any. "
        "An iteration of {header} reads no more than {part} of these, and none but its own: in one nest it can read "
        "as soon as it has written.",
        "The nest at {second} reads {passed}, which its neighbour at {first} has just written, under the same "
        "header {header}. In one nest each iteration can go on with what it has made.",
        "Why run {header} twice? The nests at {first} and {second} do so, one right after the other, and neither "
        "needs the other to be done with all of it.",
        "Between the nests at {first} and {second} lies the whole of {passed}, {whole} elements; once they are one "
        "nest, an iteration of {header} needs no more than {part} of them.",
        "Both neighbours, at {first} and {second}, use {shared}, in iterations that {header} numbers alike.",
        "Two neighbours, at {first} and {second}, count {iterations} of {header} each.",
        "The nests at {first} and {second} are neighbours and begin alike, with {header}: {iterations} that one nest "
        "can run once for both.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "The header {header} stays once; inside it, the body of {second} follows the body of {first}. {renames}",
        "What the two nests share, {header}, is written once. Each of its iterations now does what {first} did and "
        "then what {second} did. {renames}",
        "Two nests become one at {first}, under {header}. {renames}",
        "The body of the nest at {second} moves to the end of that at {first}; its header goes. {renames}",
        "The nest at {second} is taken into the one at {first}: under {header} come the statements of both, in "
        "their order. {renames}",
        "At {first} one nest runs {header} for both bodies. {renames}",
        "The nest at {first} goes on with what stood at {second}, iteration by iteration of {header}. {renames}",
        "One of two equal headers goes, {header} at {second}, and its body joins the other. {renames}",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Each equation runs as often as before, with the same operands, so the results keep every bit.{fewer}",
        "No read changes its writer and no accumulation its order, so nothing changes in the results. The header "
        "runs once instead of twice, which saves the counting and testing of {overhead}.",
        "The first nest was through with {passed}, up to {whole} elements, before the second read one; now an "
        "iteration of {header} writes and reads no more than {part} of them. Each equation runs as before: the results "
        "keep every bit.",
        "An iteration of {header} uses {shared} twice in a row now, and no bit of a result changes.",
        "It saves one run through the header, {passes} of its innermost loop; arithmetic and all bits are as before.",
        "An iteration of {header} touches no more than {part} of the {whole} elements of {passed}, and none that "
        "another touches, so that what the first part writes is at hand for the second. Every bit stays.",
        "There is one nest to order, tile and bind where there were two. No read finds another value: the bits stay.",
        "Each equation computes what it computed, from the same values, to the bit; only the order in which iterations "
        "take turns is different.",
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
                    common = len(common_levels(node, statement_at(program, second)))
                    yield from (cls(path=(*path, number), depth=depth) for depth in range(common, 0, -1))

    def facts(self, program: Program) -> Iterator[Fact]:
        first = statement_or_none(program, self.path)
        yield Fact("path-is-a-nest", isinstance(first, Loop | Guard), describe_at(program, self.path))
        assert first is not None
        second = _neighbour(program, self.path)
        where = path_text(self.path)
        evidence = f"no nest follows {where}"
        if second is not None:
            evidence = f"{path_text(second)}, {called(statement_at(program, second))}, follows {where}"
        yield Fact("has-a-neighbour", second is not None, evidence)
        assert second is not None
        other = statement_at(program, second)
        common = common_levels(first, other)
        are = "level is equal" if len(common) == 1 else "levels are equal"
        evidence = f"{len(common)} {are} from the outside in, not {self.depth}"
        if len(common) >= self.depth:
            headers = dict.fromkeys(header_text(_levels(nest)[: self.depth]) for nest in (first, other))
            evidence = f"{where} and {path_text(second)} begin with {listed(headers)}"
        yield Fact("headers-are-equal", len(common) >= self.depth, evidence)
        after = self.rewrite(program)
        because = _flow_text(first, other, self.depth)
        yield flow_preserved(program, after, renamed_loops(program, after), because=because)

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
        header = _levels(one)[: self.depth]
        iterations = math.prod(n.extent for n in header if isinstance(n, Loop))
        result = {
            "first": path_text(self.path),
            "second": path_text(second),
            "header": header_text(header),
            "iterations": counted(iterations, "iteration"),
            "renames": f"In the second, {listed(renames)}." if renames else "",
            "fewer": "",
        }
        if parent:  # the nests of the program itself are among the totals
            old, new = (sum(isinstance(s, Loop | Guard) for s in statements_at(p, parent)) for p in (before, after))
            result["fewer"] = f" {old} nests of the list below {path_text(parent)} become {'one' if new == 1 else new}."
        if not any(isinstance(node, Guard) for node in (*header, *(n for _, n in enclosing(before, self.path)))):
            overhead = iterations_around(before, self.path) * iterations
            result["overhead"] = counted(overhead, "iteration")
            result["passes"] = "1 pass" if overhead == 1 else f"{overhead} passes"
        names: dict[str, Expr] = {v: Variable(w) for w, v in pairs}
        common = {w for w, _ in pairs}
        here = [a for a in dict.fromkeys(accesses(one)) if variables_of(a) <= common]
        again = [e for a in accesses(other) if variables_of(e := substitute_in(a, names)) <= common]
        if shared := [a for a in here if a in again]:
            result["shared"] = listed(map(expression_text, shared))
        passed = [t for t in _passed(one, other) if _subscripts_of_own(one, other, self.depth, t)]
        if passed:
            own = _subscripts_of_own(one, other, self.depth, passed[0])
            shape = tensors(before)[passed[0]].shape
            result["passed"] = passed[0]
            outside = {loop.variable for loop in loops_around(before, self.path)}
            used = [a.indices for nest in (one, other) for a in accesses(nest) if a.tensor == passed[0]]
            sizes = {
                n: size
                for n, size in enumerate(shape)
                if len({indices[n] for indices in used}) > 1 or not variables_of(used[0][n]) <= outside
            }
            whole, part = math.prod(sizes.values()), math.prod(size for n, size in sizes.items() if n not in own)
            if part < whole:
                result["whole"], result["part"] = str(whole), "one" if part == 1 else str(part)
        return result


def _passed(one: Stmt, other: Stmt) -> list[str]:
    """The tensors that the first nest writes and the second reads."""
    return [tensor for tensor in tensors_written(one) if tensor in tensors_read(other)]


def _flow_text(one: Stmt, other: Stmt, depth: int) -> str:
    """How values flow between the two nests, once it is known that each keeps its writer."""
    header = header_text(_levels(one)[:depth])
    if passed := _passed(one, other):
        if all(_subscripts_of_own(one, other, depth, tensor) for tensor in passed):
            return f"an iteration of {header} reads only elements of {listed(passed)} that are its own"
        return f"what the second nest reads of {listed(passed)} is complete by the same iteration of {header}"
    if later := [tensor for tensor in tensors_written(other) if tensor in tensors_read(one)]:
        return f"the second nest writes {listed(later)} only where the first has no more to read"
    if both := [tensor for tensor in tensors_written(one) if tensor in tensors_written(other)]:
        return f"both nests write {listed(both)}, and each element keeps its last write"
    return "neither nest reads or writes what the other writes"


def _subscripts_of_own(one: Stmt, other: Stmt, depth: int, tensor: str) -> set[int]:
    """The subscripts of a tensor that are the variables of the common loops, each once and in every access.

    With them, no two iterations of the header touch one element. Empty where a variable is none of the subscripts.
    """
    result: set[int] = set()
    names: dict[str, Expr] = {v: Variable(w) for w, v in _pairs(one, other, depth)}
    used = [a for a in accesses(one) if a.tensor == tensor]
    used += [e for a in accesses(other) if isinstance(e := substitute_in(a, names), Access) and a.tensor == tensor]
    for variable, _ in _pairs(one, other, depth):
        found = [n for n in range(len(used[0].indices)) if all(a.indices[n] == Variable(variable) for a in used)]
        if not found:
            return set()
        result.add(found[0])
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
