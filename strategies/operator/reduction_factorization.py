"""Cuts a reduction in parts: each part accumulates into an element of its own, and a second nest combines the parts.

    Before    L^{n}_{x}[...T_{e}+=f(x);...]
    After     L^{k}_{p}L^{n/k}_{x}[...R_{p}+=f(p*(n/k)+x);...]L^{k}_{p}[T_{e}+=R_{p};]

The partial results have the type in which the result computes, a dimension for the part, one for each loop below that
the result is subscripted by, and one for each loop around, so that none is shared. Where a part may get no term, under
a guard, a nest ahead sets all of them to the operator's identity. With as many parts as iterations no loop is left
within a part; where each part has one term then, nothing is regrouped: they are combined in the order they had.

Legal when: the loop is reduced over, nothing in it moves the result or uses it otherwise, and the terms may be
regrouped: they are of the result's kind, so that nothing but rounding can depend on it. Sums and products of floats are
rounded otherwise, but for lone terms; those of integers wrap around, so that they are the same in parts.

Pays when: the parts can run at once, as threads or lanes, where one accumulator makes every term wait for the one
before it. The price is the memory of the parts and a second, short reduction.

Leads to: loop_binding, loop_parallelization, set_storage_scope.

Inverse: none in one step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from pydantic import Field

from leir.analysis.access import tensors
from leir.analysis.types import computing_type, identity, promote, type_of
from leir.edit import (
    accesses,
    dtypes,
    enclosing,
    insert_at,
    loops_around,
    nested,
    replace_at,
    statement_at,
    tensors_written,
    variables_of,
    walk,
    walk_with,
)
from leir.names import free_variables, substitute_each, unused_tensor, unused_variable, variables_around
from leir.printer import equation_text, expression_text, header_text
from leir.syntax import (
    Access,
    Alloc,
    AssignOp,
    DType,
    Equation,
    Guard,
    Loop,
    Path,
    Program,
    Stmt,
    Variable,
)
from strategies.base import BitExact, Fact, Gridded, Level, counted, path_text
from strategies.blocks import block_index, guarded, loops_of_nest, reorderable_accumulations, tail_guard
from strategies.grid import DEFAULT, Grid
from strategies.openings import a_loop
from strategies.work import grouping_text

NAMES: dict[AssignOp, str] = {"+=": "sum", "*=": "product", "max=": "maximum", "min=": "minimum"}


class ReductionFactorization(Gridded):
    name: ClassVar[str] = "reduction_factorization"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "{equation} takes the terms of the {extent} iterations of loop {variable} at {path} one after the other; "
        "{parts} partial results can take theirs at once.",
        "The {word} over {variable} at {path} ties all {extent} iterations to one element. In {parts} parts, those of "
        "different parts are independent.",
        "Every term of {equation} gets an element of its own, {lone} along {variable}: the iterations of {variable} at "
        "{path} are independent then, and a nest behind them takes the terms in turn.",
        "The {word} over {variable} at {path} makes each iteration wait for the one before it. With {lone} parts, one "
        "for each, the terms can be computed apart; they are still combined in turn.",
        "{equation} reads its terms as they are from {held}. With {copied} parts along {variable}, one for each, "
        "{partial} has them too, and they are still combined in turn: alone, nothing is gained.",
        "In {copied} parts, each term of {equation} goes to {partial} before it is combined, in the same turn as now. "
        "{held} has it already, so that this only prepares.",
        "All {extent} iterations of {variable} at {path} update one element in turn; in {count} parts, no two of "
        "different parts update the same.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{equation} becomes {new_equation} below {new_header}, and a nest at {combined} combines the parts: "
        "{combination}.{fewer}",
        "A nest ahead sets {partial} to {identity}, the identity of the {word}, since a part may get no term. "
        "{equation} becomes {new_equation}, and a nest at {combined} combines the parts.{fewer}",
        "Each part has its own {word} in {partial}, under {new_header}; a nest at {combined} combines them: "
        "{combination}.{fewer}",
        "{partial} starts from {identity}, as a part may get no term, and takes the {word} of each part; a nest at "
        "{combined} combines them.{fewer}",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "No two iterations of {part} share an element of {partial}. {bits} {price}",
        "Every iteration of {part} has elements of {partial} to itself. {price} {bits}",
    )

    path: Path
    tensor: str
    parts: int = Field(ge=2)

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["ReductionFactorization"]:
        for path, node in walk(program):
            if isinstance(node, Loop) and node.kind in ("L", "U") and node.extent > 1:
                sizes = grid.below(grid.parts, node.extent) + [node.extent] * (node.extent <= grid.lone_terms)
                for tensor in dict.fromkeys(e.target.tensor for _, e in _reductions(node)):
                    yield from (cls(path=path, tensor=tensor, parts=parts) for parts in sizes)

    def facts(self, program: Program) -> Iterator[Fact]:
        loop = yield from a_loop(program, self.path)
        enough = self.parts <= loop.extent
        evidence = f"{self.parts} parts are wanted of {counted(loop.extent, 'iteration')} of {loop.variable}"
        if enough:
            size, made = _sizes(loop, self.parts)
            up_to = "up to " if loop.extent % size else ""
            evidence = f"the {loop.extent} iterations of {loop.variable} make {counted(made, 'part')} of {up_to}{size}"
            evidence += f", fewer than the {self.parts} asked for" if made < self.parts else ""
        yield Fact("parts-are-not-more", enough, evidence)
        found = [equation for _, equation in _reductions(loop) if equation.target.tensor == self.tensor]
        which = "no equation" if not found else f"{len(found)} equations" if len(found) > 1 else "1 equation"
        does = "accumulate" if len(found) > 1 else "accumulates"
        evidence = f"{which} below {loop.variable} {does} into {self.tensor} across it"
        yield Fact("loop-is-reduced-over", len(found) == 1, evidence)
        (equation,) = found
        alloc = tensors(program)[self.tensor].alloc or ()
        outside = alloc[: len(self.path)] != self.path
        where = "outlives an iteration of" if outside else "is made anew in each iteration of"
        yield Fact("result-lives-outside", outside, f"{self.tensor} {where} {loop.variable}")
        uses = sum(access.tensor == self.tensor for access in accesses(loop))
        times = counted(uses, "place")
        evidence = f"{self.tensor} stands in {times} below {loop.variable}, one of them {equation_text(equation)}"
        yield Fact(
            "result-is-not-used-inside", uses == 1, evidence if uses > 1 else evidence.replace("one of them ", "")
        )
        written = tensors_written(loop)
        moving = [a for index in equation.target.indices for a in accesses(index) if a.tensor in written]
        where = expression_text(equation.target)
        evidence = f"{where} is one element in all iterations of {loop.variable}"
        if moving:
            evidence = f"{where} depends on {moving[0].tensor}, which is written below {loop.variable}"
        yield Fact("result-stays-in-place", not moving, evidence)
        free = self._equation_path(program) in reorderable_accumulations(program, self.path)
        dtype = tensors(program)[self.tensor].dtype
        cut = f"the terms of the {NAMES[equation.op]} are cut to {dtype} one by one, so that their order counts"
        yield Fact("terms-may-be-regrouped", free, grouping_text(equation) if free else cut)

    def rewrite(self, program: Program) -> Program:
        cut = self._cut(program)
        ahead = [cut.initial] if cut.is_guarded else []
        after = replace_at(program, self.path, *ahead, cut.parts, cut.combining)
        dtype, partial = self._dtype(program), cut.term.target.tensor
        if dtype == program.outputs[0].dtype:
            return after  # an undeclared tensor is just that
        return insert_at(after, (0,), Alloc(partial, dtype, "g", tensors(after)[partial].shape))

    def is_bit_exact(self, program: Program) -> bool:
        if self._equation_path(program) in reorderable_accumulations(program, self.path, exact=True):
            return True
        return self._keeps_turns(program)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        cut, loop = self._cut(before), statement_at(before, self.path)
        assert isinstance(loop, Loop)
        word = NAMES[cut.combination.op]
        nest = next(path for path, node in walk(after) if node == cut.combining)
        equation = statement_at(before, self._equation_path(before))
        result = {
            "path": path_text(self.path),
            "variable": loop.variable,
            "extent": str(loop.extent),
            "count": str(cut.parts.extent),
            "part": cut.parts.variable,
            "word": word,
            "equation": equation_text(equation),
            "new_equation": equation_text(cut.term),
            "partial": cut.term.target.tensor,
            "new_header": header_text(loops_of_nest(cut.parts)),
            "combined": path_text(nest),
            "bits": self._bits_text(before),
            "price": _price_text(before, after, self.path, cut),
            "fewer": "",
        }
        kind = "lone" if self._is_of_lone_terms(before) else "parts"
        if kind == "lone" and isinstance(cut.term.value, Access):
            kind, result["held"] = "copied", cut.term.value.tensor
        result[kind] = str(cut.parts.extent)
        if cut.parts.extent < self.parts:
            size, made = _sizes(loop, self.parts)
            result["fewer"] = (
                f" Of the {self.parts} parts asked for, {made} are enough, as each takes {size} iterations."
            )
        if cut.is_guarded:
            result["identity"] = expression_text(identity(cut.term.op, self._dtype(before)))
        else:
            result["combination"] = equation_text(cut.combination)
        return result

    def _is_of_lone_terms(self, program: Program) -> bool:
        """Whether each element of the partial results takes one term at most."""
        loop, place = statement_at(program, self.path), self._equation_path(program)
        assert isinstance(loop, Loop)
        equation = statement_at(program, place)
        assert isinstance(equation, Equation)
        below = [level for path, level in enclosing(program, place) if len(path) > len(self.path)]
        used = variables_of(equation.target)
        return self.parts == loop.extent and all(n.variable in used for n in below if isinstance(n, Loop))

    def _keeps_turns(self, program: Program) -> bool:
        """Whether lone terms are combined in the order and the type in which the result took them, to the last bit.

        A term is what its element holds, but for a zero's sign. That shows in no sum which never is a negative zero:
        one that starts from its fill, and into which everything is added.
        """
        if not self._is_of_lone_terms(program):
            return False
        equation = statement_at(program, self._equation_path(program))
        assert isinstance(equation, Equation)
        types, dtype = dtypes(program), self._dtype(program)
        below = [
            level for path, level in enclosing(program, self._equation_path(program)) if len(path) > len(self.path)
        ]
        in_turn = all(Variable(n.variable) in equation.target.indices for n in below if isinstance(n, Loop))
        kept = promote(dtype, type_of(equation.value, types)) == dtype
        writers = (n.op for _, n in walk(program) if isinstance(n, Equation) and n.target.tensor == self.tensor)
        return in_turn and kept and (equation.op == "*=" or all(op == "+=" for op in writers))

    def _bits_text(self, program: Program) -> str:
        equation = statement_at(program, self._equation_path(program))
        assert isinstance(equation, Equation)
        word = NAMES[equation.op]
        if self._is_of_lone_terms(program):
            if self.is_bit_exact(program):
                return "No part has more than one term, and they are combined in their order, so every bit stays."
            return f"The terms of the {word} may be rounded otherwise than before, so results agree to rounding alone."
        if self.is_bit_exact(program):
            return f"The {word} does not depend on how its terms are grouped, so every bit stays."
        return f"The terms of the {word} are grouped anew, so results agree to rounding, not bit for bit."

    def _equation_path(self, program: Program) -> Path:
        inner = next(p for p, e in _reductions(statement_at(program, self.path)) if e.target.tensor == self.tensor)
        return (*self.path, *inner)

    def _cut(self, program: Program) -> "_Cut":
        loop = statement_at(program, self.path)
        assert isinstance(loop, Loop)
        place = self._equation_path(program)
        equation = statement_at(program, place)
        assert isinstance(equation, Equation)
        size, count = _sizes(loop, self.parts)
        part = replace(loop, extent=count, first=loop.first if size == 1 else 0, body=())
        below = [level for path, level in enclosing(program, place) if len(path) > len(self.path)]
        kept = [level for level in below if isinstance(level, Loop) and level.variable in variables_of(equation.target)]
        around = loops_around(program, self.path)
        names = [*(level.variable for level in around), part.variable, *(level.variable for level in kept)]
        partial = Access(unused_tensor(program), tuple(map(Variable, names)))
        inner = unused_variable(variables_around(program, self.path) | set(free_variables(loop)))
        index = block_index(loop, size, inner) if size > 1 else Variable(loop.variable)
        whole = substitute_each(loop.body, {loop.variable: index})
        numbered = replace_at(program, self.path, replace(loop, body=whole))
        terms = statement_at(numbered, place)
        assert isinstance(terms, Equation)
        term = Equation(partial, equation.op, terms.value)
        accumulating = statement_at(replace_at(numbered, place, term), self.path)
        assert isinstance(accumulating, Loop)
        body = accumulating.body
        if size > 1:
            tail = loop.extent % size
            body = guarded(body, tail_guard(loop, size, inner)) if tail else body
            body = (Loop("L", inner, size, loop.first, body),)
        known = {level.variable for level in (*around, *kept)}
        closed = [g for g in below if isinstance(g, Guard) and variables_of(g.condition) <= known and not _reads(g)]
        loops = [replace(level, kind="L") if level.kind == "V" else level for level in kept]
        combination = Equation(equation.target, equation.op, partial)
        (initial,) = nested(
            [part, *loops, *closed], (Equation(partial, "=", identity(equation.op, self._dtype(program))),)
        )
        (combining,) = nested([*loops, *closed, replace(part, kind="L")], (combination,))
        is_guarded = len(closed) < sum(isinstance(level, Guard) for level in below)
        return _Cut(replace(part, body=body), term, combination, initial, combining, is_guarded)

    def _dtype(self, program: Program) -> DType:
        """The type of partial results: that in which the result's values compute."""
        return computing_type(tensors(program)[self.tensor].dtype)


@dataclass(frozen=True, slots=True)
class _Cut:
    """The loop over parts, its `term` equation, the `combination` of parts, and the nests that set and combine them.

    `is_guarded`: a part may get no term.
    """

    parts: Loop
    term: Equation
    combination: Equation
    initial: Stmt
    combining: Stmt
    is_guarded: bool


def _sizes(loop: Loop, parts: int) -> tuple[int, int]:
    """How many iterations each of the parts takes, and how many parts that makes."""
    size = -(-loop.extent // parts)
    return size, -(-loop.extent // size)


def _price_text(before: Program, after: Program, path: Path, cut: "_Cut") -> str:
    """What the parts cost: their elements, and the iterations that combine them, and set them ahead."""
    levels = [level for _, level in (*enclosing(before, path), *walk_with(cut.combining))]
    runs = prod(level.extent for level in levels if isinstance(level, Loop))
    most = "up to " if any(isinstance(level, Guard) for level in levels) else ""
    partial = cut.term.target.tensor
    elements = counted(prod(tensors(after)[partial].shape), "element")
    ahead = ", and as many that set it ahead" if cut.is_guarded else ""
    return f"The price is {partial}, {elements}, and {most}{counted(runs, 'iteration')} that combine it{ahead}."


def _reductions(loop: Stmt) -> Iterator[tuple[Path, Equation]]:
    """The accumulations below a loop whose element does not depend on it, with their paths from it."""
    assert isinstance(loop, Loop)
    for path, node in walk(loop):
        if isinstance(node, Equation) and node.op != "=" and loop.variable not in variables_of(node.target):
            yield path, node


def _reads(guard: Guard) -> bool:
    return any(accesses(guard.condition))
