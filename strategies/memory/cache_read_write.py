"""Stages the part of a tensor that a statement touches in a nearer memory: read from a copy, or written there first.

    Before    K^{n}_{x}[L^{m}_{y}[...A_{e+y}...]]
    After     K^{n}_{x}[S^{t,s}_{m};L^{m}_{u}[S_u=A_{e+u};]L^{m}_{y}[...S_y...]]               side: read
    Before    K^{n}_{x}[L^{m,k}_{y,z}[C_{e+y}+=...;]]
    After     K^{n}_{x}[R^{t,l}_{m};L^{m,k}_{y,z}[R_y+=...;]L^{m}_{u}[C_{e+u}=R_u;]]           side: write

Everything that the statement touches of the tensor goes to the new one: for `read` a copy is made right before, for
`write` the elements are stored back right after. Where the box goes over the tensor's edge, the copying is guarded. A
statement that is a loop of threads may get an `l` tensor: then each thread has a box of its own.

Legal when: the elements touched lie in a box of constant size, which moves with the loops around, not with what the
statement writes, and fits the memory; for `read`, the statement does not write the tensor; for `write`, a sum that is
continued from before the statement, or after it, is none of its elements. That every element was written before it is
read is proved again.

Pays when: elements are used more often than they are copied, or walked along memory when copied and across it when
used; accumulators in registers spare a trip to memory for each term.

Leads to: set_storage_layout, loop_vectorization, operator_fusion.

Inverse: compute_inline (of the copy).
"""

from collections.abc import Iterator
from math import prod
from typing import ClassVar, Literal

from leir.analysis.access import tensors
from leir.analysis.box import NoBox
from leir.analysis.dependence import conflict, touches_by_tensor
from leir.analysis.kernels import BYTES, axis_of, binds_axis, is_thread
from leir.analysis.model import lifetimes
from leir.edit import (
    accesses,
    enclosing,
    expressions,
    loops_around,
    map_statement,
    may_be_skipped,
    replace_at,
    statement_at,
    tensors_written,
    walk,
    walk_enclosed,
    walk_expression,
    walk_with,
)
from leir.printer import expression_text
from leir.syntax import SCOPES, Access, Alloc, Equation, Guard, Loop, Path, Program, Stmt
from strategies.base import BitExact, Fact, Gridded, Level, describe_at, numbered, path_text, statement_or_none
from strategies.grid import DEFAULT, Grid
from strategies.memories import WORDS, capacity, room_text, shape_text
from strategies.staging import Staging, staged_elements, staging

Side = Literal["read", "write"]


class CacheReadWrite(Gridded):
    name: ClassVar[str] = "cache_read_write"
    level: ClassVar[Level] = "memory"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{Run} of the nest at {path} reads {tensor} {reads} times, but only {elements} of it: brought to {to} once, "
        "{they} need not come from {source} again.",
        "{Run} of the nest at {path} writes {tensor} {writes} times, but only {elements} of it: kept in {to}, {they} "
        "{go} to {source} once.",
        "{tensor} is in {source}; of it, {run} of the nest at {path} touches {shape}, for which {to} has room{use}.",
        "The nest at {path} touches {shape} of {tensor} in {run}, {first}. A copy in {to} can take {their} place{use}.",
        "{Run} of the nest at {path} touches {shape} of {tensor} in {source}, and {to} can hold {them}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "A copy at {read_copy} brings {shape} of {tensor}, {first}, to {cache} in {to}; the nest after it "
        "reads {new_access} where it read {access}.",
        "The nest keeps {shape} of {tensor} in {cache} in {to}: {access} becomes {new_access}. A copy at {write_copy} "
        "stores {them} to {target}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "In {run}, {elements} {come} from {source} instead of {reads} reads. Values are copied, not computed, so "
        "every bit stays.",
        "In {run}, {elements} {go} to {source} instead of {writes} writes, and {values} in the order they were, so "
        "every bit stays.",
        "In each {owner}, {bytes} hold what the nest touches of {tensor}. Values are copied, not computed: no bit "
        "changes.",
        "{cache} takes {bytes} in each {owner}, and keeps there what the nest touches of {tensor}, bit for bit.",
    )

    path: Path
    tensor: str
    scope: Literal["s", "l"]
    side: Side

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["CacheReadWrite"]:
        known, largest = tensors(program), {"s": grid.shared_box, "l": grid.local_box}
        for path, node in walk(program):
            if not isinstance(node, Loop):
                continue
            written = tensors_written(node)
            scopes: list[Literal["s", "l"]] = [s for s in ("s", "l") if not _why_no_place(program, path, s)]
            for tensor in dict.fromkeys(access.tensor for access in accesses(node)):
                side: Side = "write" if tensor in written else "read"
                for scope in scopes:
                    if not _is_nearer(known[tensor].scope, scope):
                        continue
                    elements = staged_elements(node, tensor, scope)
                    if elements is not None and elements <= largest[scope]:
                        yield cls(path=path, tensor=tensor, scope=scope, side=side)

    def facts(self, program: Program) -> Iterator[Fact]:
        nest = statement_or_none(program, self.path)
        yield Fact("path-is-a-nest", isinstance(nest, Loop | Guard), describe_at(program, self.path))
        assert nest is not None
        here = f"the nest at {path_text(self.path)}"
        times = sum(access.tensor == self.tensor for access in accesses(nest))
        evidence = f"{here} accesses {self.tensor} in {numbered(times, 'place')}"
        yield Fact("tensor-is-used-there", times > 0, evidence if times else f"{here} does not use {self.tensor}")
        known = tensors(program)[self.tensor]
        nearer = _is_nearer(known.scope, self.scope)
        places = f"{self.tensor} is in {WORDS[known.scope]}; its copy would be in {WORDS[self.scope]}"
        yield Fact("scope-is-nearer", nearer, places)
        why = _why_no_place(program, self.path, self.scope)
        yield Fact("scope-has-a-place", not why, why or f"{WORDS[self.scope]} can be declared beside {here}")
        try:
            plan = staging(program, self.path, self.tensor, self.scope)
        except NoBox as reason:
            yield Fact("footprint-is-a-box", False, f"{self.tensor}: {reason}")
            return
        first = _first_text(plan)
        own = " in each thread" if plan.owners else ""
        evidence = f"{here} touches {shape_text(plan.box.shape)} of {self.tensor}, {first}{own}"
        yield Fact("footprint-is-a-box", True, evidence)
        moving = [a for index in plan.box.first for a in accesses(index) if a.tensor in tensors_written(nest)]
        evidence = "no tensor that says where the box begins is written inside"
        if not any(True for index in plan.box.first for _ in accesses(index)):
            evidence = "no tensor says where the box begins"
        if moving:
            evidence = f"the box begins at {_first_element(plan)}, and {here} writes {moving[0].tensor}"
        yield Fact("box-stays-in-place", not moving, evidence)
        most = capacity(self.scope, known.dtype)
        sizes = room_text("the copy", plan.elements, self.scope, known.dtype)
        yield Fact("size-fits", plan.elements <= most, sizes)
        writes = self.tensor in tensors_written(nest)
        if self.side == "read":
            does = "writes" if writes else "does not write"
            yield Fact("source-is-unchanged", not writes, f"{here} {does} {self.tensor}")
            return
        if not writes:
            yield Fact("values-start-inside", False, f"{here} does not write {self.tensor}")
        why = self._why_continued(program)
        evidence = f"each element of {self.tensor} takes all its terms in one run of {here}"
        if not _accumulates_first(nest, self.tensor):
            evidence = f"{here} writes {self.tensor} and reads none of it"
            if _reads(nest, self.tensor):
                evidence = f"{here} writes each element of {self.tensor} before it uses it"
        yield Fact("values-start-inside", not why, why or evidence)

    def rewrite(self, program: Program) -> Program:
        plan = staging(program, self.path, self.tensor, self.scope)
        nest = map_statement(statement_at(program, self.path), plan.access)
        alloc = Alloc(plan.cache, tensors(program)[self.tensor].dtype, self.scope, plan.shape)
        parts = (alloc, plan.copied, nest) if self.side == "read" else (alloc, nest, plan.stored)
        return replace_at(program, self.path, *parts)

    def _why_continued(self, program: Program) -> str:
        """Why the value of an element that the nest writes may come from before, or go on after; empty if it does not.

        Elements that the nest first writes as a whole start there, or the checker finds them read unwritten.
        """
        nest = statement_at(program, self.path)
        if not _accumulates_first(nest, self.tensor):
            return ""
        for path, statement in walk(program):
            outside = path[: len(self.path)] != self.path
            if outside and isinstance(statement, Equation) and statement.target.tensor == self.tensor:
                return f"{path_text(path)} writes {self.tensor} too"
        life = lifetimes(program).get(self.tensor, 0)
        touches = touches_by_tensor(program, self.path)[self.tensor]
        for depth, loop in enumerate(loops_around(program, self.path)):
            if depth < life:
                continue
            for first in touches:
                for second in touches:
                    if found := conflict(first, second, depth, lifetimes(program), [f"x{depth} < y{depth}"]):
                        return f"{loop.variable} goes on with an element: {found}"
        return ""

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        plan = staging(before, self.path, self.tensor, self.scope)
        known = tensors(before)[self.tensor]
        nest, size = statement_at(before, self.path), prod(plan.box.shape)
        own = next(access for access in accesses(nest) if access.tensor == self.tensor)
        single = size == 1
        copied = (*self.path[:-1], self.path[-1] + (1 if self.side == "read" else 2))
        result = {
            "path": path_text(self.path),
            "tensor": self.tensor,
            "cache": plan.cache,
            "shape": shape_text(plan.box.shape),
            "source": WORDS[known.scope],
            "to": WORDS[self.scope],
            "bytes": f"{prod(plan.box.shape) * BYTES[known.dtype]} bytes of {WORDS[self.scope]}",
            "owner": {"s": "block", "l": "thread"}[self.scope],
            "run": "one thread" if plan.owners else "one run",
            "Run": "One thread" if plan.owners else "One run",
            "values": "terms are taken" if _accumulates(nest, self.tensor) else "values are stored",
            "first": _first_text(plan),
            "target": _first_text(plan) if single else f"{self.tensor}, {_first_text(plan)}",
            "they": "it" if single else "they",
            "them": "it" if single else "them",
            "their": "its" if single else "their",
            "go": "goes" if single else "go",
            "come": "comes" if single else "come",
            f"{self.side}_copy": path_text(copied),
            "access": expression_text(own),
            "new_access": expression_text(plan.access(own)),
        }
        del after
        touched = _touches(nest, self.tensor, self.side)
        does = {"read": "read", "write": "written"}[self.side]
        if touched is not None:
            touched //= prod(loop.extent for loop in plan.owners)
        if touched is None:
            result["use"] = f"; how often {'it is' if single else 'each is'} {does} hangs on a condition"
        elif touched > size:
            result |= {f"{self.side}s": str(touched), "elements": numbered(size, "element")}
        else:
            touch = "touches" if touched == 1 else "touch"
            what = f"{numbered(touched, self.side)} {touch} {result['them']}"
            result["use"] = f"; {what} there, so that nothing is saved by the copy alone"
        return result


def _first_text(plan: Staging) -> str:
    """Where the elements of a box lie: from its first one on, or at its only one."""
    first = _first_element(plan)
    return first if prod(plan.box.shape) == 1 else f"from {first} on"


def _first_element(plan: Staging) -> str:
    return expression_text(Access(plan.tensor, tuple(plan.box.first)))


def _is_nearer(scope: str, other: str) -> bool:
    order: dict[str, int] = {name: number for number, name in enumerate(SCOPES)}
    return order[scope] < order[other]


def _why_no_place(program: Program, path: Path, scope: str) -> str:
    """Why a tensor in this memory cannot be declared beside the statement at a path; empty where it can."""
    axes = [axis for _, node in enclosing(program, path) if (axis := axis_of(node))]
    threads = [axis for axis in axes if is_thread(axis)]
    if len(path) == 1:
        return f"{path_text(path)} stands at top level, where only global memory is declared"
    if scope == "s" and len(threads) == len(axes):
        return f"no loop of blocks is around {path_text(path)}"
    if scope == "s" and threads:
        return f"a loop of threads, {threads[0]}, is around {path_text(path)}: shared memory is declared outside"
    inside = (axis_of(node) for _, node in walk_with(statement_at(program, path)))
    if axes and (blocks := [axis for axis in inside if axis and not is_thread(axis)]):
        return f"a loop of blocks, {blocks[0]}, is below {path_text(path)}: what a block holds is declared inside it"
    if scope == "l" and not axes and binds_axis(statement_at(program, path)):
        return f"{path_text(path)} holds a kernel: the host has no local memory"
    return ""


def _accumulates_first(nest: Stmt, tensor: str) -> bool:
    """Whether the first equation of a nest that writes the tensor accumulates."""
    equations = (node for _, node in walk(nest) if isinstance(node, Equation) and node.target.tensor == tensor)
    return next(equations).op != "="


def _accumulates(nest: Stmt, tensor: str) -> bool:
    """Whether an equation of a nest accumulates into the tensor."""
    return any(isinstance(n, Equation) and n.target.tensor == tensor and n.op != "=" for _, n in walk(nest))


def _reads(nest: Stmt, tensor: str) -> bool:
    """Whether a nest reads the tensor, to accumulate into it or otherwise."""
    written = sum(isinstance(n, Equation) and n.target.tensor == tensor for _, n in walk(nest))
    return _accumulates(nest, tensor) or sum(access.tensor == tensor for access in accesses(nest)) > written


def _touches(nest: Stmt, tensor: str, side: str) -> int | None:
    """How often a run of a nest reads or writes a tensor; None where guards or choices leave that open."""
    total = 0
    around = (nest,) if isinstance(nest, Loop | Guard) else ()
    for _, statement, levels in walk_enclosed(nest, (), around):
        found = [
            (expression, within)
            for expression in expressions(statement)
            for within, part in walk_expression(expression)
            if isinstance(part, Access) and part.tensor == tensor
        ]
        if side == "write":
            found = found[:1] if isinstance(statement, Equation) and statement.target.tensor == tensor else []
        if found and any(isinstance(level, Guard) for level in levels):
            return None
        if any(may_be_skipped(expression, within) for expression, within in found):
            return None
        times = 1
        for level in levels:
            times *= level.extent if isinstance(level, Loop) else 1
        total += len(found) * times
    return total
