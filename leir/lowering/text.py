"""A program as printed TIR: for people, and to compare how many tokens each form takes."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from tvm import tirx

from leir.analysis.kernels import binds_axis
from leir.lowering.lower import lower
from leir.syntax import Program


def tir_text(program: Program) -> str:
    """The lowered function as TVMScript of plain loops: for the GPU if the program binds its axes, else for the CPU."""
    on_gpu = any(binds_axis(statement) for statement in program.body)
    return script(lower(program, "cuda" if on_gpu else "llvm"))


def script(function: tirx.PrimFunc) -> str:
    """A function's TVMScript without the comments that import its names."""
    text = function.script()
    return text[text.index("@T.prim_func") :].rstrip() + "\n"
