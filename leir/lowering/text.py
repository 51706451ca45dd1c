"""A program as printed TIR: for people, and to compare how many tokens each form takes."""

# pyright: reportUnknownMemberType=false (TVM has no types)

from leir.analysis.kernels import binds_axis
from leir.lowering.lower import lower
from leir.syntax import Program


def tir_text(program: Program) -> str:
    """The lowered function as TVMScript of plain loops: for the GPU if the program binds its axes, else for the CPU."""
    on_gpu = any(binds_axis(statement) for statement in program.body)
    return _script(lower(program, "cuda" if on_gpu else "llvm").script())


def _script(text: str) -> str:
    """TVMScript without the comments that import its names."""
    return text[text.index("@T.prim_func") :].rstrip() + "\n"
