"""Running a program: inputs checked, statements executed in order, outputs collected."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.edit import accesses
from leir.interp import arithmetic
from leir.interp.errors import InterpreterError, Site
from leir.interp.expressions import Namespace
from leir.interp.scalar import Elements, Pending, Scalar, runtime
from leir.interp.tensors import Tensor, tensors
from leir.syntax import Alloc, DType, Program

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Statement:
    """A top-level statement as a function of the elements of `names`, then of the pending reads of `filled`."""

    run: Callable[..., None]
    names: tuple[str, ...]
    filled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Compiled:
    tensors: dict[str, Tensor]
    statements: tuple[_Statement, ...]
    namespace: Namespace


def interpret(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a program by name, for the arrays of its inputs by name (not changed).

    Raises InterpreterError where the program has no meaning on these inputs: an undefined element is read, a subscript
    is out of bounds (a gather's precondition included), a divisor is zero, an output element is not written; and for
    inputs that do not fit the signature, and for programs that are not well formed, as far as it notices.
    """
    arrays = {d.tensor: _checked(d.tensor, d.dtype, d.shape, inputs) for d in program.inputs}
    unknown = [name for name in inputs if name not in arrays]
    if unknown:
        raise InterpreterError(f"{', '.join(unknown)}: no such input of the program")
    with np.errstate(all="ignore"):
        return _run_scalar(_compiled(program), program, arrays)


def array_type(dtype: DType) -> type[np.generic]:
    """The NumPy type of arrays that hold a tensor's values; float32 for bf16."""
    return np.float16 if dtype == "f16" else arithmetic.NUMPY_TYPES[arithmetic.computing(dtype)]


def _checked(name: str, dtype: DType, shape: tuple[int, ...], inputs: Mapping[str, Array]) -> Array:
    """The input as a contiguous array of its computing type."""
    if name not in inputs:
        raise InterpreterError(f"input {name} is missing")
    array, wanted = inputs[name], array_type(dtype)
    if array.dtype != wanted or array.shape != shape:
        found = f"{array.dtype.name}{list(array.shape)}"
        raise InterpreterError(f"input {name} is {found}, but the program takes {np.dtype(wanted).name}{list(shape)}")
    values = np.ascontiguousarray(array, arithmetic.NUMPY_TYPES[arithmetic.computing(dtype)]).reshape(shape)
    if dtype == "bf16" and not np.array_equal(values, arithmetic.round_to("bf16", values), equal_nan=True):
        raise InterpreterError(f"input {name} holds values that are no bf16 numbers")
    return values


@lru_cache(maxsize=256)
def _compiled(program: Program) -> _Compiled:
    known = tensors(program)
    sites: list[Site] = []
    namespace = runtime(sites, known)
    live = {name: tensor for name, tensor in known.items() if tensor.allocated is None}
    statements: list[_Statement] = []
    for number, statement in enumerate(program.body):
        if isinstance(statement, Alloc):
            if statement.scope != "g" or known[statement.tensor].allocated != (number,):
                raise InterpreterError(f"{statement.tensor} may not be declared here", (number,))
            live[statement.tensor] = known[statement.tensor]
            continue
        names = tuple(dict.fromkeys(access.tensor for access in accesses(statement) if access.tensor in live))
        filled = tuple(name for name in names if live[name].fill)
        function = f"statement_{number}"
        emitter = Scalar(known, namespace, sites)
        emitter.live = dict(live)
        parameters = (*(f"T_{name}" for name in names), *(f"P_{name}" for name in filled))
        source = emitter.function_of(statement, (number,), function, parameters)
        exec(compile(source, f"<{function}>", "exec"), namespace)  # our own text, generated from the tree
        statements.append(_Statement(namespace[function], names, filled))
    return _Compiled(known, tuple(statements), namespace)


def _run_scalar(compiled: _Compiled, program: Program, inputs: dict[str, Array]) -> dict[str, Array]:
    elements: dict[str, Elements] = {}
    pending: dict[str, Pending] = {}
    for name, tensor in compiled.tensors.items():
        if tensor.scope == "g":
            elements[name] = to_elements(inputs[name]) if tensor.role == "input" else new_elements(tensor)
            pending[name] = {}
    for statement in compiled.statements:
        statement.run(*(elements[name] for name in statement.names), *(pending[name] for name in statement.filled))
    for name, reads in pending.items():
        compiled.namespace["settle"](reads, elements[name], name)
    return {d.tensor: _output(compiled, d.tensor, elements[d.tensor]) for d in program.outputs}


def to_elements(array: Array) -> list[Any]:
    """The flat list of an array's values: NumPy scalars for floats, Python's for integers and bool."""
    return list(array.ravel()) if array.dtype.kind == "f" else array.ravel().tolist()


def new_elements(tensor: Tensor) -> Elements:
    """A tensor of which no element is defined."""
    if tensor.shape is None:
        return {}
    return [None] * math.prod(tensor.shape)


def _output(compiled: _Compiled, name: str, elements: list[Any]) -> Array:
    tensor = compiled.tensors[name]
    for position, element in enumerate(elements):
        if element is None:
            raise InterpreterError(
                f"output element {compiled.namespace['element_text'](name, position)} is not written"
            )
    if tensor.dtype == "i64":
        elements = [arithmetic.scalar_to_integer(element, "i64") for element in elements]
    return np.array(elements, array_type(tensor.dtype)).reshape(tensor.shape)
