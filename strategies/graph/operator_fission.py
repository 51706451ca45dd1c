"""Cuts a nest in two with the same header: one for the statements before the cut, one for those after it.

    Before    K^{n}_{x}[...s... ...t...]
    After     K^{n}_{x}[...s...] K^{n}_{x}[...t...]

`depth` counts the levels, loops and guards, that both nests get; the statements in the list below them are cut before
number `at`. A declaration goes where its tensor is used.

Legal when: no statement after the cut makes what an earlier one uses in a later iteration, no condition of the header
reads what the first part writes, and no tensor that is declared inside is used on both sides of the cut
(set_storage_scope moves it out first). Loop kinds are proved again: what was passed within a thread now passes between
kernels or phases.

Pays when: the parts want different loop orders, tiles or bindings, or one of them is to be fused with a neighbour, or
together they use more registers or cache than there is.

Leads to: loop_reorder, loop_vectorization, set_storage_scope.

Inverse: operator_fusion.
"""

import math
from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from leir.edit import (
    accesses,
    iterations_around,
    nested,
    perfect_nest,
    replace_at,
    statement_at,
    tensors_read,
    tensors_written,
    walk,
    walk_with,
)
from leir.printer import header_text
from leir.syntax import Alloc, Equation, Guard, Loop, Path, Program, Stmt
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    counted,
    describe_at,
    flow_preserved,
    listed,
    path_text,
    same_loops,
    statement_or_none,
)


class OperatorFission(Strategy):
    name: ClassVar[str] = "operator_fission"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "The nest at {path} has {first_count} before the cut and {second_count} after it, and the two parts have "
        "no tensor in common that either writes: nothing ties them to one header.",
        "In the nest at {path}, what follows {last} takes {passed} from it and gives nothing back: all of {header} "
        "can be done for the first part before any of the second.",
        "Nothing but {passed} passes the cut before {cut} in the nest at {path}, from the first part to the second;"
        " so the first can be done for all of {header} ahead of the second.",
        "One header, {header}, runs {count} at {path}, and holds them to one order of its loops. Cut before {cut}, "
        "they can have two.",
        "Nothing that comes before {cut} in the nest at {path} waits for what comes after it.",
        "Could the nest at {path} be two nests? Its first part needs nothing of the second, so it could.",
        "The parts of the nest at {path}, {first_count} and {second_count}, share a header, and no tensor that either "
        "writes.",
        "The body of the nest at {path} has {count}, and {those} can wait until {others} run for all of {header}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "The header {header} is written twice: once around {first_count}, once around {second_count}.",
        "The nest at {path} is cut before what was {cut}: what comes first stays, and the rest follows at {second} "
        "under the same header, {header}.",
        "One nest becomes two, at {path} and {second}, both under {header}.",
        "What follows the cut in the nest at {path} moves to a nest of its own at {second}.",
        "{leaving} the nest at {path} for one at {second}, with the header {header}.",
        "The nest at {path} keeps what stood before {cut}; the nest at {second} is new and has the rest.",
        "Where {cut} stood, the nest at {path} ends, and another begins at {second} with its loops.",
        "{header} stands twice now, at {path} and at {second}, each time around a part of what was one body.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Each part can now be ordered, tiled and bound by itself. {header} is run through twice, {passes} of its "
        "innermost loop more; each equation runs as often as before, so every bit stays.",
        "Each equation runs as often as before, with the same operands, so the results keep every bit.",
        "It costs a second run through {header}, {passes} of its innermost loop, but no arithmetic and no bit.",
        "The two nests at {path} and {second} are free of each other's loops: what is done to one leaves the other."
        " Every bit stays.",
        "All of {passed} is written before any of it is read, each element by the statement that wrote it before; "
        "so the bits are the same.",
        "No read finds another value than before, and no accumulation takes its terms in another order: every bit "
        "stays.",
        "Every value is computed as it was, to the bit; the order in which iterations take turns is different.",
        "Each part has {header} to itself, and its loops can be reordered for it alone. The results keep their bits.",
    )

    path: Path
    depth: int = Field(ge=1)
    at: int = Field(ge=1)

    @classmethod
    def candidates(cls, program: Program) -> Iterator["OperatorFission"]:
        for path, node in walk(program):
            if not isinstance(node, Loop | Guard):
                continue
            levels = perfect_nest(node)
            body = levels[-1][1].body
            for at in range(1, len(body)):
                if not isinstance(body[at - 1], Alloc) and _computing(body[:at]) and _computing(body[at:]):
                    yield cls(path=path, depth=len(levels), at=at)

    def facts(self, program: Program) -> Iterator[Fact]:
        nest = statement_or_none(program, self.path)
        yield Fact("path-is-a-nest", isinstance(nest, Loop | Guard), describe_at(program, self.path))
        assert nest is not None
        where = path_text(self.path)
        levels = _levels(nest)
        evidence = f"{where} begins with {header_text(levels)}: {counted(len(levels), 'level')}, not {self.depth}"
        if len(levels) >= self.depth:
            evidence = f"{where} begins with {header_text(levels[: self.depth])}, and nothing stands between the levels"
        yield Fact("header-is-perfect", len(levels) >= self.depth, evidence)
        body = levels[self.depth - 1].body
        first, second = body[: self.at], body[self.at :]
        counts = [_computing(part) for part in (first, second)]
        evidence = f"{counted(counts[0], 'statement')} {'stands' if counts[0] == 1 else 'stand'} before the cut and "
        evidence += f"{counts[1]} after it, declarations aside"
        yield Fact("both-parts-compute", min(counts) > 0, evidence)
        crossing = [s.tensor for s in first if isinstance(s, Alloc) and _uses(first, s) and _uses(second, s)]
        evidence = "no tensor that is declared inside is used on both sides of the cut"
        if crossing:
            cross = "is" if len(crossing) == 1 else "are"
            evidence = f"{listed(crossing)} {cross} declared inside and used on both sides"
            evidence += ": set_storage_scope to g moves it out"
        yield Fact("temporaries-do-not-cross", not crossing, evidence)
        after = self.rewrite(program)
        passed = _passed(first, second)
        taken = listed(passed) if passed else "nothing"
        because = f"the second part takes {taken} from the first and gives nothing back"
        yield flow_preserved(program, after, same_loops(program, after), because=because)

    def rewrite(self, program: Program) -> Program:
        nest = statement_at(program, self.path)
        levels = _levels(nest)[: self.depth]
        first, second = self._parts(nest)
        return replace_at(program, self.path, *nested(levels, first), *nested(levels, second))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        nest = statement_at(before, self.path)
        levels = _levels(nest)[: self.depth]
        body = levels[-1].body
        first, second = self._parts(nest)
        statements = [s for s in body if not isinstance(s, Alloc)]
        result = {
            "path": path_text(self.path),
            "second": path_text((*self.path[:-1], self.path[-1] + 1)),
            "header": header_text(levels),
            "count": counted(len(statements), "statement"),
            "cut": f"the statement at {path_text(self._inside(self.at))}",
        }
        counts = [counted(sum(not isinstance(s, Alloc) for s in part), "statement") for part in (first, second)]
        following = [n for n in range(self.at, len(body)) if not isinstance(body[n], Alloc)]
        start = path_text(self._inside(following[0]))
        one = len(following) == 1
        result["leaving"] = f"The statement at {start} leaves" if one else f"The statements from {start} on leave"
        result["those"] = f"that at {start}" if one else f"those from {start} on"
        result["others"] = "the other has" if len(statements) - len(following) == 1 else "the others have"
        passed = _passed(first, second)
        if passed:
            result["passed"] = listed(passed)
            last = max(n for n, s in enumerate(body[: self.at]) if not isinstance(s, Alloc))
            result["last"] = f"the statement at {path_text(self._inside(last))}"
        elif not _passed(second, first) and not _both(first, second):
            result["first_count"], result["second_count"] = counts
        if not any(isinstance(level, Guard) for level in levels):
            overhead = iterations_around(before, self.path) * math.prod(_extents(levels))
            result["passes"] = "1 pass" if overhead == 1 else f"{overhead} passes"
        del after
        return result

    def _inside(self, number: int) -> Path:
        """The path of a statement of the list that is cut, before the step."""
        return (*self.path, *(0 for _ in range(self.depth - 1)), number)

    def _parts(self, nest: Stmt) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
        """The statements before the cut and after it, each declaration with the statements that use its tensor."""
        body = _levels(nest)[self.depth - 1].body
        first, second = body[: self.at], body[self.at :]
        moved = tuple(s for s in first if isinstance(s, Alloc) and _uses(second, s) and not _uses(first, s))
        return tuple(s for s in first if s not in moved), (*moved, *second)


def _levels(nest: Stmt) -> list[Loop | Guard]:
    return [level for _, level in perfect_nest(nest)]


def _extents(levels: list[Loop | Guard]) -> list[int]:
    return [level.extent for level in levels if isinstance(level, Loop)]


def _computing(statements: tuple[Stmt, ...]) -> int:
    """How many of the statements have an equation."""
    return sum(any(isinstance(node, Equation) for _, node in walk_with(statement)) for statement in statements)


def _uses(statements: tuple[Stmt, ...], alloc: Alloc) -> bool:
    return any(access.tensor == alloc.tensor for statement in statements for access in accesses(statement))


def _passed(one: tuple[Stmt, ...], other: tuple[Stmt, ...]) -> list[str]:
    """The tensors that the first statements write and the others read."""
    taken = {tensor for statement in other for tensor in tensors_read(statement)}
    return [t for t in dict.fromkeys(t for s in one for t in tensors_written(s)) if t in taken]


def _both(one: tuple[Stmt, ...], other: tuple[Stmt, ...]) -> bool:
    """Whether both parts write one tensor."""
    written = {tensor for statement in other for tensor in tensors_written(statement)}
    return any(tensor in written for statement in one for tensor in tensors_written(statement))
