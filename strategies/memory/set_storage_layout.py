"""Stores a temporary in another layout: dimensions swapped, split in blocks, merged, padded, or folded onto few places.

    Before    T^{t,s}_{n,m};...T_{e,f}...
    After     T^{t,s}_{m,n};...T_{f,e}...                       op: swap
              T^{t,s}_{n/b,b,m};...T_{e//b,e%b,f}...            op: split
              T^{t,s}_{n*m};...T_{e*m+f}...                     op: merge
              T^{t,s}_{n,m+p};...T_{e,f}...                     op: pad
              T^{t,s}_{n,b};...T_{e,f%b}...                     op: fold (b=1: T^{t,s}_{n};...T_{e}...)

Every access is rewritten, and nothing is copied. Quotients and remainders are taken from the parts of a subscript where
the loops' ranges allow it: (i*b+j)//b is i for a j below b.

Legal when: the tensor is a temporary that something accesses, and still fits its memory. No two elements come to share
a place, so every read still finds the value of the same write; that no element in use is padded away is proved again.
Elements that a fold puts in one place must not be alive at once: that every read finds the same write is proved.

Pays when: threads that run together then touch neighbouring elements, or different banks of shared memory (a row padded
by one element), or when an array of registers gets one dimension for each thread axis and each unrolled loop. A fold
leaves of the results of a recurrence those that are still needed: an array becomes a few elements.

Leads to: loop_vectorization.

Inverse: set_storage_layout (merge for split, a negative pad for a pad).
"""

from collections.abc import Iterator
from math import prod
from typing import ClassVar

from leir.analysis.access import tensors
from leir.analysis.kernels import BYTES
from leir.analysis.strides import stride
from leir.edit import accesses, equation_paths, insert_at, loops_around, replace_at, statement_at
from leir.printer import expression_text
from leir.syntax import Alloc, Program
from strategies.base import BitExact, Fact, Gridded, Level, counted, flow_preserved, numbered, same_loops
from strategies.grid import DEFAULT, Grid
from strategies.layouts import (
    Layout,
    StorageOp,
    folds_worth_trying,
    layouts_worth_trying,
    rewritten_alike,
    with_layout,
)
from strategies.memories import WORDS, capacity, role_text, room_text, shape_text


class SetStorageLayout(Gridded):
    name: ClassVar[str] = "set_storage_layout"
    level: ClassVar[Level] = "memory"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "Along {variable}, {access} of {tensor} moves by {stride}; stored with {new_shape}, it moves by one.",
        "A row of {tensor} has {row} elements, a multiple of the number of banks of shared memory: down a column, all "
        "threads meet in one bank. One element more a row spreads them.",
        "{tensor} keeps {size} elements along dimension {number}, though {apart}: what it needs is {new_shape}.",
        "{tensor} is a temporary in {source}: no other tensor ties it to its layout, {shape}. By itself nothing is "
        "gained, as {alone}.",
        "Why store {tensor} with {new_shape} instead of {shape}? Not for its own sake: {alone}.",
        "The layout of {tensor}, {shape} in {source}, can be changed alone. No gain comes with it: {alone}.",
        "{tensor} is a temporary in {source}, so its layout, {shape}, is free.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{tensor} goes from {shape} to {new_shape}, and {access} becomes {new_access}.",
        "{tensor} keeps {same_shape}, in {order}: {access} becomes {new_access}.",
        "{tensor} goes from {shape} to {new_shape}: {map}. No subscript changes in its {count}.",
        "In {tensor}, {map}; {access} is written {new_access} from now on.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The storage of {tensor} goes from {bytes} to {new_bytes}. Every read still finds the value of the same write: "
        "no bit changes.",
        "{tensor} takes the same {moved_bytes}, in another layout. Nothing is copied, and no bit changes.",
        "{tensor} takes the same {kept_bytes}, in the same order: only its shape and its subscripts differ. No bit "
        "changes.",
        "{tensor} had {bytes} and has {new_bytes} now; every read finds the value that it found, bit for bit.",
        "The {moved_bytes} of {tensor} lie in another order now, though no copy was made. No bit changes.",
        "No element of {tensor} has another address than before, and {kept_bytes} hold them all. No bit changes.",
        "Subscripts of {tensor} are all that differs, and its {kept_bytes} hold the same bits in the same order.",
    )

    tensor: str
    op: StorageOp
    axis: int
    by: int

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["SetStorageLayout"]:
        used = {access.tensor for access in accesses(program)}
        for tensor in tensors(program).values():
            if tensor.role == "temporary" and tensor.name in used:
                for op, axis, by in layouts_worth_trying(tensor.shape, grid):
                    yield cls(tensor=tensor.name, op=op, axis=axis, by=by)
                for axis, by in dict.fromkeys(folds_worth_trying(program, tensor.name)):
                    yield cls(tensor=tensor.name, op="fold", axis=axis, by=by)

    def facts(self, program: Program) -> Iterator[Fact]:
        tensor = tensors(program).get(self.tensor)
        is_own = tensor is not None and tensor.role == "temporary"
        yield Fact("tensor-is-a-temporary", is_own, role_text(program, self.tensor))
        assert tensor is not None
        times = sum(access.tensor == self.tensor for access in accesses(program))
        evidence = f"{self.tensor} is accessed in {numbered(times, 'place')}"
        yield Fact("tensor-is-accessed", times > 0, evidence if times else f"nothing accesses {self.tensor}")
        layout = self._layout(program)
        why = layout.why_not()
        yield Fact("layout-fits-the-shape", not why, why or layout.fit_text())
        size, most = prod(layout.new_shape()), capacity(tensor.scope, tensor.dtype)
        room = room_text(self.tensor, size, tensor.scope, tensor.dtype)
        yield Fact("size-fits", size <= most, room)
        if self.op == "fold":
            after = self.rewrite(program)
            because = f"elements of {self.tensor} that share a place are not alive at once"
            yield flow_preserved(program, after, same_loops(program, after), because=because)

    def rewrite(self, program: Program) -> Program:
        tensor, layout = tensors(program)[self.tensor], self._layout(program)
        body = with_layout(program.body, self.tensor, layout, self.tensor, {})
        after = Program(program.inputs, program.outputs, body)
        alloc = Alloc(self.tensor, tensor.dtype, tensor.scope, layout.new_shape())
        if tensor.alloc is not None:
            return replace_at(after, tensor.alloc, alloc)
        undeclared = tensors(after)[self.tensor]
        if (undeclared.dtype, undeclared.shape) == (tensor.dtype, alloc.shape):
            return after
        return insert_at(after, (0,), alloc)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        layout, old, new = self._layout(before), tensors(before)[self.tensor], tensors(after)[self.tensor]
        own, moved = ([a for a in accesses(p) if a.tensor == self.tensor] for p in (before, after))
        sizes = [prod(tensor.shape) * BYTES[tensor.dtype] for tensor in (old, new)]
        owner = {"g": "", "s": " a block", "l": " a thread"}[old.scope]
        result = {
            "tensor": self.tensor,
            "source": WORDS[old.scope],
            "shape": shape_text(old.shape),
            "map": layout.map_text(),
            "order": "the same order" if layout.keeps_addresses() else "another layout",
        }
        if shape_text(old.shape) == shape_text(new.shape):
            result["same_shape"] = shape_text(old.shape)
        else:
            result["new_shape"] = shape_text(new.shape)
        if sizes[0] == sizes[1]:
            result["kept_bytes" if layout.keeps_addresses() else "moved_bytes"] = f"{sizes[0]} bytes{owner}"
        else:
            result |= {"bytes": f"{sizes[0]} bytes{owner}", "new_bytes": f"{sizes[1]} bytes{owner}"}
        if own == moved:
            result["count"] = counted(len(set(own)), "access").replace("accesss", "accesses")
        else:
            access, new_access = rewritten_alike(own, moved)
            result |= {"access": expression_text(access), "new_access": expression_text(new_access)}
        if self.op == "pad" and self.by == 1 and old.scope == "s" and old.shape[self.axis] % 32 == 0:
            result["row"] = str(old.shape[self.axis])
        if self.op == "fold":
            result |= {"size": str(old.shape[self.axis]), "number": str(self.axis), "apart": "no two are alive at once"}
            if self.by > 1:
                result["apart"] = f"no two whose subscripts leave the same remainder by {self.by} are alive at once"
        nearer, farther = self._nearer(before, after), self._nearer(after, before)
        if not nearer and "row" not in result and self.op != "fold":
            result["alone"] = "the new layout brings no access to move by one element along its innermost loop"
            if layout.keeps_addresses():
                result["alone"] = "the new layout leaves every element where it is"
            elif farther:
                result["alone"] = (
                    f"{farther['access']} moves by {farther['stride']} along {farther['variable']} in the new layout, "
                    f"and {farther['new_access']} by one in the old"
                )
        return {**result, **nearer}

    def _nearer(self, before: Program, after: Program) -> dict[str, str]:
        """An access that moves by one element along its innermost loop in the second program, by more in the first."""
        shapes = [tensors(program)[self.tensor].shape for program in (before, after)]
        for paths in zip(equation_paths(before), equation_paths(after), strict=True):
            loops = loops_around(before, paths[0])
            used = ([a for a in accesses(statement_at(p, path)) if a.tensor == self.tensor]
                    for p, path in zip((before, after), paths, strict=True))  # fmt: skip
            for old, new in zip(*used, strict=True) if loops else ():
                steps = [stride(a, loops[-1].variable, shape) for a, shape in zip((old, new), shapes, strict=True)]
                if steps[1] == 1 and steps[0] is not None and steps[0] > 1:
                    terms = {"variable": loops[-1].variable, "stride": counted(steps[0], "element")}
                    return {**terms, "access": expression_text(old), "new_access": expression_text(new)}
        return {}

    def _layout(self, program: Program) -> Layout:
        return Layout(self.op, self.axis, self.by, tensors(program)[self.tensor].shape)
