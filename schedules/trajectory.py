"""A trajectory under construction: steps are taken by name, and loops are addressed by their variables."""

from collections.abc import Iterator
from math import prod
from typing import Any

from leir.edit import perfect_nest, statement_at, statements_at, walk
from leir.parser import parse
from leir.syntax import Alloc, Equation, Loop, Path, Program
from strategies.base import Applied, Strategy
from strategies.catalog import parse_step


class Trajectory:
    """The states from a program on, and the steps between them. Every method raises Refused where a step is illegal."""

    def __init__(self, source: str | Program) -> None:
        self.states: list[Program] = [parse(source) if isinstance(source, str) else source]
        self.steps: list[Strategy] = []
        self.applied: list[Applied] = []

    @property
    def program(self) -> Program:
        """The last state."""
        return self.states[-1]

    def take(self, strategy: str, **arguments: Any) -> None:
        """Takes one step."""
        step = parse_step({"strategy": strategy, "args": {name: _plain(value) for name, value in arguments.items()}})
        applied = step.apply(self.program)
        self.steps.append(step)
        self.applied.append(applied)
        self.states.append(applied.program)

    def nest(self, root: Path) -> dict[str, Path]:
        """The loops of the perfect nest at a path, by variable, from the outside in."""
        levels = perfect_nest(statement_at(self.program, root), root)
        return {node.variable: path for path, node in levels if isinstance(node, Loop)}

    def split(self, root: Path, variable: str, factor: int) -> str:
        """Splits a loop of the nest at `root`; the variable of the inner loop. One that is not longer stays whole."""
        path = self.nest(root)[variable]
        self.take("loop_split", path=path, factor=factor)
        inner = statement_at(self.program, (*path, 0))
        assert isinstance(inner, Loop)
        return inner.variable

    def order(self, root: Path, *variables: str) -> None:
        """Swaps loops of the nest at `root` until they begin with the given ones, in their order."""
        for number, variable in enumerate(variables):
            loops = self.nest(root)
            there = list(loops)[number]
            if there != variable:
                self.take("loop_reorder", outer=loops[there], inner=loops[variable])

    def bind(self, root: Path, **axes: str) -> None:
        """Binds loops of the nest at `root`: `by="i"` binds loop i to by."""
        for axis, variable in axes.items():
            self.take("loop_binding", path=self.nest(root)[variable], kind=axis)

    def spread(self, root: Path, *, loops: int = 0, **threads: int) -> None:
        """Spreads the outer loops of a copy over threads, neighbours taking what is next to each other.

        `loops`: how many; all of them if 0. `threads`: the extents of the axes, tx last: `ty=8, tx=32`.
        """
        for _ in range((loops or len(self.nest(root))) - 1):
            self.take("loop_fusion", path=root)
        whole = next(iter(self.nest(root)))
        inner = self.tile(root, whole, prod(threads.values()))
        rounds = [] if inner == whole else [whole]
        axes = [inner]
        for number in range(1, len(threads)):
            axes.append(self.tile(root, axes[-1], prod(list(threads.values())[number:])))
        names = dict(zip(threads, axes, strict=True))
        if len(set(axes)) < len(axes):  # a copy that is shorter than the last axes leaves the first ones alone
            names = {axis: name for axis, name in names.items() if name not in axes[axes.index(name) + 1 :]}
        self.order(root, *names.values(), *rounds)
        self.bind(root, **names)

    def tile(self, root: Path, variable: str, factor: int) -> str:
        """Splits a loop of the nest at `root` if it is longer than `factor`; the variable of the loop within a tile."""
        return self.split(root, variable, factor) if self.extent(root, variable) > factor else variable

    def extent(self, root: Path, variable: str) -> int:
        """The extent of a loop of the nest at `root`."""
        loop = statement_at(self.program, self.nest(root)[variable])
        assert isinstance(loop, Loop)
        return loop.extent

    def vectorise(self, root: Path, lanes: int) -> None:
        """Makes vectors of `lanes` iterations of the innermost loop of the nest at `root`, where they come out even."""
        variable = list(self.nest(root))[-1]
        extent = self.extent(root, variable)
        if extent % lanes == 0:
            within = self.split(root, variable, lanes) if extent > lanes else variable
            self.take("loop_vectorization", path=self.nest(root)[within], kind="vectorised")

    def unroll_below(self, path: Path) -> None:
        """Unrolls every serial loop at and below a path."""
        node = statement_at(self.program, path)
        if isinstance(node, Loop) and node.kind == "L":
            self.take("loop_unrolling", path=path, kind="unrolled")
        for inner, node in walk(statement_at(self.program, path), path):
            if isinstance(node, Loop) and node.kind == "L":
                self.take("loop_unrolling", path=inner, kind="unrolled")

    def stage(self, path: Path, tensor: str, scope: str, side: str = "read") -> tuple[str, Path, Path]:
        """Stages a tensor for the nest at `path`: the new tensor, the path of the copy, and that of the nest."""
        self.take("cache_read_write", path=path, tensor=tensor, scope=scope, side=side)
        alloc = statement_at(self.program, path)
        assert isinstance(alloc, Alloc)
        first, second = ((*path[:-1], path[-1] + number) for number in (1, 2))
        return (alloc.tensor, first, second) if side == "read" else (alloc.tensor, second, first)

    def places(self, path: Path) -> Iterator[Path]:
        """The paths of the statements directly below a path, but for declarations."""
        for number, node in enumerate(statements_at(self.program, path)):
            if not isinstance(node, Alloc):
                yield (*path, number)

    def tensors(self) -> tuple[str, ...]:
        """The tensors that are written, in the order of their first writes."""
        return tuple(dict.fromkeys(n.target.tensor for _, n in walk(self.program) if isinstance(n, Equation)))

    def outputs(self) -> tuple[str, ...]:
        """The outputs' names."""
        return tuple(declared.tensor for declared in self.program.outputs)

    def writer(self, root: Path) -> str:
        """The tensor that the first equation at or below a path writes."""
        node = statement_at(self.program, root)
        equations = (n for _, n in [(root, node), *walk(node, root)] if isinstance(n, Equation))
        return next(equations).target.tensor

    def writers(self, tensor: str) -> tuple[Path, ...]:
        """The paths of the equations that write a tensor, in the order of the text."""
        nodes = walk(self.program)
        return tuple(path for path, node in nodes if isinstance(node, Equation) and node.target.tensor == tensor)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
