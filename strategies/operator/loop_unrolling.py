"""Unrolls a serial loop: its body is written out once for every iteration.

    Before    L^{n}_{x}[...]
    After     U^{n}_{x}[...]

Legal when: along no path do the unrolled loops make more than 1,024 copies of a body. Iterations keep their order. With
`kind: serial` an unrolled loop becomes serial again, which is always legal.

Pays when: the loop is short and its body small: loop control goes, subscripts become constants, values that iterations
share stay in registers, and on a GPU an `l` tensor can live in registers only where its subscripts are constants. Long
loops make long code, and cost more to fetch than they save.

Inverse: loop_unrolling with `kind: serial`.
"""

from collections.abc import Iterator
from math import prod
from typing import ClassVar, Literal

from leir.analysis.access import tensors
from leir.edit import accesses, body_of, enclosing, perfect_nest, variables_of, walk, walk_enclosed
from leir.printer import expression_text
from leir.syntax import Equation, Loop, Path, Program, Stmt
from strategies.base import BitExact, Fact, Gridded, Level, listed
from strategies.grid import DEFAULT, Grid
from strategies.kinds import is_of_kind, loop_at, loop_terms, with_kind

COPIES = 1024  # of a body, along any path: more take seconds to compile


class LoopUnrolling(Gridded):
    name: ClassVar[str] = "loop_unrolling"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{registers} {are} subscripted by {variable}: written out, its {extent} iterations name fixed elements, as "
        "registers have to be.",
        "{shared} {do} not depend on {variable}: written out side by side, its {extent} iterations can share {loads}.",
        "Loop {variable} at {path} stands as {given_up} copies of {copied}; before it can be parallel, a vector or "
        "bound, it has to be rolled up.",
        "Loop {variable} at {path} has {extent} iterations, and counts and tests for each of them beside {body}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{header} becomes {new_header}; the {equations} below {stay} as before.",
        "Loop {variable} is {new_kind} instead of {kind}: {new_header}. Nothing else changes.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The code holds {copies} of {copied}, in the order of the iterations, so every bit stays. What goes is the "
        "counting and testing, {times} in each run of the loop.",
        "{own_copies} of {copied} follow one another in the code, and compute what the {extent} iterations did, bit "
        "for bit.",
        "The code is shorter by {fewer} of {copied}; the {given_up} iterations compute the same bits.",
    )

    path: Path
    kind: Literal["unrolled", "serial"] = "unrolled"

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["LoopUnrolling"]:
        for path, node in walk(program):
            if isinstance(node, Loop) and node.kind == "U":
                yield cls(path=path, kind="serial")
            elif isinstance(node, Loop) and node.kind == "L" and 1 < node.extent <= grid.unrolled:
                yield cls(path=path)

    def facts(self, program: Program) -> Iterator[Fact]:
        if self.kind == "serial":
            holds, evidence = is_of_kind(program, self.path, "U")
            yield Fact("loop-is-unrolled", holds, evidence)
            return
        holds, evidence = is_of_kind(program, self.path, "L")
        yield Fact("loop-is-serial", holds, evidence)
        factors = _unrolled(program, self.path)
        copies = prod(factors)
        along = f"{'*'.join(map(str, factors))} = {copies}" if len(factors) > 1 else str(copies)
        evidence = f"there are {along} copies of the body, of at most {COPIES}"
        yield Fact("copies-are-few", copies <= COPIES, evidence)

    def rewrite(self, program: Program) -> Program:
        return with_kind(program, self.path, "L" if self.kind == "serial" else "U")

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        loop = loop_at(before, self.path)
        result = loop_terms(before, after, self.path)
        result["body"] = _body_text(loop, result["equations"])
        result["copied"] = result["body"].replace("its ", "the loop's ")
        around = prod(node.extent for node in _unrolled_around(before, self.path))
        if self.kind == "serial":
            fewer = around * (loop.extent - 1)
            return {**result, "fewer": "1 copy" if fewer == 1 else f"{fewer} copies"}
        result["copies"], result["own_copies"] = f"{around * loop.extent} copies", f"{loop.extent} copies"
        result["times"] = "twice" if loop.extent == 2 else f"{loop.extent} times"
        known, fixed = (
            tensors(before),
            {loop.variable, *(node.variable for node in _unrolled_around(before, self.path))},
        )
        local: dict[str, None] = {}
        shared: dict[str, None] = {}
        for _, below, inside in walk_enclosed(loop):
            kinds = {node.variable: node.kind for node in inside if isinstance(node, Loop)}
            for access in accesses(below) if isinstance(below, Equation) else ():
                used, is_fixed = variables_of(access), loop.variable not in kinds
                if known[access.tensor].scope == "l" and loop.variable in used and is_fixed:
                    if all(name in fixed or kinds.get(name) == "U" for name in used):
                        local[access.tensor] = None
                elif known[access.tensor].role == "input" and not used & {loop.variable, *kinds}:
                    shared[expression_text(access)] = None
        if local:
            result |= {"registers": listed(local), "are": "are" if len(local) > 1 else "is"}
        if shared:
            several = len(shared) > 1
            result |= {"shared": listed(shared), "do": "do" if several else "does"}
            result["loads"] = "their loads" if several else "a load"
        return result


def _body_text(loop: Loop, equations: str) -> str:
    """What stands below a loop, and is copied: its equations, one nest, or a list with nests in it."""
    if not any(isinstance(node, Loop) for _, node in walk(loop)):
        return f"its {equations}"
    first, *others = loop.body
    if others:
        return f"its body of {len(loop.body)} statements"
    names = [node.variable for _, node in perfect_nest(first) if isinstance(node, Loop)]
    if not names:
        return "what its guard holds"
    return f"the {'nest' if len(names) > 1 else 'loop'} over {listed(names)}"


def _unrolled_around(program: Program, path: Path) -> list[Loop]:
    return [node for _, node in enclosing(program, path) if isinstance(node, Loop) and node.kind == "U"]


def _unrolled(program: Program, path: Path) -> list[int]:
    """The extents of the unrolled loops along the path through the loop at `path` that makes most copies."""
    around = [node.extent for node in _unrolled_around(program, path)]
    loop = loop_at(program, path)
    return [*around, loop.extent, *max((_copied(s) for s in loop.body), key=prod)]


def _copied(statement: Stmt) -> list[int]:
    own = [statement.extent] if isinstance(statement, Loop) and statement.kind == "U" else []
    below = [_copied(s) for s in body_of(statement)]
    return [*own, *max(below, key=prod)] if below else own
