"""Binds a serial loop to an axis of the GPU: its iterations become the blocks or the threads of a kernel.

    Before    L^{n}_{x}[...x...]
    After     B^{n}_{tx}[...tx...]

Legal when: the axis is free along the path, blocks stay outside threads, the extent is within the axis' limit, and the
loop carries no dependence, nor an accumulation across it. That the blocks and threads of the whole kernel are
independent but for data that phases exchange through `s`, and that no phase is cut by a condition which differs between
threads, is proved again. With `kind: serial` a bound loop becomes serial again, where what is below can do without.

Pays when: the axis gets enough iterations to fill the machine (thousands of blocks, 128 to 1,024 threads a block), and
neighbouring threads, those of `tx`, touch neighbouring elements.

Leads to: loop_unrolling, cache_read_write.

Inverse: loop_binding with `kind: serial`.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from leir.analysis.access import tensors
from leir.analysis.kernels import axis_of, is_thread
from leir.analysis.strides import stride
from leir.edit import accesses, enclosing, walk, walk_with
from leir.names import free_variables, unused_variable, variables_around
from leir.syntax import AXES, Equation, Loop, Path, Program
from strategies.base import BitExact, Fact, Level, Strategy, counted, listed
from strategies.kinds import independence, is_of_kind, loop_at, loop_terms, with_kind

Axis = Literal["bx", "by", "bz", "tx", "ty", "tz"]


class LoopBinding(Strategy):
    name: ClassVar[str] = "loop_binding"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "No loop around or below {variable} at {path} is bound, so that one GPU thread runs all of it; its {extent} "
        "iterations, of {per_iteration} each, are independent, and {axis} has room for them.",
        "The kernel around {variable} at {path} binds {axes}; its {extent} iterations are independent as well, and can "
        "run as {units} of {axis}.",
        "Along {variable}, {unit} of {accesses} accesses move by one element: as threads of {axis}, neighbours touch "
        "neighbouring elements.",
        "The bound loop {variable} at {path} has {given_up} iterations; before it can be unrolled, a vector, parallel, "
        "or bound to another axis, it has to be serial.",
        "The {extent} iterations of {variable} at {path} are independent, and {axis} is free for them.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{header} becomes {new_header}; below, {variable} is now written {new_variable}.",
        "Loop {variable} is {new_kind} instead of {kind}, and its variable is {new_variable}: {new_header}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Each of the {extent} {units} runs {per_iteration}. What an iteration computes does not change, so every bit "
        "stays.",
        "The {extent} iterations run as {units} of {axis}, in any order or at once; {apart}, so results keep their "
        "bits.",
        "The {given_up} iterations run one after the other again, in one {unit_was}, and compute the same bits.",
    )

    path: Path
    kind: Axis | Literal["serial"]

    @classmethod
    def candidates(cls, program: Program) -> Iterator["LoopBinding"]:
        for path, node in walk(program):
            if isinstance(node, Loop) and node.kind == "B":
                yield cls(path=path, kind="serial")
            elif isinstance(node, Loop) and node.kind == "L" and node.extent > 1:
                taken = _axes_along(program, path)
                free: list[Axis] = ["bx", "by", "bz", "tx", "ty", "tz"]
                yield from (cls(path=path, kind=axis) for axis in free if axis not in taken)

    def facts(self, program: Program) -> Iterator[Fact]:
        if self.kind == "serial":
            holds, evidence = is_of_kind(program, self.path, "B")
            yield Fact("loop-is-bound", holds, evidence)
            return
        from leir.check import Limits  # the analyses behind it are slow to import: listing strategies does without

        holds, evidence = is_of_kind(program, self.path, "L")
        yield Fact("loop-is-serial", holds, evidence)
        loop = loop_at(program, self.path)
        taken = _axes_along(program, self.path)
        along = f"{listed(taken)} {'are' if len(taken) > 1 else 'is'} bound along the path" if taken else "no axis is"
        yield Fact("axis-is-free", self.kind not in taken, along if taken else f"{along} bound along the path")
        around, below = _axes_around(program, self.path), _axes_below(loop)
        crossed = _crossed(self.kind, around, below)
        evidence = f"{_standing(around)} around {self.kind}, and {_standing(below)} below"
        if not around and not below:
            evidence = f"no axis stands around or below {self.kind}"
        yield Fact("blocks-enclose-threads", not crossed, crossed or evidence)
        limit = Limits().axis(self.kind)
        evidence = f"{loop.variable} has {counted(loop.extent, 'iteration')}, and {self.kind} takes at most {limit}"
        yield Fact("extent-fits-the-axis", loop.extent <= limit, evidence)
        yield Fact("no-dependence-carried", *independence(program, self.path))

    def rewrite(self, program: Program) -> Program:
        taken = (variables_around(program, self.path) | set(free_variables(loop_at(program, self.path)))) - {
            loop_at(program, self.path).variable
        }
        if self.kind == "serial":
            return with_kind(program, self.path, "L", unused_variable(taken))
        return with_kind(program, self.path, "B", unused_variable(taken, axis=self.kind))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        result = loop_terms(before, after, self.path)
        loop = loop_at(before, self.path)
        if self.kind == "serial":
            return {**result, "unit_was": "thread" if is_thread(axis_of(loop)) else "block"}
        result |= {"axis": self.kind, "units": "threads" if is_thread(self.kind) else "blocks"}
        result["apart"] = (
            "where one reads what another writes, a barrier stands between"
            if is_thread(self.kind)
            else "none reads what another writes"
        )
        around = _axes_around(before, self.path)
        if _axes_along(before, self.path):
            result.pop("per_iteration", None)
        if around:
            result["axes"] = listed(around)
        if self.kind == "tx":
            known = tensors(before)
            used = list(dict.fromkeys(a for _, n in walk_with(loop) if isinstance(n, Equation) for a in accesses(n)))
            unit = sum(stride(a, loop.variable, known[a.tensor].shape) == 1 for a in used)
            if unit > 1:
                result |= {"unit": str(unit), "accesses": str(len(used))}
        return result


def _standing(axes: list[str]) -> str:
    return f"{listed(axes)} {'stand' if len(axes) > 1 else 'stands'}" if axes else "no axis stands"


def _axes_around(program: Program, path: Path) -> list[str]:
    return [axis for _, node in enclosing(program, path) if (axis := axis_of(node))]


def _axes_below(loop: Loop) -> list[str]:
    found = {axis_of(node) for _, node in walk_with(loop)}
    return [axis for axis in AXES if axis in found]


def _axes_along(program: Program, path: Path) -> list[str]:
    """The axes that loops around, or anywhere below, bind, in the order of `AXES`."""
    found = {*_axes_around(program, path), *_axes_below(loop_at(program, path))}
    return [axis for axis in AXES if axis in found]


def _crossed(axis: str, around: list[str], below: list[str]) -> str:
    """Why the axis may not stand between those around and those below; empty where it may."""
    if not is_thread(axis) and (threads := [a for a in around if is_thread(a)]):
        return f"a loop around is bound to {threads[0]}: blocks do not stand inside threads"
    if is_thread(axis) and (blocks := [b for b in below if not is_thread(b)]):
        return f"a loop below is bound to {blocks[0]}: blocks do not stand inside threads"
    return ""
