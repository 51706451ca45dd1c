"""Runs a serial loop backwards: its last iteration comes first.

    Before    L^{n}_{x=a}[...x...]
    After     L^{n}_{x=a}[...(2*a+n-1-x)...]

Where the subscript 2*a+n-1-x stood before, x takes its place, so that a second step undoes the first.

Legal when: no iteration needs one that comes before it. Every read finds the value of the same write, or the same fill,
and every output its last write; terms of a sum keep their order too.

Pays when: a neighbouring nest runs the other way, and the two can be one nest once they run alike.

Leads to: operator_fusion.

Inverse: loop_reversal.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from leir.analysis.flow import Origin
from leir.edit import accesses, equation_paths, loops_around, map_statement, replace_at, walk
from leir.names import substitute_each, substitute_in
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Integer, Loop, Path, Program, Variable
from strategies.base import BitExact, Fact, Level, Strategy, counted, flow_preserved, path_text
from strategies.kinds import is_of_kind, loop_at


class LoopReversal(Strategy):
    name: ClassVar[str] = "loop_reversal"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "As {variable} at {path} counts up, {index} counts down in {against}; run backwards, the loop has it count up.",
        "No value depends on whether the {extent} iterations of loop {variable} at {path} run forwards or backwards.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Below the loop, {variable} and {index} change places.",
        "What an iteration computed for {variable}, it now computes for {index}, and the other way round.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The same {extent} iterations run in the opposite order, and every result keeps its bits.",
        "Work and traffic stay as they are. What is new is the order in which the {extent} iterations come.",
    )

    path: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator[Strategy]:
        for path, node in walk(program):
            if isinstance(node, Loop) and node.kind == "L" and node.extent > 1:
                yield cls(path=path)

    def facts(self, program: Program) -> Iterator[Fact]:
        holds, evidence = is_of_kind(program, self.path, "L")
        yield Fact("loop-is-serial", holds, evidence)
        loop = loop_at(program, self.path)
        evidence = f"{loop.variable} runs {counted(loop.extent, 'iteration')}"
        yield Fact("order-can-differ", loop.extent > 1, evidence)
        index = _backwards(loop)
        origins: dict[Path, Origin] = {}
        for path in equation_paths(program):
            values = {loop.variable: index} if path[: len(self.path)] == self.path else {}
            variables = (Variable(around.variable) for around in loops_around(program, path))
            origins[path] = Origin(path, tuple(substitute_in(variable, values) for variable in variables))
        because = f"{expression_text(index)} takes each value of {loop.variable} once, the last first"
        yield flow_preserved(program, self.rewrite(program), origins, because=because)

    def rewrite(self, program: Program) -> Program:
        loop = loop_at(program, self.path)
        index = _backwards(loop)
        twice = substitute_in(index, {loop.variable: index})

        def once(expression: Expr) -> Expr:
            return Variable(loop.variable) if expression == twice else expression

        body = substitute_each(loop.body, {loop.variable: index})
        return replace_at(program, self.path, replace(loop, body=tuple(map_statement(s, once) for s in body)))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        del after
        loop = loop_at(before, self.path)
        result = {
            "path": path_text(self.path),
            "variable": loop.variable,
            "index": expression_text(_backwards(loop)),
            "extent": str(loop.extent),
        }
        against = next((a for a in accesses(loop) if _backwards(loop) in a.indices), None)
        return result if against is None else {**result, "against": expression_text(against)}


def _backwards(loop: Loop) -> Expr:
    """The number of the iteration that runs when the loop's variable has another, counted from the other end."""
    return Binary("-", Integer(2 * loop.first + loop.extent - 1), Variable(loop.variable))
