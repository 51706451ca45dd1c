"""Tiles two loops of a perfect nest: tile loops outside, and loops within a tile inside.

    Before    K^{n}_{x}...Q^{m}_{y}[...x...y...]
    After     K^{n/f}_{x}Q^{m/g}_{y}...L^{f}_{u}L^{g}_{v}[...(x*f+u)...(y*g+v)...]

Where f or g does not divide, a guard ends the last tile. Loops between the two stand below the tile loops; guards
between them move below all loops.

Legal when: each tile is smaller than its loop, and every read still finds the value of the same write; only the order
in which one accumulation takes its terms is free, if that order can only change roundings. The tile loops keep their
kinds, which are proved again, and the inner ones are serial.

Pays when: the iterations of a tile use the same elements again, which the nest as a whole uses too far apart: a tile's
elements fit a cache, shared memory or registers. A tile is also what a block of a GPU takes.

Leads to: cache_read_write, loop_unrolling, loop_binding.

Inverse: loop_reorder and loop_fusion.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from leir.analysis.flow import Origin, flow_difference
from leir.edit import (
    accesses,
    equation_paths,
    loops_around,
    nested,
    perfect_nest,
    replace_at,
    statement_at,
    variables_of,
    walk,
    walk_with,
)
from leir.names import free_variables, substitute_each, substitute_in, unused_variable, variables_around
from leir.printer import expression_text, header_text
from leir.syntax import Equation, Expr, Guard, Loop, Path, Program, Stmt, Variable
from strategies.base import (
    BitExact,
    Fact,
    Gridded,
    Level,
    flow_preserved,
    listed,
)
from strategies.blocks import block_index, is_used_again, loops_of_nest, reorderable_accumulations, tail_guard
from strategies.dependences import between, distance_text, independent_text, reordered_text
from strategies.grid import DEFAULT, Grid
from strategies.openings import loops_of_a_perfect_nest


class LoopTiling(Gridded):
    name: ClassVar[str] = "loop_tiling"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "Of loops {outer} and {inner}, {reused} depends on {by} alone: within a tile of {tile} by {inner_tile} its "
        "elements are used again while they are near.",
        "The nest {header} goes through all {inner_extent} values of {inner} before {outer} moves on; in tiles of "
        "{tile} by {inner_tile} both stay within {window}, whose iterations have elements in common.",
        "No two pairs of {outer} and {inner} in a tile use one element, so that {nothing} is used again in it; but a "
        "tile of {tile} by {inner_tile} is a piece of {header} that can be ordered, bound or unrolled apart.",
        "A tile of {tile} by {inner_tile} is a piece of {header} that can be ordered, bound or unrolled apart.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{header} becomes {new_header}: {outer} and {inner} count tiles, and {index} and {inner_index} take their "
        "places below. {tails}",
        "Loops {outer} and {inner} are cut into tiles of {tile} by {inner_tile}: {new_header}. {tails}",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Every iteration runs once, tile by tile; {exact}, so the results keep every bit.",
        "Every iteration runs once, tile by tile. {reordered}.",
        "What runs is what ran, in tiles: {exact}, and no bit changes.",
    )

    outer: Path
    inner: Path
    outer_tile: int = Field(ge=2)
    inner_tile: int = Field(ge=2)

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["LoopTiling"]:
        for path, node in walk(program):
            if not isinstance(node, Loop) or node.kind == "V":
                continue
            for below, inner in perfect_nest(node, path)[1:]:
                if isinstance(inner, Loop) and inner.kind != "V":
                    tiles = [grid.below(grid.tiles, loop.extent) for loop in (node, inner)]
                    pairs = ((a, b) for a in tiles[0] for b in tiles[1] if max(a, b) <= grid.tile_ratio * min(a, b))
                    yield from (cls(outer=path, inner=below, outer_tile=a, inner_tile=b) for a, b in pairs)

    def facts(self, program: Program) -> Iterator[Fact]:
        yield from loops_of_a_perfect_nest(program, self.outer, self.inner)
        cut = [(loop, factor) for loop, factor, _ in self._cuts(program)]
        small = all(factor < loop.extent for loop, factor in cut)
        sizes = " and ".join(f"{factor} of {loop.extent} iterations of {loop.variable}" for loop, factor in cut)
        yield Fact("tiles-are-below-the-extents", small, f"a tile takes {sizes}")
        after = self.rewrite(program)
        free = reorderable_accumulations(after, self.outer)
        because = self._dependence_text(program)
        yield flow_preserved(program, after, self._origins(program, after), unordered=free, because=because)

    def rewrite(self, program: Program) -> Program:
        nest = perfect_nest(statement_at(program, self.outer), self.outer)
        levels = [node for path, node in nest if len(path) <= len(self.inner)]
        cuts = self._cuts(program)
        values: dict[str, Expr] = {loop.variable: block_index(loop, factor, inner) for loop, factor, inner in cuts}
        tiles = [replace(loop, extent=-(-loop.extent // factor), first=0, body=()) for loop, factor, _ in cuts]
        within = [Loop("L", inner, factor, loop.first, ()) for loop, factor, inner in cuts]
        between = [node for node in levels[1:-1] if isinstance(node, Loop)]
        guards = [Guard(substitute_in(node.condition, values), ()) for node in levels if isinstance(node, Guard)]
        tails = [Guard(tail_guard(*cut), ()) for cut in cuts if cut[0].extent % cut[1]]
        last = levels[-1]
        body: tuple[Stmt, ...] = substitute_each(last.body, values)
        deeper: list[Loop] = []
        while not guards and tails and len(body) == 1 and isinstance(body[0], Loop):
            deeper.append(body[0])  # a header reads nothing: the guards of tails stand below it
            body = body[0].body
        return replace_at(program, self.outer, *nested([*tiles, *between, *within, *deeper, *tails, *guards], body))

    def _dependence_text(self, program: Program) -> str:
        """The distances of dependences in the two loops and those between, as far as they are known."""
        known = between(program, self.outer, self.inner)
        if known is None:
            return ""
        found, variables = known
        if found:
            return f"every dependence has {distance_text(found, variables)}"
        return independent_text(program, self.outer, self.inner)

    def is_bit_exact(self, program: Program) -> bool:
        after = self.rewrite(program)
        exact = reorderable_accumulations(after, self.outer, exact=True)
        return flow_difference(program, after, self._origins(program, after), unordered=exact) is None

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        (outer, tile, u), (inner, inner_tile, v) = self._cuts(before)
        result = {
            "outer": outer.variable,
            "inner": inner.variable,
            "tile": str(tile),
            "inner_tile": str(inner_tile),
            "inner_extent": str(inner.extent),
            "header": header_text(loops_of_nest(statement_at(before, self.outer))),
            "new_header": header_text(loops_of_nest(statement_at(after, self.outer))),
            "index": expression_text(block_index(outer, tile, u)),
            "inner_index": expression_text(block_index(inner, inner_tile, v)),
        }
        tails = [tail_guard(*cut) for cut in self._cuts(before) if cut[0].extent % cut[1]]
        shown = listed(expression_text(guard) for guard in tails) if tails else ""
        ends = "end the last tiles" if len(tails) > 1 else "ends the last tile"
        guards = "Guards" if len(tails) > 1 else "The guard"
        result["tails"] = f"{guards} {shown} {ends}." if tails else "The tiles divide the loops, so no guard is needed."
        equations = [node for _, node in walk_with(statement_at(before, self.outer)) if isinstance(node, Equation)]
        sums = dict.fromkeys(equation.target.tensor for equation in equations if equation.op != "=")
        if not self.is_bit_exact(before):
            result["reordered"] = reordered_text(before, list(sums))
        elif flow_difference(before, after, self._origins(before, after)) is not None:
            result["exact"] = f"{listed(sums)} takes its terms in another order, which no maximum or integer shows"
        else:
            result["exact"] = f"{listed(sums)} takes its terms in the order they had" if sums else "no sum is touched"
        used = dict.fromkeys(access for equation in equations for access in accesses(equation.value))
        for one, other in ((outer, inner), (inner, outer)):
            for access in used:
                names = set[str]().union(*(variables_of(index) for index in access.indices))
                if one.variable in names and other.variable not in names:
                    result |= {"reused": expression_text(access), "by": one.variable}
        again = is_used_again(before, {self.outer: tile, self.inner: inner_tile})
        if again and outer.kind in ("L", "U") and inner.kind in ("L", "U"):
            result["window"] = "a window"
        elif again is False:
            result["nothing"] = "nothing"
        return result

    def _cuts(self, program: Program) -> tuple[tuple[Loop, int, str], tuple[Loop, int, str]]:
        """Each of the two loops, its tile's size, and the name of its new loop within a tile."""
        outer, inner = statement_at(program, self.outer), statement_at(program, self.inner)
        assert isinstance(outer, Loop) and isinstance(inner, Loop)
        taken = variables_around(program, self.outer) | set(free_variables(outer))
        first = unused_variable(taken)
        return (outer, self.outer_tile, first), (inner, self.inner_tile, unused_variable({*taken, first}))

    def _origins(self, before: Program, after: Program) -> dict[Path, Origin]:
        values: dict[str, Expr] = {
            loop.variable: block_index(loop, factor, inner) for loop, factor, inner in self._cuts(before)
        }
        result: dict[Path, Origin] = {}
        for old, new in zip(equation_paths(before), equation_paths(after), strict=True):
            variables = tuple(Variable(loop.variable) for loop in loops_around(before, old))
            below = old[: len(self.outer)] == self.outer
            result[new] = Origin(old, tuple(substitute_in(v, values) for v in variables) if below else variables)
        return result
