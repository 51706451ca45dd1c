"""Swaps two neighbouring statements: equations or whole nests.

    Before    s; t;
    After     t; s;

Allocations between the two move before them.

Legal when: neither needs the other to come first. Every read finds the value of the same write, or the same fill, and
every output its last write, element by element: two statements may touch one tensor if they touch different parts of
it, and an accumulation stays the first write of its tensor where its fill is seen.

Pays when: a statement comes next to one that it can be fused with, or its operands are used again sooner.

Leads to: operator_fusion.

Inverse: expression_reorder.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.flow import Origin
from leir.analysis.matching import common_levels
from leir.edit import (
    equation_paths,
    loops_around,
    replace_at,
    statement_at,
    statements_at,
    tensors_read,
    tensors_written,
    walk,
)
from leir.printer import header_text
from leir.syntax import Alloc, Path, Program, Stmt, Variable
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    describe,
    describe_at,
    flow_preserved,
    listed,
    path_text,
    statement_or_none,
)


class ExpressionReorder(Strategy):
    name: ClassVar[str] = "expression_reorder"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "The statement at {second} begins like the one at {beyond}, with {header}. Only that at {first} stands between "
        "them, and it can come after both.",
        "The statements at {first} and {second} have {nothing} in common that either writes, so their order is free.",
        "The statements at {first} and {second} both use {shared}, but each value is read, or overwritten, in "
        "either order as it is now.",
        "With the statement at {first} out of the way, those at {beyond} and {second} would be neighbours under "
        "{header}.",
        "Must {first} come before {second}? No value passes between them: they have {nothing} in common that either"
        " writes.",
        "Although {shared} is used by both {first} and {second}, no read of it would find another writer if they "
        "changed places.",
        "Of the two neighbours at {first} and {second}, the one at {second} can come first, which is {other}.",
        "The order of the statements at {first} and {second} is free: no read of any value depends on it.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Now the statement that was at {second} comes first, and that at {first} after it; what each computes is as it "
        "was.",
        "The statement at {second} moves before the one at {first}.",
        "Two neighbours change places, those at {first} and {second}.",
        "At {first} stands what stood at {second}, and the other way round.",
        "The list keeps its statements, in another order: {second} before {first}.",
        "Swap {first} with {second}; nothing inside of either changes.",
        "The one at {second}, {other}, goes ahead of the one at {first}, {what}.",
        "In the text, the statement at {first} goes down by one, behind that at {second}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{beyond} and its new neighbour have {header} in common, which one nest could run. No read changes its "
        "writer, so every bit stays.",
        "The same equations run as often as before, on the same operands: every bit stays.",
        "Nothing is saved by it, and nothing lost: every read finds the same writer, so all bits stay.",
        "It opens the way for operator_fusion at {opened}, where {header} comes twice in a row now. Every bit stays.",
        "Work, traffic and storage are as they were. Results keep every bit, since no read sees another value.",
        "No equation changes, only when it runs; all results are the same bits.",
        "What was between {beyond} and the other nest under {header} now comes after both. The bits of the results "
        "stay.",
        "Every value is written before it is read, by the same statement as before: results agree bit for bit.",
    )

    path: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["ExpressionReorder"]:
        for path, node in walk(program):
            if not isinstance(node, Alloc) and _next(program, path) is not None:
                yield cls(path=path)

    def facts(self, program: Program) -> Iterator[Fact]:
        first = statement_or_none(program, self.path)
        computes = first is not None and not isinstance(first, Alloc)
        yield Fact("path-is-an-equation-or-nest", computes, describe_at(program, self.path))
        assert first is not None
        second = _next(program, self.path)
        evidence = f"nothing follows {path_text(self.path)} that computes"
        if second is not None:
            evidence = f"after {path_text(self.path)}, {describe_at(program, second)}"
        yield Fact("has-a-successor", second is not None, evidence)
        assert second is not None
        after = self.rewrite(program)
        shared = _shared(first, statement_at(program, second))
        because = "they share no tensor that either writes"
        if shared:
            because = f"of {listed(shared)}, neither needs what the other writes"
        yield flow_preserved(program, after, self._origins(program, after), because=because)

    def rewrite(self, program: Program) -> Program:
        second = _next(program, self.path)
        assert second is not None
        one, other = statement_at(program, self.path), statement_at(program, second)
        between = statements_at(program, self.path[:-1])[self.path[-1] + 1 : second[-1]]
        without = program
        for _ in (*between, other):
            without = replace_at(without, (*self.path[:-1], self.path[-1] + 1))
        return replace_at(without, self.path, *between, other, one)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        second = _next(before, self.path)
        assert second is not None
        one, other = statement_at(before, self.path), statement_at(before, second)
        result = {"first": path_text(self.path), "second": path_text(second), "what": describe(one)}
        if describe(one) != describe(other):
            result["other"] = describe(other)
        if shared := _shared(one, other):
            result["shared"] = listed(shared)
        else:
            result["nothing"] = "no tensor"
        siblings = statements_at(before, self.path[:-1])
        if self.path[-1] > 0:
            beyond = siblings[self.path[-1] - 1]
            if common := common_levels(beyond, other):
                result["beyond"] = path_text((*self.path[:-1], self.path[-1] - 1))
                result["header"] = header_text(common)
                if len(common_levels(beyond, one)) < len(common):
                    result["opened"] = result["beyond"]
        del after
        return result

    def _origins(self, before: Program, after: Program) -> dict[Path, Origin]:
        """Where the equations come from: those of the two statements change places, all others keep theirs."""
        second = _next(before, self.path)
        assert second is not None
        place, depth, gap = self.path[-1], len(self.path), second[-1] - self.path[-1] - 1
        result: dict[Path, Origin] = {}
        for new in equation_paths(after):
            number = new[depth - 1] if new[: depth - 1] == self.path[:-1] and len(new) >= depth else None
            old = new
            if number == place + gap:
                old = (*second, *new[depth:])
            elif number == place + gap + 1:
                old = (*self.path, *new[depth:])
            result[new] = Origin(old, tuple(Variable(loop.variable) for loop in loops_around(before, old)))
        return result


def _next(program: Program, path: Path) -> Path | None:
    """The next statement of the same list that is no allocation."""
    siblings = statements_at(program, path[:-1])
    for number in range(path[-1] + 1, len(siblings)):
        if not isinstance(siblings[number], Alloc):
            return (*path[:-1], number)
    return None


def _shared(one: Stmt, other: Stmt) -> list[str]:
    """The tensors that both use and at least one of them writes."""
    written = (*tensors_written(one), *tensors_written(other))
    both = [{*tensors_read(each), *tensors_written(each)} for each in (one, other)]
    return [tensor for tensor in dict.fromkeys(written) if tensor in both[0] and tensor in both[1]]
