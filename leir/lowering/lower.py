"""A LEIR program as a TIR function of plain loops and stores: one `For` a loop, one store an equation."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from tvm import tirx

from leir.analysis.access import tensors
from leir.lowering.fill import owned_dimensions, with_fills
from leir.lowering.kernels import host_body
from leir.lowering.names import Names, Storage, Target, buffer_type
from leir.lowering.parameters import parameters
from leir.lowering.serial import serial_body
from leir.syntax import Program


def lower(program: Program, target: Target, *, name: str = "main", poison: bool = False) -> tirx.PrimFunc:
    """The program as one function over the buffers of `parameters(program)`, for a program that `check` accepts.

    `llvm`: every loop serial but the outermost `P` loops, which are parallel. `cuda`: the kernels, with the host loops
    around them. `poison` (llvm only): each lifetime of an `s` or `l` tensor starts as NaN, or as the dtype's least.
    """
    known = tensors(program)
    filled = with_fills(program, known, target)
    buffers: list[tirx.Buffer] = []
    storage: dict[str, Storage] = {}
    for tensor in parameters(program):
        buffer = tirx.decl_buffer(tensor.shape, buffer_type(tensor.dtype, target), tensor.name)
        buffers.append(buffer)
        storage[tensor.name] = Storage(buffer, tensor.dtype, tensor.shape)
    names = Names(target, storage)
    if target == "llvm":
        body = serial_body(filled.body, names, poison=poison)
    else:
        owned = {tensor.name: owned_dimensions(program, tensor) for tensor in known.values()}
        body = host_body(filled, owned, names)
    function = tirx.PrimFunc(buffers, body).with_attr({"global_symbol": name, "tirx.noalias": True})
    assert isinstance(function, tirx.PrimFunc)
    return function
