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
from leir.edit import accesses, body_of, enclosing, variables_of, walk, walk_with
from leir.syntax import Equation, Expr, Loop, Path, Program, Stmt
from strategies.base import BitExact, Fact, Gridded, Level, listed
from strategies.grid import DEFAULT, Grid
from strategies.kinds import is_of_kind, loop_at, loop_terms, with_kind

COPIES = 1024  # of a body, along any path: more take seconds to compile


class LoopUnrolling(Gridded):
    name: ClassVar[str] = "loop_unrolling"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{registers} {are} subscripted by {variable}: written out, its {extent} iterations name fixed elements, which "
        "can stay in registers.",
        "{shared} {do} not depend on {variable}: written out side by side, its {extent} iterations can share a load.",
        "Loop {variable} at {path} has {given_up} copies of its body; rolled up, it can be split, reordered or bound.",
        "Loop {variable} at {path} has {extent} iterations, and counts and tests for each of them beside {body}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{header} becomes {new_header}; the {equations} below {stay} as before.",
        "Loop {variable} is {new_kind} instead of {kind}: {new_header}. Nothing else changes.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The code holds {copies} of {body}, in the order of the iterations, so every bit stays. What goes is the "
        "loop's own counting and testing, {extent} times.",
        "{copies} of {body} follow one another in the code, and compute what the {extent} iterations did, bit for bit.",
        "The code is shorter by {fewer} of {body}; the {given_up} iterations compute the same bits.",
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
        yield Fact("copies-are-few", copies <= COPIES, f"{along} copies of a body, {COPIES} are allowed")

    def rewrite(self, program: Program) -> Program:
        return with_kind(program, self.path, "L" if self.kind == "serial" else "U")

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        loop = loop_at(before, self.path)
        result = loop_terms(before, after, self.path)
        result["body"] = f"its {result['equations']}"
        if self.kind == "serial":
            return {**result, "fewer": "1 copy" if loop.extent == 2 else f"{loop.extent - 1} copies"}
        result["copies"] = f"{prod(_unrolled(before, self.path))} copies"
        known = tensors(before)
        used = list(dict.fromkeys(a for _, s in walk_with(loop) if isinstance(s, Equation) for a in accesses(s)))
        local = dict.fromkeys(
            a.tensor for a in used if known[a.tensor].scope == "l" and _varies(a.indices, loop.variable)
        )
        shared = dict.fromkeys(
            a.tensor for a in used if known[a.tensor].role == "input" and not _varies(a.indices, loop.variable)
        )
        if local:
            result |= {"registers": listed(local), "are": "are" if len(local) > 1 else "is"}
        if shared:
            result |= {"shared": listed(shared), "do": "do" if len(shared) > 1 else "does"}
        return result


def _unrolled(program: Program, path: Path) -> list[int]:
    """The extents of the unrolled loops along the path through the loop at `path` that makes most copies."""
    around = [node.extent for _, node in enclosing(program, path) if isinstance(node, Loop) and node.kind == "U"]
    loop = loop_at(program, path)
    return [*around, loop.extent, *max((_copied(s) for s in loop.body), key=prod)]


def _copied(statement: Stmt) -> list[int]:
    own = [statement.extent] if isinstance(statement, Loop) and statement.kind == "U" else []
    below = [_copied(s) for s in body_of(statement)]
    return [*own, *max(below, key=prod)] if below else own


def _varies(indices: tuple[Expr, ...], variable: str) -> bool:
    return any(variable in variables_of(index) for index in indices)
