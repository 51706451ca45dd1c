"""Makes an innermost loop a vector: its iterations become the lanes of one operation.

    Before    L^{n}_{x}[T_{e,x}=...;]
    After     V^{n}_{x}[T_{e,x}=...;]

Legal when: the body is one equation, which may be guarded, the extent is 2 to 64, the loop carries no dependence and no
accumulation goes across it, and along the loop every access stays in place or moves by one element. With `kind: serial`
a vectorised loop becomes serial again, which is always legal.

Pays when: the extent is what the machine computes or moves at once (4 floats in a GPU's 16-byte access, 8 or 16 on a
CPU) and the first lane is aligned. Other extents are legal and run as the target can.

Inverse: loop_vectorization with `kind: serial`.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from leir.analysis.access import tensors
from leir.analysis.kernels import BYTES
from leir.analysis.strides import stride
from leir.edit import accesses, walk
from leir.printer import expression_text
from leir.syntax import Access, Equation, Guard, Loop, Path, Program, Stmt
from strategies.base import BitExact, Fact, Gridded, Level, counted, listed
from strategies.grid import DEFAULT, Grid
from strategies.kinds import in_kernel, independence, is_of_kind, loop_at, loop_terms, with_kind

NARROWEST, WIDEST = 2, 64  # lanes
GPU_BYTES = 16  # of the widest access


class LoopVectorization(Gridded):
    name: ClassVar[str] = "loop_vectorization"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "Along {variable}, {unit} {move} by one element: the {extent} iterations of the loop at {path} touch "
        "neighbours, as the lanes of a vector do.",
        "The {extent} lanes of {variable} at {path} take {lane_bytes} bytes of {target}, no more than one access of a "
        "GPU thread moves.",
        "The vector loop {variable} at {path} has {given_up} lanes; a step that splits or reorders them needs it "
        "serial.",
        "Loop {variable} at {path} is innermost, and its {extent} iterations are independent: they can be lanes of one "
        "operation.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{header} becomes {new_header}; the {equations} below {stay} as before.",
        "Loop {variable} is {new_kind} instead of {kind}: {new_header}. Nothing else changes.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "One vector operation stands for {lanes} scalar ones where the target has vectors of that width. Each lane "
        "computes what its iteration did, so every bit stays.",
        "No register has {odd} lanes, as {odd} is no power of two: a target takes these iterations in several vectors, "
        "or leaves lanes unused. Each lane computes what its iteration did, so every bit stays.",
        "The {extent} values of a run may be loaded, computed and stored together, each as before, to the last bit.",
        "The {given_up} lanes are iterations again, one after the other, and compute the same bits.",
    )

    path: Path
    kind: Literal["vectorised", "serial"] = "vectorised"

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["LoopVectorization"]:
        for path, node in walk(program):
            if isinstance(node, Loop) and node.kind == "V":
                yield cls(path=path, kind="serial")
            elif isinstance(node, Loop) and node.kind == "L" and NARROWEST <= node.extent <= grid.lanes and _only(node):
                yield cls(path=path)

    def facts(self, program: Program) -> Iterator[Fact]:
        if self.kind == "serial":
            holds, evidence = is_of_kind(program, self.path, "V")
            yield Fact("loop-is-vectorised", holds, evidence)
            return
        holds, evidence = is_of_kind(program, self.path, "L")
        yield Fact("loop-is-serial", holds, evidence)
        loop = loop_at(program, self.path)
        equation = _only(loop)
        below = "one equation" if equation else "more than one equation, or another loop,"
        yield Fact("body-is-one-equation", equation is not None, f"{below} stands below {loop.variable}")
        assert equation is not None
        width = f"{loop.variable} makes {counted(loop.extent, 'lane')}, and a vector has {NARROWEST} to {WIDEST}"
        yield Fact("width-is-supported", NARROWEST <= loop.extent <= WIDEST, width)
        steps = _steps(program, loop, equation)
        far = [access for access, step in steps.items() if step not in (0, 1)]
        evidence = f"as {loop.variable} grows by one, {_moves_text(steps)}"
        if far:
            step = "no constant number of elements" if steps[far[0]] is None else counted(steps[far[0]] or 0, "element")
            evidence = f"{expression_text(far[0])} moves by {step} as {loop.variable} grows by one"
        yield Fact("strides-are-zero-or-one", not far, evidence)
        yield Fact("no-dependence-carried", *independence(program, self.path))

    def rewrite(self, program: Program) -> Program:
        return with_kind(program, self.path, "L" if self.kind == "serial" else "V")

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        result = loop_terms(before, after, self.path)
        if self.kind == "serial":
            return result
        loop = loop_at(before, self.path)
        result["odd" if loop.extent & (loop.extent - 1) else "lanes"] = str(loop.extent)
        equation = _only(loop)
        assert equation is not None
        steps = _steps(before, loop, equation)
        if unit := [expression_text(access) for access, step in steps.items() if step == 1]:
            result |= {"unit": listed(unit), "move": "move" if len(unit) > 1 else "moves"}
        lane_bytes = loop.extent * BYTES[tensors(before)[equation.target.tensor].dtype]
        if in_kernel(before, self.path) and steps[equation.target] == 1 and lane_bytes <= GPU_BYTES:
            result |= {"lane_bytes": str(lane_bytes), "target": equation.target.tensor}
        return result


def _only(loop: Loop) -> Equation | None:
    """The equation that is all that stands below the loop, but for guards."""
    body: tuple[Stmt, ...] = loop.body
    while len(body) == 1 and isinstance(body[0], Guard):
        body = body[0].body
    return body[0] if len(body) == 1 and isinstance(body[0], Equation) else None


def _moves_text(steps: dict[Access, int | None]) -> str:
    """Which accesses move by one element, and which stay, where no other does anything else."""
    moving, still = ([expression_text(a) for a, step in steps.items() if step == each] for each in (1, 0))
    parts = [f"{listed(moving)} {'move' if len(moving) > 1 else 'moves'} by one element"] if moving else []
    parts += [f"{listed(still)} {'stay' if len(still) > 1 else 'stays'} in place"] if still else []
    return " and ".join(parts)


def _steps(program: Program, loop: Loop, equation: Equation) -> dict[Access, int | None]:
    """By how many elements each access moves from lane to lane."""
    known = tensors(program)
    used = dict.fromkeys(accesses(equation))
    return {access: stride(access, loop.variable, known[access.tensor].shape) for access in used}
