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
    Refused,
    Strategy,
    called,
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
        "The statement at {second} begins like the one at {beyond}, with {header}. Only {what} at {first} stands "
        "between them, and it can come after both.",
        "The statements at {first} and {second} have {nothing} in common that either writes, so their order is free.",
        "The statements at {first} and {second} both use {shared}, but each value is read, or overwritten, in "
        "either order as it is now.",
        "With the statement at {first} out of the way, those at {beyond} and {second} would be neighbours under "
        "{header}.",
        "Must {first} come before {second}? No value passes between them: they have {nothing} in common that either"
        " writes.",
        "Although {shared} is used by both {first} and {second}, no read of it would find another writer if they "
        "changed places.",
        "Of two neighbours, {what} at {first} and {other} at {second}, the second can come first.",
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
        "Now {other} goes ahead of {what}, which stood at {first}.",
        "In the text, the statement at {first} goes down by one, behind that at {second}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The nest at {beyond} and its new neighbour have {header} in common. No read changes its writer, so every bit "
        "stays.",
        "The same equations run as often as before, on the same operands: every bit stays.",
        "Nothing is saved by it, and nothing lost: every read finds the same writer, so all bits stay.",
        "It opens the way for operator_fusion at {opened}, where {header} comes twice in a row now. Every bit stays.",
        "Work, traffic and storage are as they were. Results keep every bit, since no read sees another value.",
        "No equation changes, only when it runs; all results are the same bits.",
        "What was between the nest at {beyond} and the other one under {header} now comes after both. The bits of the "
        "results stay.",
        "Every read finds what the same statement wrote, or the same fill, as before: results agree bit for bit.",
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
        evidence = describe_at(program, self.path)
        if computes and first is not None:
            evidence = f"{path_text(self.path)} is {called(first)}"
        yield Fact("path-is-an-equation-or-nest", computes, evidence)
        assert first is not None
        second = _next(program, self.path)
        evidence = f"nothing follows {path_text(self.path)} that computes"
        if second is not None:
            evidence = f"{path_text(second)}, {called(statement_at(program, second))}, follows {path_text(self.path)}"
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
        result = {"first": path_text(self.path), "second": path_text(second), "what": called(one)}
        if called(one) != called(other):
            result["other"] = called(other)
        if shared := _shared(one, other):
            result["shared"] = listed(shared)
        else:
            result["nothing"] = "no tensor"
        siblings = statements_at(before, self.path[:-1])
        if self.path[-1] > 0:
            beyond, place = siblings[self.path[-1] - 1], (*self.path[:-1], self.path[-1] - 1)
            common = common_levels(beyond, other)
            if len(common) > len(common_levels(one, other)):
                result |= {"beyond": path_text(place), "header": header_text(common)}
                if _can_be_fused(after, place, len(common)):
                    result["opened"] = result["beyond"]
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


def _can_be_fused(program: Program, path: Path, depth: int) -> bool:
    """Whether the nest at a path and its neighbour can be one."""
    from strategies.graph.operator_fusion import OperatorFusion

    try:
        OperatorFusion(path=path, depth=depth).apply(program)
    except Refused:
        return False
    return True


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
