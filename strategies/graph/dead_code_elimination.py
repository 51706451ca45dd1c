"""Removes a statement whose values nothing uses: an equation, a nest, or a declaration without accesses.

    Before    K^{n}_{x}[T_{x}=e;] ...
    After     ...

A declaration that is no longer used after the step stays, and goes by a step of its own. A statement beside which its
list computes nothing goes with what holds it: the path is then that of the holder.

Legal when: no read that stays, and no output, gets a value that the statement writes, nor another fill than before.
That holds for a temporary that is read nowhere else, and for values that are overwritten before they are read.

Pays when: always; the work and the traffic of the statement are saved, and its operands may become dead in turn.

Leads to: operator_fusion.

Inverse: none.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.access import tensors
from leir.analysis.flow import Origin
from leir.edit import (
    accesses,
    computes_beside,
    enclosing,
    equation_paths,
    expressions,
    iterations_around,
    loops_around,
    replace_at,
    statement_at,
    statements_at,
    tensors_written,
    walk,
    walk_with,
)
from leir.syntax import Access, Alloc, Equation, Guard, Path, Program, Stmt, Variable
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    called,
    capitalised,
    counted,
    describe_at,
    flow_preserved,
    listed,
    path_text,
    statement_or_none,
)


class DeadCodeElimination(Strategy):
    name: ClassVar[str] = "dead_code_elimination"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{unread} {is_temporary}, and nothing but the statement at {path} itself reads {it}.",
        "No read elsewhere and no output gets a value that the statement at {path} writes to {overwritten}.",
        "{declared} is declared at {path}, and no statement accesses it.",
        "The values of {unread} end at {path}: no other statement and no output asks for them.",
        "Nothing of what {what} at {path} writes to {overwritten} reaches another statement or an output.",
        "Without effect on any output, the statement at {path} costs {runs}.",
        "Could the statement at {path} be left out? Every output would be the same: {what} gives none of them a value.",
        "No output depends on {what} at {path}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{subject} at {path} goes, with its {equations}; all other statements stay as they are.",
        "{subject} at {path} goes; all other statements stay as they are.",
        "Removed: {what} at {path}. Nothing takes its place.",
        "The list that held {what} at {path} is shorter by it.",
        "The program loses {what}, at {path}, and keeps the rest.",
        "With the statement at {path}, the last mention of {gone} goes.",
        "Strike {what} at {path}; the other statements keep their order and their text.",
        "A statement goes, at {path}, that gave nothing to any other: {what}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Gone with it: {runs}, for values that nothing needed. Every read that stays finds the value that it found "
        "before, so every bit stays.",
        "{gone} no longer needs storage. No read that stays finds another value, so every bit stays.",
        "Every read that stays, and every output, has the value that it had before: every bit stays.",
        "Work is saved, {runs}, and no bit of a result changes.",
        "The memory of {gone} is free, and the results are the same bits.",
        "The program has fewer statements and the same results, bit for bit.",
        "What the other statements read is untouched, so that each computes what it computed, to the bit.",
        "The program is shorter, and every output keeps its bits.",
    )

    path: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["DeadCodeElimination"]:
        used = {access.tensor for access in accesses(program)}
        for path, node in walk(program):
            if not computes_beside(program, path):
                continue
            if isinstance(node, Alloc):
                if node.tensor not in used:
                    yield cls(path=path)
            elif all(_may_be_dead(program, path, tensor) for tensor in tensors_written(node)):
                yield cls(path=path)

    def facts(self, program: Program) -> Iterator[Fact]:
        node = statement_or_none(program, self.path)
        evidence = describe_at(program, self.path) if node is None else f"{path_text(self.path)} is {called(node)}"
        yield Fact("path-is-a-statement", node is not None, evidence)
        assert node is not None
        siblings = len(statements_at(program, self.path[:-1]))
        filled = computes_beside(program, self.path)
        evidence = f"the list that holds {path_text(self.path)} has {counted(siblings, 'statement')}"
        if siblings > 1 and not filled:
            evidence += f", and none computes beside {path_text(self.path)}"
        yield Fact("list-stays-filled", filled, evidence)
        if isinstance(node, Alloc):
            uses = sum(access.tensor == node.tensor for access in accesses(program))
            evidence = (
                f"{node.tensor} is accessed in {counted(uses, 'place')}" if uses else f"nothing accesses {node.tensor}"
            )
            yield Fact("declaration-is-unused", uses == 0, evidence)
            return
        removed = [path for path in equation_paths(program) if path[: len(self.path)] == self.path]
        after = self.rewrite(program)
        stay = [path for path in equation_paths(program) if path not in removed]
        origins = {
            new: Origin(old, tuple(Variable(loop.variable) for loop in loops_around(program, old)))
            for new, old in zip(equation_paths(after), stay, strict=True)
        }
        written = tensors_written(node)
        what = f"gets a value of {listed(written)}" if written else "gets a value"
        because = f"no read that stays {what} from {path_text(self.path)}"
        yield flow_preserved(program, after, origins, removed=removed, because=because)

    def rewrite(self, program: Program) -> Program:
        return replace_at(program, self.path)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        node = statement_at(before, self.path)
        what = called(node)
        result = {"path": path_text(self.path), "what": what, "subject": capitalised(what)}
        if isinstance(node, Alloc):
            return result | {"declared": node.tensor}
        written = tensors_written(node)
        if not written:
            return result
        roles = tensors(before)
        unread = [t for t in written if roles[t].role == "temporary" and not _is_read_outside(before, self.path, t)]
        if len(unread) == len(written):
            result["unread"] = listed(written)
            result["is_temporary"] = "is a temporary" if len(written) == 1 else "are temporaries"
            result["it"] = "it" if len(written) == 1 else "them"
        else:
            result["overwritten"] = listed(written)
        if not isinstance(node, Equation):
            count = sum(isinstance(n, Equation) for _, n in walk_with(node))
            result["equations"] = "equation" if count == 1 else f"{count} equations"
        runs = _runs(before, self.path, node)
        if runs is not None:
            result["runs"] = counted(runs, "equation run")
        known = tensors(after)
        gone = [t for t in written if t not in known]
        if gone:
            result["gone"] = listed(gone)
        return result


def _may_be_dead(program: Program, path: Path, tensor: str) -> bool:
    """Whether nothing outside the statement reads a temporary, or another statement may overwrite the tensor."""
    outside = [node for other, node in walk(program) if other[: len(path)] != path]
    if any(isinstance(node, Equation) and node.target.tensor == tensor for node in outside):
        return True
    is_output = any(declaration.tensor == tensor for declaration in program.outputs)
    return not is_output and not _is_read_outside(program, path, tensor)


def _is_read_outside(program: Program, path: Path, tensor: str) -> bool:
    """Whether a statement that is neither at a path nor below reads the tensor."""
    for other, node in walk(program):
        own = expressions(node)
        parts = (*own[0].indices, own[1]) if isinstance(node, Equation) and isinstance(own[0], Access) else own
        if other[: len(path)] != path and any(a.tensor == tensor for part in parts for a in accesses(part)):
            return True
    return False


def _runs(program: Program, path: Path, node: Stmt) -> int | None:
    """How often the equations at and below a path run; None where guards leave that open."""
    total = 0
    for below, statement in walk_with(node):
        if isinstance(statement, Equation):
            place = (*path, *below)
            if any(isinstance(level, Guard) for _, level in enclosing(program, place)):
                return None
            total += iterations_around(program, place)
    return total
