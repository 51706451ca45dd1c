"""Makes a serial loop parallel: its iterations may run on several cores at once.

    Before    L^{n}_{x}[...]
    After     P^{n}_{x}[...]

Legal when: the loop carries no dependence, and no accumulation goes across it; no GPU kernel stands below it. With
`kind: serial` a parallel loop becomes serial again, which is always legal.

Pays when: the iterations are long enough to be worth a core of their own. An inner parallel loop runs serially below
an outer one, and inside a GPU kernel, so the outermost loop that can be parallel should be.

Leads to: loop_vectorization.

Inverse: loop_parallelization with `kind: serial`.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from leir.analysis.kernels import binds_axis
from leir.edit import enclosing, walk
from leir.syntax import Loop, Path, Program
from strategies.base import BitExact, Fact, Level, Strategy, path_text
from strategies.kinds import in_kernel, independence, is_of_kind, loop_at, loop_terms, with_kind


class LoopParallelization(Strategy):
    name: ClassVar[str] = "loop_parallelization"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "No loop around {variable} at {path} is parallel, and its {extent} iterations, of {per_iteration} each, do not "
        "need each other: each of them can have a core of its own.",
        "Loop {variable} at {path} stands below the parallel loop {outer} and runs serially there, but its {extent} "
        "iterations are independent too, and can be parallel wherever they go.",
        "The parallel loop {variable} at {path} has {given_up} iterations; before it can be unrolled, a vector or "
        "bound, it has to be serial.",
        "Loop {variable} at {path} runs {extent} iterations one after the other, though none needs another.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{header} becomes {new_header}; the {equations} below {stay} as before.",
        "Loop {variable} is {new_kind} instead of {kind}: {new_header}. Nothing else changes.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Up to {extent} iterations can run at once and share {instances}. Each element of {targets} is still computed "
        "by one of them, so every bit stays.",
        "The {extent} iterations may come in any order, on any core; what each computes is the same, to the last bit.",
        "The {given_up} iterations run in their order again, one after the other, and compute the same bits.",
    )

    path: Path
    kind: Literal["parallel", "serial"] = "parallel"

    @classmethod
    def candidates(cls, program: Program) -> Iterator["LoopParallelization"]:
        for path, node in walk(program):
            if isinstance(node, Loop) and node.kind == "P":
                yield cls(path=path, kind="serial")
            elif isinstance(node, Loop) and node.kind == "L" and node.extent > 1 and not in_kernel(program, path):
                yield cls(path=path)

    def facts(self, program: Program) -> Iterator[Fact]:
        if self.kind == "serial":
            holds, evidence = is_of_kind(program, self.path, "P")
            yield Fact("loop-is-parallel", holds, evidence)
            return
        holds, evidence = is_of_kind(program, self.path, "L")
        yield Fact("loop-is-serial", holds, evidence)
        bound = binds_axis(loop_at(program, self.path))
        where = "a loop below it is bound to a GPU axis" if bound else "no loop below it is bound to a GPU axis"
        yield Fact("no-kernel-below", not bound, where)
        yield Fact("no-dependence-carried", *independence(program, self.path))

    def rewrite(self, program: Program) -> Program:
        return with_kind(program, self.path, "L" if self.kind == "serial" else "P")

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        result = loop_terms(before, after, self.path)
        outer = [path for path, node in enclosing(before, self.path) if isinstance(node, Loop) and node.kind == "P"]
        if outer:
            result["outer"] = f"{loop_at(before, outer[0]).variable} at {path_text(outer[0])}"
            result.pop("per_iteration", None)
            result.pop("instances", None)
        return result
