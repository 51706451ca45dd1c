"""Swaps two loops of a perfect nest.

    Before    K^{n}_{x}...Q^{m}_{y}[...]
    After     Q^{m}_{y}...K^{n}_{x}[...]

Loops and guards may stand between the two. A guard between them that reads the outer variable moves below both, and
with it, in their order, the guards after it, which it may protect.

Legal when: every read still finds the value of the same write (every dependence stays lexicographically positive); only
the order in which one accumulation takes its terms is free, if that order can only change roundings. Loop kinds are
proved again.

Pays when: the inner loop then runs along memory, an operand stays in a register over the inner loop, or an independent
loop comes outside, where it can run in parallel. Any order of a nest is a few swaps away.

Leads to: operator_fusion, loop_vectorization, loop_tiling.

Inverse: loop_reorder.
"""

from collections.abc import Iterator
from math import prod
from typing import ClassVar

from leir.analysis.access import tensors
from leir.analysis.dependence import carries_dependence
from leir.analysis.flow import flow_difference
from leir.analysis.matching import common_levels
from leir.analysis.strides import stride
from leir.edit import (
    accesses,
    allocations_in,
    enclosing,
    expressions,
    iterations_around,
    loops_around,
    nested,
    perfect_nest,
    replace_at,
    statement_at,
    variables_of,
    walk,
)
from leir.printer import expression_text, header_text
from leir.syntax import Equation, Guard, Loop, Path, Program, Variable
from strategies.base import (
    BitExact,
    Fact,
    Level,
    Strategy,
    counted,
    flow_preserved,
    listed,
    path_text,
    same_loops,
    statement_or_none,
)
from strategies.blocks import reorderable_accumulations
from strategies.dependences import between, distance_text, independent_text, is_positive, reordered_text
from strategies.openings import loops_of_a_perfect_nest


class LoopReorder(Strategy):
    name: ClassVar[str] = "loop_reorder"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "In {header} the innermost loop is {innermost}, along which {unit} moves by {stride}; along {new_innermost} it "
        "moves by one.",
        "With {inner} outside, the nest begins like its neighbour at {alike}, with {alike_loops} in common, "
        "where it has {alike_before} now.",
        "{fixed} does not depend on {new_innermost}: with that loop innermost, its element stays the same from one "
        "iteration to the next, and can stay in a register.",
        "Loop {outer} carries a dependence, {independent} does not: outside, its iterations, {inner_extent} of them, "
        "are independent of each other and can run apart.",
        "The loops of {header} are started {starts} times in all; with {inner}, of {fewer}, outside {outer}, of "
        "{outer_extent}, it is {new_starts} times.{against}",
        "Along {innermost}, the accesses that stay in place or move by one element are {near_before} of {accesses}; "
        "with {new_innermost} innermost they are {more}.",
        "Loops {outer} and {inner}, of extents {outer_extent} and {inner_extent}, may stand in either order, and "
        "nothing that was counted speaks for {new_header}, the other one.{starts_more}{loss}",
    )
    change: ClassVar[tuple[str, ...]] = (
        "Loops {outer} and {inner} swap: {header} becomes {new_header}. The {equations} below {stay}.",
        "{inner} moves out and {outer} in, so that {header} is now {new_header}; nothing else changes.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{exact}, so the results keep every bit. The same iterations run, in another order.",
        "{reordered}.",
        "Along the innermost loop, the accesses that stay in place or move by one element go from {near_before} to "
        "{near} of {accesses}. {exact}.",
        "Along the innermost loop, the accesses that stay in place or move by one element go from {near_before} to "
        "{near} of {accesses}. {reordered}.",
        "{exact}: no bit changes. The loops are started {new_starts} times in all instead of {starts}.{loss}",
    )

    outer: Path
    inner: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["LoopReorder"]:
        for path, node in walk(program):
            if isinstance(node, Loop):
                below = perfect_nest(node, path)[1:]
                loops = (p for p, n in below if isinstance(n, Loop) and n.kind != "V")  # a vector loop stays innermost
                yield from (cls(outer=path, inner=inner) for inner in loops)

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from loops_of_a_perfect_nest(program, self.outer, self.inner)
        after = self.rewrite(program)
        free = reorderable_accumulations(after, self.outer)
        because = self._dependence_text(program, after)
        yield flow_preserved(program, after, same_loops(program, after), unordered=free, because=because)

    def rewrite(self, program: Program) -> Program:
        nest = perfect_nest(statement_at(program, self.outer), self.outer)
        first, *between, last = (node for path, node in nest if len(path) <= len(self.inner))
        assert isinstance(first, Loop) and isinstance(last, Loop)
        guards = [n for n, node in enumerate(between) if isinstance(node, Guard)]
        bound = [n for n in guards if first.variable in variables_of(*expressions(between[n]))]
        moving = [n for n in guards if bound and n >= bound[0]]
        staying = [node for n, node in enumerate(between) if n not in moving]
        levels = [last, *staying, first, *(between[n] for n in moving)]
        return replace_at(program, self.outer, *nested(levels, last.body))

    def is_bit_exact(self, program: Program) -> bool:
        after = self.rewrite(program)
        exact = reorderable_accumulations(after, self.outer, exact=True)
        return flow_difference(program, after, same_loops(program, after), unordered=exact) is None

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        old, new = (perfect_nest(statement_at(p, self.outer)) for p in (before, after))
        outer, inner = statement_at(before, self.outer), statement_at(before, self.inner)
        assert isinstance(outer, Loop) and isinstance(inner, Loop)
        result = {
            "outer": outer.variable,
            "inner": inner.variable,
            "outer_extent": str(outer.extent),
            "inner_extent": str(inner.extent),
            "header": header_text(_shown(old)),
            "new_header": header_text(_shown(new)),
            "loss": "",
            "against": "",
            "starts_more": "",
        }
        equations = len(self._equations(before))
        count, noun = (equations, "equation") if equations else (len(allocations_in(outer)), "declaration")
        result["equations"] = noun if count == 1 else f"{count} {noun}s"
        result["stay"] = "stays as it is" if count == 1 else "stay as they are"
        targets = dict.fromkeys(node.target.tensor for node in self._equations(after) if node.op != "=")
        takes = f"{listed(targets)} {'take their' if len(targets) > 1 else 'takes its'} terms" if targets else ""
        if not self.is_bit_exact(before):
            result["reordered"] = reordered_text(before, list(targets))
        elif not targets:
            result["exact"] = "No equation in this nest accumulates"
        elif flow_difference(before, after, same_loops(before, after)) is None:
            result["exact"] = f"{takes} in the order they had"
        else:
            result["exact"] = f"{takes} in another order, which no maximum, minimum or integer shows"
        if carries_dependence(before, self.outer) and not carries_dependence(after, self.outer):
            result["independent"] = inner.variable
        result.update(self._alike(before, after))
        innermost, new_innermost = ([n.variable for _, n in nest if isinstance(n, Loop)][-1] for nest in (old, new))
        if not any(isinstance(node, Guard) or node.kind == "B" for _, node in (*old, *enclosing(before, self.outer))):
            starts, new_starts = (iterations_around(before, self.outer) * _starts(nest) for nest in (old, new))
            if starts != new_starts:
                result["starts"], result["new_starts"] = str(starts), str(new_starts)
            if new_starts < starts:
                result["fewer"] = counted(inner.extent, "iteration")
            elif new_starts > starts:
                result["starts_more"] = f" Its loops are started {new_starts} times in all, not {starts}."
        if innermost == new_innermost:
            return result
        used = list(dict.fromkeys(a for node in old[-1][1].body for a in accesses(node)))
        shapes = {name: tensor.shape for name, tensor in tensors(before).items()}
        steps, new_steps = ([stride(a, v, shapes[a.tensor]) for a in used] for v in (innermost, new_innermost))
        result["innermost"], result["new_innermost"] = innermost, new_innermost
        result["accesses"] = str(len(used))
        near_before, near = (sum(step in (0, 1) for step in each) for each in (steps, new_steps))
        if near != near_before:
            result["near_before"], result["near"] = str(near_before), str(near)
        if near > near_before:
            result["more"] = str(near)
        by_one, new_by_one = (sum(step == 1 for step in each) for each in (steps, new_steps))
        if new_by_one < by_one:
            go = f"accesses that move by one element along the innermost loop go from {by_one} to {new_by_one}"
            result["loss"] = f" The {go} of {len(used)}."
            result["against"] = f" On the other side, the {go} of {len(used)}."
        gained = list(zip(used, steps, new_steps, strict=True))
        if near < near_before:
            return result
        if fixed := [a for a, s, t in gained if t == 0 != s]:
            result["fixed"] = expression_text(fixed[0])
        if unit := [(a, s) for a, s, t in gained if t == 1 and s is not None and s > 1]:
            result["unit"], result["stride"] = expression_text(unit[0][0]), counted(unit[0][1], "element")
        return result

    def _equations(self, program: Program) -> list[Equation]:
        return [node for _, node in walk(statement_at(program, self.outer)) if isinstance(node, Equation)]

    def _alike(self, before: Program, after: Program) -> dict[str, str]:
        """The terms of a neighbour of the nest whose header is more alike after the step; none without one."""
        for number in (self.outer[-1] - 1, self.outer[-1] + 1):
            path = (*self.outer[:-1], number)
            if number < 0 or not isinstance(statement_or_none(before, path), Loop):
                continue
            neighbour = statement_at(before, path)
            old, new = (len(common_levels(statement_at(p, self.outer), neighbour)) for p in (before, after))
            if new > old:
                loops = {"alike_loops": counted(new, "level"), "alike_before": str(old or "none")}
                return {"alike": path_text(path), **loops}
        return {}

    def _dependence_text(self, before: Program, after: Program) -> str:
        """The distances of dependences before and after the swap, and what becomes of the order of terms."""
        order = self._order_text(before, after)
        known = between(before, self.outer, self.inner)
        if known is None:
            return order
        found, variables = known
        if not found:
            return order or independent_text(before, self.outer, self.inner)
        swapped = [(box[-1], *box[1:-1], box[0]) for box in found]
        if not all(is_positive(box) for box in swapped):
            return f"one element is used again at {distance_text(found, variables)}"
        order_after = [variables[-1], *variables[1:-1], variables[0]]
        text = f"every dependence has {distance_text(found, variables)}, that is {distance_text(swapped, order_after)}"
        accumulates = any(equation.op != "=" for equation in self._equations(before))
        return f"{text}; {order}" if order and accumulates else text

    def _order_text(self, before: Program, after: Program) -> str:
        """What becomes of the order in which elements take their values; empty where the subscripts do not show it."""
        around = [loop.variable for loop in loops_around(before, self.outer)]
        nests = [perfect_nest(statement_at(program, self.outer)) for program in (before, after)]
        old, new = ([*around, *(n.variable for _, n in nest if isinstance(n, Loop))] for nest in nests)
        declared = {name for name, tensor in tensors(before).items() if len(tensor.alloc or ()) > 1}
        parts: list[str] = []
        alone: dict[str, None] = {}
        for equation in dict.fromkeys(self._equations(after)):
            tensor, indices = equation.target.tensor, equation.target.indices
            over = [variable for variable in old if variable not in variables_of(equation.target)]
            plain = all(Variable(variable) in indices for variable in old if variable not in over)
            if not plain or tensor in declared or (over and equation.op == "="):
                return ""
            ordered = [variable for variable in new if variable in over]
            if not over:
                alone[tensor] = None
            elif over == ordered:
                parts.append(f"the terms of {tensor} still come in the order of {listed(over)}")
            else:
                parts.append(f"the terms of {tensor} come by {listed(ordered)} from the outside in, not {listed(over)}")
        if alone:
            elements = "an element" if len(alone) == 1 else "elements"
            parts.insert(0, f"every iteration of {listed(old)} has {elements} of {listed(alone)} of its own")
        return ", and ".join(dict.fromkeys(parts))


def _shown(nest: tuple[tuple[Path, Loop | Guard], ...]) -> list[Loop | Guard]:
    """The levels of a nest, without the guards where these stand below all loops: they stay there."""
    levels = [level for _, level in nest]
    loops = [level for level in levels if isinstance(level, Loop)]
    return list(loops) if levels[: len(loops)] == loops else levels


def _starts(nest: tuple[tuple[Path, Loop | Guard], ...]) -> int:
    """How often the loops of a nest without guards are started: each once for every iteration of those around it."""
    extents = [level.extent for _, level in nest if isinstance(level, Loop)]
    return sum(prod(extents[:number]) for number in range(len(extents)))
