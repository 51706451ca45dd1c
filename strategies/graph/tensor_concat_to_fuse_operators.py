"""Makes one operator of two alike: their operands laid end to end, one nest over both, and the results taken apart.

    Before    K^{n}_{x}[C_{x}=f(A_{x});] K^{m}_{y}[D_{y}=f(W_{y});]
    After     L^{n}_{x}[Z_{x}=A_{x};] L^{m}_{x}[Z_{x+n}=W_{x};]
              K^{n+m}_{x}[R_{x}=f(Z_{x});]
              L^{n}_{x}[C_{x}=R_{x};] L^{m}_{x}[D_{x}=R_{x+n};]

The nests at `path` and `other`, of one list, hold one equation each and compute the same up to the names of tensors and
loops, the order of the loops that the results are subscripted by, and operands of sums, products and maxima that have
changed sides. `axis` is the loop of the first nest along which operands and results are joined; without one, a new
outermost loop of two runs over both. Operands that differ, or that the axis runs over, are copied to a joint temporary;
those that both read alike stay as they are.

Legal when: the second nest can move next to the first (the flow of values), neither reads a result of the two, extents
are equal but along the axis, and all that is joined is subscripted by plain variables. That all that is read is written
is proved again.

Pays when: the two are small, or share an operand, as projections of one input do: one larger product uses it once. The
price is a copy of the operands that differ, and of the results.

Leads to: compute_inline, loop_binding, loop_tiling.

Inverse: tensor_split_to_decouple_operators.
"""

from collections.abc import Iterator
from math import prod
from typing import ClassVar

from leir.analysis.flow import Origin
from leir.analysis.matching import shape_of
from leir.edit import (
    dtypes,
    enclosing,
    equation_paths,
    insert_at,
    iterations_around,
    loops_around,
    map_expression,
    replace_at,
    statement_at,
)
from leir.printer import equation_text, header_text
from leir.syntax import Access, Expr, Guard, Path, Program, Variable
from strategies.alike import Alike, Unlike, alike, joined
from strategies.base import (
    BitExact,
    Fact,
    Gridded,
    Level,
    describe_at,
    flow_preserved,
    listed,
    path_text,
    statement_or_none,
)
from strategies.blocks import reorderable_accumulations
from strategies.grid import DEFAULT, Grid
from strategies.work import (
    PUT,
    Work,
    declared,
    grouping_text,
    keeps_order_of_terms,
    reads_tensor,
    results_lie_apart,
    why_guards_are_open,
    work_at,
    works,
)


class TensorConcatToFuseOperators(Gridded):
    name: ClassVar[str] = "tensor_concat_to_fuse_operators"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "{first_equation} and {second_equation} are one computation on different tensors, and neither needs the other: "
        "along {axis} they are one operator of {total}.",
        "Both nests read {shared}: with {laid} laid end to end along {axis}, one nest reads it for both.",
        "The nests at {first} and {second} do the same to {laid} with equal extents; laid together, a loop {new_loop} "
        "of two does both.",
        "At {second} stands what stands at {first}, {first_equation}, with other tensors, and nothing that one writes "
        "is read by the other.",
        "What {first} computes with {shared}, {second} computes with it too; only {laid} differ.",
        "Two operators of {first_extent} and {second_extent} along {axis} are alike up to names: joined they are one, "
        "of {total}.",
        "{header} heads the nest at {first}, and the nest at {second} runs over as many iterations of the same "
        "computation.",
        "The nests at {first} and {second} compute the same up to the names of tensors and loops, and are independent.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{laid} {laid_are} copied to {joint}; one nest, {new_header}, computes {result}; {taken} take it apart.",
        "The nest at {first} becomes {new_equation} under {new_header}; the nest at {second} "
        "goes, and {taken} bring both results where they were.",
        "{count} statements replace the two: copies to {joint}, the nest of {new_equation}, and two to take it apart.",
        "One nest over {joint} takes the place of two: {new_equation}. Its results are taken apart by {taken}.",
        "The loop {axis} has {total} iterations now: the first {first_extent} do what {first} did, the others what "
        "{second} did.",
        "A loop {new_loop} of two chooses between the operands of {first} and those of {second}, laid together in "
        "{joint}.",
        "Instead of {first_equation} and {second_equation} there is {new_equation}, and {taken} take the results out.",
        "The step lays the operands that differ side by side in {joint}, computes {result} once; its parts are {put} "
        "{targets}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Two operators become one with {runs} runs of its equation, as many as both had. {copied} elements "
        "pass through {passed}. {bits}",
        "{shared} is read by one nest instead of two, so that each element can serve both results while it is near. "
        "{bits}",
        "One nest instead of two does the work, so that one loop order serves both. The price is what brings its "
        "operands and takes its results away. {bits}",
        "The price: {laid} {laid_are} copied, and the results are {put} {targets}; in return {axis} has {total} "
        "iterations in one nest. {bits}",
        "Each result comes from the operands that it came from. {bits}",
        "{joint} and {result} are new, {elements} elements in all; what is computed is not more than before. {bits}",
        "What is done to the joint nest from here is done for both operators at once. {bits}",
        "The two results come from one nest, and are {put} {targets} from there. {bits}",
    )

    path: Path
    other: Path
    axis: str

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["TensorConcatToFuseOperators"]:
        groups: dict[tuple[object, ...], list[Work]] = {}
        for work in works(program):
            if _computes(work):
                key = (work.path[:-1], work.equation.op, len(work.loops), _shape(work.equation.value))
                groups.setdefault(key, []).append(work)
        types = dtypes(program)
        for group in groups.values():
            for number, one in enumerate(group):
                for other in group[number + 1 : number + 1 + grid.alike]:
                    for axis in (*(loop.variable for loop in one.spatial), ""):
                        if isinstance(alike(one, other, axis, types), Alike):
                            yield cls(path=one.path, other=other.path, axis=axis)

    def facts(self, program: Program) -> Iterator[Fact]:
        found = [work_at(program, p) if statement_or_none(program, p) is not None else None for p in self._paths]
        what = [
            f"{header_text(work.levels)} holds {equation_text(work.equation)} and nothing else"
            if work is not None
            else f"{describe_at(program, path)}, not a perfect nest around one equation"
            for work, path in zip(found, self._paths, strict=True)
        ]
        yield Fact("nests-hold-one-equation", None not in found, "; ".join(what))
        one, other = found
        assert one is not None and other is not None
        ordered = self.path[:-1] == self.other[:-1] and self.path[-1] < self.other[-1]
        how = "comes after" if ordered else "does not follow"
        evidence = f"{path_text(self.other)} {how} {path_text(self.path)} in one list"
        yield Fact("nests-are-of-one-list", ordered, evidence)
        text = [equation_text(work.equation) for work in (one, other)]
        computes = _computes(one)
        yield Fact("computes-something", computes, f"{text[0]} {'computes something' if computes else 'is a copy'}")
        known = not self.axis or one.axis(self.axis) in one.spatial
        evidence = "a new loop joins them"
        if self.axis:
            evidence = f"{self.axis} is in the subscripts of the result of {text[0]}"
        if not known:
            evidence = f"the result of {text[0]} has no subscript with {self.axis}"
        yield Fact("axis-is-spatial", known, evidence)
        match = alike(one, other, self.axis, dtypes(program))
        evidence = f"{text[1]} is {text[0]} up to names"
        is_alike = isinstance(match, Alike)
        yield Fact("operators-are-alike", is_alike, match.reason if isinstance(match, Unlike) else evidence)
        targets = " or ".join(dict.fromkeys((one.target, other.target)))
        read = [target for target in (one.target, other.target) if any(reads_tensor(w, target) for w in (one, other))]
        evidence = f"one of the nests reads {read[0]}" if read else f"neither nest reads {targets}"
        yield Fact("results-are-not-read", not read, evidence)
        why = why_guards_are_open(one) or why_guards_are_open(other)
        yield Fact("guards-are-known", not why, why or "no guard of the nests depends on more than their loops")
        apart = all(results_lie_apart(program, work) for work in (one, other))
        evidence = f"no two results of {text[0]} go to one element, nor of {text[1]}"
        yield Fact("results-lie-apart", apart, evidence if apart else f"{evidence}: not provable")
        sums = [w.equation_path in reorderable_accumulations(program, w.path) for w in (one, other)]
        free = one.equation.op == "=" or all(sums)
        evidence = (
            f"{text[0]} is a plain store, no sum, so that no order of terms is at stake"
            if one.equation.op == "="
            else grouping_text(one.equation)
        )
        if not free:
            evidence = f"{text[0]} cuts its terms to integers one by one, so that their order counts"
        yield Fact("terms-may-be-regrouped", free, evidence)
        moved, origins = self._next_to_each_other(program)
        because = "the second nest can follow the first at once"
        yield flow_preserved(program, moved, origins, because=because)

    def rewrite(self, program: Program) -> Program:
        joint = joined(program, self._alike(program))
        after = replace_at(program, self.other)
        return declared(replace_at(after, self.path, *joint.statements), joint.new)

    def is_bit_exact(self, program: Program) -> bool:
        match = self._alike(program)
        return all(keeps_order_of_terms(program, work) for work in (match.one, match.other))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        match = self._alike(before)
        one, other = (work_at(before, path) for path in self._paths)
        assert one is not None and other is not None
        joint = joined(before, match)
        laid = dict.fromkeys(tensor for a, b in match.differing for tensor in (a.tensor, b.tensor))
        result = {
            "first": path_text(self.path),
            "second": path_text(self.other),
            "header": header_text(one.levels),
            "first_equation": equation_text(one.equation),
            "second_equation": equation_text(other.equation),
            "new_equation": equation_text(joint.equation),
            "new_header": header_text(joint.levels),
            "result": joint.equation.target.tensor,
            "taken": listed(equation_text(equation) for equation in joint.taken),
            "targets": listed(dict.fromkeys((one.target, other.target))),
            "count": str(len(joint.statements)),
            "put": PUT[one.equation.op],
            "passed": listed([*joint.names, joint.equation.target.tensor]),
            "elements": str(sum(prod(shape) for _, _, shape in joint.new)),
        }
        if joint.names:
            result["joint"] = listed(joint.names)
            result["laid"] = listed(laid)
            result["laid_are"] = "are" if len(laid) > 1 else "is"
        if match.shared:
            result["shared"] = listed(dict.fromkeys(access.tensor for access in match.shared))
        if self.axis:
            sizes = [loop.extent for loop in (match.one.axis(self.axis), match.other.axis(self.axis)) if loop]
            result |= {"axis": self.axis, "total": str(sum(sizes))}
            result["first_extent"], result["second_extent"] = map(str, sizes)
        else:
            result["new_loop"] = joint.loop
        exact = self.is_bit_exact(before)
        result["bits"] = "Every bit stays." if exact else "Sums are grouped anew, so results agree to rounding."
        around = [level for _, level in enclosing(before, self.path)]
        if not any(isinstance(level, Guard) for level in (*around, *one.levels)):
            sizes = [prod(loop.extent for loop in work.loops) for work in (one, other)]
            result["runs"] = str(iterations_around(before, self.path) * sum(sizes))
            result["copied"] = result["elements"]
        del after
        return result

    @property
    def _paths(self) -> tuple[Path, Path]:
        return self.path, self.other

    def _alike(self, program: Program) -> Alike:
        one, other = (work_at(program, path) for path in self._paths)
        assert one is not None and other is not None
        match = alike(one, other, self.axis, dtypes(program))
        assert isinstance(match, Alike)
        return match

    def _next_to_each_other(self, program: Program) -> tuple[Program, dict[Path, Origin]]:
        """The program with the second nest right after the first, and where its equations come from."""
        place = (*self.path[:-1], self.path[-1] + 1)
        moved = insert_at(replace_at(program, self.other), place, statement_at(program, self.other))
        depth, last = len(self.path) - 1, self.other[-1]
        origins: dict[Path, Origin] = {}
        for new in equation_paths(moved):
            old, number = new, new[depth] if new[:depth] == self.path[:-1] and len(new) > depth else -1
            if number == place[-1]:
                old = (*self.other, *new[depth + 1 :])
            elif place[-1] < number <= last:
                old = (*new[:depth], number - 1, *new[depth + 1 :])
            origins[new] = Origin(old, tuple(Variable(loop.variable) for loop in loops_around(program, old)))
        return moved, origins


def _computes(work: Work) -> bool:
    return work.equation.op != "=" or not isinstance(work.equation.value, Access)


def _shape(value: Expr) -> str:
    """A text that is equal for values which are alike up to what they read."""
    return shape_of(map_expression(value, lambda e: Access("A") if isinstance(e, Access) else e))
