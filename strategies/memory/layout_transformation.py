"""Copies a tensor once into another layout, and lets the statements that follow read the copy.

    Before    L^{n,m}_{x,y}[...A_{y,x}...]
    After     L^{m,n}_{i,j}[D_{j,i}=A_{i,j};] L^{n,m}_{x,y}[...D_{x,y}...]          op: swap

The layouts are those of set_storage_layout: two dimensions swapped, one split in blocks, two merged, or one padded. The
copy stands at the program's top level, ahead of the statement named, and every read from there on uses it.

Legal when: the tensor is in global memory, is read from that statement on, and is written no more. A pad must grow.
That nothing reads what a last block or a pad has beyond the tensor, where nothing is written, is proved again.

Pays when: the reads then run along memory, often enough to be worth the one pass of the copy, or a row of padding keeps
them aligned. A weight that every step reads is the usual case.

Leads to: loop_vectorization, loop_reorder.

Inverse: compute_inline (of the copy).
"""

from collections.abc import Iterator
from math import prod
from typing import ClassVar

from leir.analysis.access import Tensor, tensors
from leir.analysis.affine import Interval
from leir.analysis.kernels import BYTES
from leir.analysis.strides import stride
from leir.edit import accesses, loops_around, nested, tensors_read, tensors_written, walk
from leir.names import unused_tensor, variable_sequence
from leir.printer import expression_text
from leir.syntax import Access, Alloc, Equation, Loop, Program, Variable
from strategies.base import BitExact, Fact, Gridded, Level, counted, numbered
from strategies.grid import DEFAULT, Grid
from strategies.layouts import Layout, Op, layouts_worth_trying, rewritten_alike, with_layout
from strategies.memories import WORDS, capacity, room_text, shape_text


class LayoutTransformation(Gridded):
    name: ClassVar[str] = "layout_transformation"
    level: ClassVar[Level] = "memory"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "Along {variable}, {access} moves by {stride} of {tensor}; in a copy with {new_shape} it moves by one.",
        "{tensor}, of {shape}, is not written from statement ({first}) on, and {readers} {read} it: {alone}.",
        "Nothing writes {tensor} from statement ({first}) on, so that a copy made there can be read instead; {alone}.",
        "{readers} from ({first}) on {read} {tensor}, with {shape}, and can read a copy as well; {alone}.",
        "From statement ({first}) on, {readers} {read} {tensor} as it is stored, with {shape}; a copy can be stored "
        "otherwise.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "A nest at ({at}) copies {tensor} to {copy}: {map}. From there on, {access} becomes {new_access}.",
        "{copy} takes the elements of {tensor} at ({at}), with {new_shape}; after that, {readers} {read} it "
        "instead: {new_access} for {access}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{bytes} are read and written once more, {order}. Values are copied, not computed: no bit changes.",
        "The copy costs one pass over {shape}; what is computed stays the same, to the last bit.",
        "One pass more reads {tensor} and writes {copy}, {bytes} each way, {order}. No value is computed anew, so no "
        "bit changes.",
        "{copy} holds what {tensor} holds, bit for bit, {order}.",
    )

    at: int
    tensor: str
    op: Op
    axis: int
    by: int

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["LayoutTransformation"]:
        known = tensors(program)
        for at, statement in enumerate(program.body):
            later = {name for after in program.body[at:] for name in tensors_written(after)}
            for name in tensors_read(statement):
                if name in later or known[name].scope != "g" or not known[name].shape:
                    continue
                for op, axis, by in layouts_worth_trying(known[name].shape, grid):
                    yield cls(at=at, tensor=name, op=op, axis=axis, by=by)

    def facts(self, program: Program) -> Iterator[Fact]:
        number = len(program.body)
        there = 0 <= self.at < number and not isinstance(program.body[self.at], Alloc)
        yield Fact("statement-is-there", there, f"({self.at}) is {'one' if there else 'none'} of {number} statements")
        following = program.body[self.at :]
        reads = any(self.tensor in tensors_read(statement) for statement in following)
        yield Fact("tensor-is-read", reads, f"{self.tensor} is {'' if reads else 'not '}read from ({self.at}) on")
        tensor = tensors(program)[self.tensor]
        yield Fact("tensor-is-global", tensor.scope == "g", f"{self.tensor} is in {WORDS[tensor.scope]}")
        writes = any(self.tensor in tensors_written(statement) for statement in following)
        does = "is written again" if writes else "is not written"
        yield Fact("source-is-unchanged", not writes, f"{self.tensor} {does} from ({self.at}) on")
        layout = self._layout(tensor)
        why = layout.why_not()
        if not why and self.op == "pad" and self.by < 0:
            why = "a copy has at least the elements of its source"
        yield Fact("layout-fits-the-shape", not why, why or layout.fit_text())
        size, most = prod(layout.new_shape()), capacity("g", tensor.dtype)
        yield Fact("size-fits", size <= most, room_text("the copy", size, "g", tensor.dtype))

    def rewrite(self, program: Program) -> Program:
        tensor = tensors(program)[self.tensor]
        layout, copy = self._layout(tensor), unused_tensor(program)
        names = [name for name, _ in zip(variable_sequence(), tensor.shape, strict=False)]
        loops = [Loop("L", name, size, 0, ()) for name, size in zip(names, tensor.shape, strict=True)]
        ranges: dict[str, Interval] = {loop.variable: (0, loop.extent - 1) for loop in loops}
        far = tuple(Variable(name) for name in names)
        move = Equation(Access(copy, layout.moved(far, ranges)), "=", Access(self.tensor, far))
        following = with_layout(program.body[self.at :], self.tensor, layout, copy, {})
        body = (*program.body[: self.at], *nested(loops, (move,)), *following)
        after = Program(program.inputs, program.outputs, body)
        undeclared = tensors(after)[copy]
        if (undeclared.dtype, undeclared.shape) == (tensor.dtype, layout.new_shape()):
            return after
        return Program(program.inputs, program.outputs, (Alloc(copy, tensor.dtype, "g", layout.new_shape()), *body))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        tensor = tensors(before)[self.tensor]
        layout, copy = self._layout(tensor), unused_tensor(before)
        old = [a for s in before.body[self.at :] for a in accesses(s) if a.tensor == self.tensor]
        place = self.at + len(after.body) - len(before.body) - 1
        new = [a for s in after.body[place + 1 :] for a in accesses(s) if a.tensor == copy]
        shown = rewritten_alike(old, new)
        readers = sum(self.tensor in tensors_read(s) for s in before.body[self.at :])
        result = {
            "tensor": self.tensor,
            "copy": copy,
            "first": str(self.at),
            "at": str(place),
            "shape": shape_text(tensor.shape),
            "new_shape": shape_text(layout.new_shape()),
            "map": layout.map_text(),
            "order": "to be read in another layout",
            "alone": "no read moves by one element along its innermost loop that did not before",
            "readers": numbered(readers, "statement"),
            "read": "reads" if readers == 1 else "read",
            "bytes": f"{prod(tensor.shape) * BYTES[tensor.dtype]} bytes",
            "access": expression_text(shown[0]),
            "new_access": expression_text(shown[1]),
        }
        if layout.keeps_addresses():
            result["order"] = "in the same order: only subscripts differ, which later steps may use"
            result["alone"] = "with other subscripts, the copy has the same order, and nothing is gained by it alone"
        farther = ""
        for path, statement in walk(before):
            loops = loops_around(before, path)
            if not isinstance(statement, Equation) or not loops or path[0] < self.at:
                continue
            for access in accesses(statement.value):
                if access.tensor != self.tensor:
                    continue
                moved = old.index(access)
                steps = stride(access, loops[-1].variable, tensor.shape)
                near = stride(new[moved], loops[-1].variable, layout.new_shape())
                if steps == 1 and near is not None and near > 1 and not farther:
                    farther = f"{expression_text(new[moved])} moves by {counted(near, 'element')} along "
                    farther += f"{loops[-1].variable}, and {expression_text(access)} by one"
                if near == 1 and steps is not None and steps > 1:
                    del result["alone"]
                    terms = {"variable": loops[-1].variable, "stride": counted(steps, "element")}
                    return {
                        **result,
                        **terms,
                        "access": expression_text(access),
                        "new_access": expression_text(new[moved]),
                    }
        return result | ({"alone": farther} if farther else {})

    def _layout(self, tensor: Tensor) -> Layout:
        return Layout(self.op, self.axis, self.by, tensor.shape)
