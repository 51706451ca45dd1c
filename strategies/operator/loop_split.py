"""Splits one loop in two: an outer loop over blocks of `factor` iterations, and an inner loop within a block.

    Before    K^{n}_{x=a}[...x...]
    After     K^{n/f}_{x}L^{f}_{y=a}[...(x*f+y)...]                      where f divides n
              K^{n//f+1}_{x}L^{f}_{y=a}(x*f+y<a+n)[...(x*f+y)...]        otherwise

Legal when: the factor is smaller than the extent. Iterations keep their order, so every value keeps its flow. The outer
loop keeps the kind K, the inner one is serial; the rules of K are proved again. The guard of a tail stands below the
loops that follow in a perfect nest, so that they can still be reordered.

Pays when: another step uses one of the two loops (an order that reuses cached data, a GPU axis of limited extent, a
vector or unrolled loop of small extent). Alone it changes neither work nor traffic, and a tail costs one comparison an
iteration.

Leads to: loop_reorder, loop_vectorization, loop_binding.

Inverse: loop_fusion.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from leir.edit import enclosing, iterations_around, perfect_nest, replace_at, statement_at, walk
from leir.names import free_variables, substitute_each, unused_variable, variables_around
from leir.printer import expression_text
from leir.syntax import Guard, Loop, Path, Program
from strategies.base import BitExact, Fact, Gridded, Level, path_text
from strategies.blocks import block_index, first_block, guarded, is_used_again, tail_guard
from strategies.grid import DEFAULT, Grid
from strategies.openings import a_loop


class LoopSplit(Gridded):
    name: ClassVar[str] = "loop_split"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{run} reads {loop_read} bytes and writes {loop_written}; the first {factor} of its {extent} iterations read "
        "{block_read} and write {block_written}. They use elements in common: such a block can be kept near by "
        "itself.",
        "Loop {variable} at {path} runs {extent} iterations in one piece. The first {factor} of them read {block_read} "
        "bytes and write {block_written}: a piece that can be ordered, bound or unrolled apart.",
        "Loop {variable} at {path} runs {extent} iterations in one piece; in blocks of {factor}, its two parts can be "
        "ordered, bound or unrolled apart.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Loop {variable} of {extent} becomes {outer} blocks of {factor}: {variable} counts blocks, the new loop "
        "{inner} runs within one, and {variable} is written {index} below. {divides}, so no guard is needed.",
        "Every {variable} below the loop becomes {index}, where {variable} now runs over {outer} blocks and {inner} "
        "over the {factor} iterations of a block. {divides}.",
        "Loop {variable} of {extent} becomes {outer} blocks of {factor}, and {variable} is written {index} below. The "
        "last block has only {rest} of its {factor} iterations: the guard {guard} cuts it short.",
        "{variable} becomes {index}: {variable} over {outer} blocks, {inner} over {factor} iterations. A tail of "
        "{rest} is left over, so the body runs under {guard}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{order}, so every result keeps its bits. Alone the step saves nothing: "
        "work and traffic stay, and loop {inner} is started {starts} times.",
        "Nothing is computed in another order, and no value changes its producer. What is new is a loop of {factor}, "
        "with a place and a kind of its own.",
        "Order and traffic stay as they are, and with them every bit. The guard is tested {tested} times, and lets "
        "the body run {passed} times.",
        "Alone, it costs {tested} tests of {guard}, of which {failed} let nothing run. {order}: no bit changes.",
    )

    path: Path
    factor: int = Field(ge=2)

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["LoopSplit"]:
        for path, node in walk(program):
            if isinstance(node, Loop) and node.kind != "V":  # a vector loop is innermost: its outer part could not be
                yield from (cls(path=path, factor=factor) for factor in grid.below(grid.factors, node.extent))

    def facts(self, program: Program) -> Iterator[Fact]:
        loop = yield from a_loop(program, self.path)
        blocks, tail = divmod(loop.extent, self.factor)
        if self.factor >= loop.extent:
            evidence = f"{loop.variable} runs {loop.extent} iterations, not more than {self.factor}"
        elif tail:
            condition = expression_text(tail_guard(loop, self.factor, _inner_name(program, self.path)))
            evidence = f"{loop.extent} = {blocks}*{self.factor} + {tail}, so the guard {condition} ends the last block"
        else:
            evidence = f"{loop.extent} = {blocks}*{self.factor} leaves no tail"
        if self.factor < loop.extent:
            index = expression_text(block_index(loop, self.factor, _inner_name(program, self.path)))
            evidence += f"; {index} takes each value of {loop.variable} once, in order"
        yield Fact("factor-is-below-the-extent", self.factor < loop.extent, evidence)

    def rewrite(self, program: Program) -> Program:
        loop = statement_at(program, self.path)
        assert isinstance(loop, Loop)
        inner = _inner_name(program, self.path)
        body = substitute_each(loop.body, {loop.variable: block_index(loop, self.factor, inner)})
        if loop.extent % self.factor:
            body = guarded(body, tail_guard(loop, self.factor, inner))
        within = Loop("L", inner, self.factor, loop.first, body)
        outer = replace(loop, extent=-(-loop.extent // self.factor), first=0, body=(within,))
        return replace_at(program, self.path, outer)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        loop, outer = statement_at(before, self.path), statement_at(after, self.path)
        assert isinstance(loop, Loop) and isinstance(outer, Loop)
        inner = outer.body[0]
        assert isinstance(inner, Loop)
        result = {
            "path": path_text(self.path),
            "variable": loop.variable,
            "inner": inner.variable,
            "extent": str(loop.extent),
            "factor": str(self.factor),
            "outer": str(outer.extent),
            "order": "Every iteration does what it did"
            if loop.kind in ("P", "B")
            else "The iterations run in the order they had",
            "index": expression_text(block_index(loop, self.factor, inner.variable)),
        }
        passes = iterations_around(before, self.path)
        whole, block = (first_block(before, {self.path: extent}) for extent in (loop.extent, self.factor))
        if whole is not None and block is not None and (whole.reads or whole.writes):
            for term, nest in (("loop", whole), ("block", block)):
                result[f"{term}_read"] = str(sum(one.bytes for one in nest.reads))
                result[f"{term}_written"] = str(sum(one.bytes for one in nest.writes))
            if is_used_again(before, {self.path: self.factor}):
                name = f"oop {loop.variable} at {path_text(self.path)}"
                result["run"] = f"L{name}" if passes == 1 else f"The first pass of l{name}"
        if loop.extent % self.factor == 0:
            if not any(isinstance(node, Guard) for _, node in enclosing(before, self.path)):
                result["starts"] = str(passes * outer.extent)
            return {**result, "divides": f"{self.factor} divides {loop.extent}"}
        condition = tail_guard(loop, self.factor, inner.variable)
        guard = next(p for p, n in perfect_nest(outer, self.path) if isinstance(n, Guard) and n.condition == condition)
        result.update(guard=expression_text(condition), rest=str(loop.extent % self.factor))
        above = [node for _, node in enclosing(after, guard)]
        if not any(isinstance(node, Guard) for node in above):
            tested = iterations_around(after, guard)
            passed = tested // (outer.extent * self.factor) * loop.extent
            result.update(tested=str(tested), passed=str(passed), failed=str(tested - passed))
        return result


def _inner_name(program: Program, path: Path) -> str:
    loop = statement_at(program, path)
    return unused_variable(variables_around(program, path) | set(free_variables(loop)))
