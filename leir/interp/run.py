"""Running a program: inputs checked, statements executed in order, outputs collected."""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.arrays import array_type
from leir.edit import accesses, walk
from leir.interp import arithmetic, arrays
from leir.interp.errors import InterpreterError, Site
from leir.interp.expressions import Namespace
from leir.interp.lanes import plan
from leir.interp.scalar import Elements, Pending, Scalar
from leir.interp.scalar import runtime as scalar_runtime
from leir.interp.tensors import Tensor, tensors
from leir.interp.vector import Vector
from leir.syntax import Alloc, DType, Equation, Path, Program, Stmt

Array = NDArray[Any]


def interpret(
    program: Program, inputs: Mapping[str, Array], *, scalar: bool = False, quick: bool = False
) -> dict[str, Array]:
    """The outputs of a program by name, for the arrays of its inputs by name (not changed).

    `scalar` runs every equation one by one, as the language defines it; without it, loops that the interpreter shows to
    give the same bits so run as vectors. `quick` takes NumPy's functions in f64: a last place off, and on another
    machine perhaps otherwise.

    Raises InterpreterError where the program has no meaning on these inputs: an undefined element is read, a subscript
    is out of bounds (a gather's precondition included), a divisor is zero, an output element is not written; and for
    inputs that do not fit the signature, and for programs that are not well formed, as far as it notices.
    """
    given = {d.tensor: _checked(d.tensor, d.dtype, d.shape, inputs) for d in program.inputs}
    unknown = [name for name in inputs if name not in given]
    if unknown:
        raise InterpreterError(f"{', '.join(unknown)}: no such input of the program")
    compiled = _compiled(program, quick)
    with np.errstate(all="ignore"):
        if not scalar and any(statement.vectors is not None for statement in compiled.statements):
            try:
                return _run_vector(compiled, given)
            except arrays.Retreat:
                pass  # scalar code finds out what was wrong, and where
        return _run_scalar(compiled, given)


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


class _Statement:
    """A top-level statement, and its functions, generated when they are first wanted."""

    def __init__(self, statement: Stmt, path: Path, live: dict[str, Tensor], program: "_Compiled") -> None:
        self.statement, self.path, self.live, self.program = statement, path, dict(live), program
        self.names = tuple(dict.fromkeys(a.tensor for a in accesses(statement) if a.tensor in live))
        self.filled = tuple(name for name in self.names if live[name].fill)
        self.stored = tuple(name for name in self.names if live[name].role != "input")
        equations = [s for _, s in (((), statement), *walk(statement)) if isinstance(s, Equation)]
        self.changed = tuple(dict.fromkeys(e.target.tensor for e in equations if e.target.tensor in self.stored))
        self.vectors = program.plan(statement, path)
        self.compiled: dict[str, Callable[..., None]] = {}

    def scalar(self) -> Callable[..., None]:
        """A function of the elements of `names`, then of the pending reads of `filled`."""
        if "scalar" not in self.compiled:
            emitter = Scalar(self.program.tensors, self.program.namespace, self.program.sites)
            emitter.live = dict(self.live)
            parameters = (*(f"T_{name}" for name in self.names), *(f"P_{name}" for name in self.filled))
            name = f"scalar_{self.path[0]}"
            self.compile("scalar", name, emitter.function_of(self.statement, self.path, name, parameters))
        return self.compiled["scalar"]

    def vector(self) -> Callable[..., None]:
        """A function of the values of `names`, then of the written flags of `stored`, then whether all are set."""
        if "vector" not in self.compiled:
            assert self.vectors is not None
            emitter = Vector(self.program.tensors, self.program.namespace, self.vectors)
            emitter.live = dict(self.live)
            flags = [f"{letter}_{name}" for letter in "WF" for name in self.stored]
            parameters = (*(f"T_{name}" for name in self.names), *flags)
            name = f"vector_{self.path[0]}"
            source = emitter.function_of(self.statement, self.path, name, parameters, set(self.changed))
            self.compile("vector", name, source)
        return self.compiled["vector"]

    def compile(self, key: str, name: str, source: str) -> None:
        exec(compile(source, f"<{name}>", "exec"), self.program.namespace)  # our own text, generated from the tree
        self.compiled[key] = self.program.namespace[name]


class _Compiled:
    """A program's tensors and top-level statements, and the namespace of the code generated for them."""

    def __init__(self, program: Program) -> None:
        self.outputs = tuple(d.tensor for d in program.outputs)
        self.tensors = tensors(program)
        self.dense = all(tensor.shape is not None for tensor in self.tensors.values())
        self.sites: list[Site] = []
        self.namespace: Namespace = {**arrays.runtime(), **scalar_runtime(self.sites, self.tensors)}
        self.statements: list[_Statement] = []
        live = {name: tensor for name, tensor in self.tensors.items() if tensor.allocated is None}
        for number, statement in enumerate(program.body):
            if not isinstance(statement, Alloc):
                self.statements.append(_Statement(statement, (number,), live, self))
                continue
            if statement.scope != "g" or self.tensors[statement.tensor].allocated != (number,):
                raise InterpreterError(f"{statement.tensor} may not be declared here", (number,))
            live[statement.tensor] = self.tensors[statement.tensor]

    def plan(self, statement: Stmt, path: Path) -> frozenset[Path] | None:
        return plan(statement, path, self.tensors) if self.dense else None


@lru_cache(maxsize=256)
def _compiled(program: Program, quick: bool) -> _Compiled:
    compiled = _Compiled(program)
    if quick:
        compiled.namespace.update(arithmetic.quick_functions())
    return compiled


def _run_scalar(compiled: _Compiled, inputs: dict[str, Array]) -> dict[str, Array]:
    elements: dict[str, Elements] = {}
    pending: dict[str, Pending] = {}
    for name, tensor in compiled.tensors.items():
        if tensor.scope == "g":
            elements[name] = _to_elements(inputs[name]) if tensor.role == "input" else _new_elements(tensor)
            pending[name] = {}
    for statement in compiled.statements:
        parameters = [*(elements[name] for name in statement.names), *(pending[name] for name in statement.filled)]
        statement.scalar()(*parameters)
    for name, reads in pending.items():
        compiled.namespace["settle"](reads, elements[name], name)
    for name in compiled.outputs:
        if None in elements[name]:
            missing = compiled.namespace["element_text"](name, elements[name].index(None))
            raise InterpreterError(f"output element {missing} is not written")
    return {name: _output(compiled.tensors[name], _to_array(elements[name], compiled.tensors[name])) for name in
            compiled.outputs}  # fmt: skip


def _run_vector(compiled: _Compiled, inputs: dict[str, Array]) -> dict[str, Array]:
    values: dict[str, Array] = {}
    written: dict[str, NDArray[np.bool_]] = {}
    for name, tensor in compiled.tensors.items():
        if tensor.scope != "g":
            continue
        if tensor.role == "input":
            values[name] = inputs[name].ravel()
            continue
        size, kind = math.prod(tensor.shape or ()), arithmetic.computing(tensor.dtype)
        start = 0 if tensor.fill is None else arithmetic.identity(tensor.fill, tensor.dtype)
        values[name] = np.full(size, start, arithmetic.NUMPY_TYPES[kind])
        written[name] = np.zeros(size, np.bool_)
    for statement in compiled.statements:
        if statement.vectors is None:
            _run_scalar_on_arrays(compiled, statement, values, written)
            continue
        flags = [written[name] for name in statement.stored]
        full = [False if name in statement.changed else bool(written[name].all()) for name in statement.stored]
        statement.vector()(*(values[name] for name in statement.names), *flags, *full)
    for name in compiled.outputs:
        if not written[name].all():
            raise arrays.Retreat
    return {name: _output(compiled.tensors[name], values[name]) for name in compiled.outputs}


def _run_scalar_on_arrays(
    compiled: _Compiled, statement: _Statement, values: dict[str, Array], written: dict[str, NDArray[np.bool_]]
) -> None:
    elements: dict[str, list[Any]] = {}
    for name in statement.names:
        elements[name] = _to_elements(values[name])
        for position in np.flatnonzero(~written[name]).tolist() if name in written else ():
            elements[name][position] = None
    pending: list[Pending] = [{} for _ in statement.filled]
    statement.scalar()(*elements.values(), *pending)
    if any(pending):
        raise arrays.Retreat
    for name in statement.changed:
        written[name][:] = [element is not None for element in elements[name]]
        values[name][written[name]] = _to_array([e for e in elements[name] if e is not None], compiled.tensors[name])


def _to_elements(array: Array) -> list[Any]:
    """The flat list of an array's values: NumPy scalars for floats, Python's for integers and bool."""
    return list(array.ravel()) if array.dtype.kind == "f" else array.ravel().tolist()


def _to_array(elements: list[Any], tensor: Tensor) -> Array:
    """The flat array of a list of values."""
    dtype = arithmetic.computing(tensor.dtype)
    if dtype in arithmetic.INTEGER_BITS:
        elements = [arithmetic.scalar_to_integer(element, dtype) for element in elements]
    return np.array(elements, arithmetic.NUMPY_TYPES[dtype])


def _new_elements(tensor: Tensor) -> Elements:
    """A tensor of which no element is defined."""
    return {} if tensor.shape is None else [None] * math.prod(tensor.shape)


def _output(tensor: Tensor, flat: Array) -> Array:
    assert tensor.shape is not None
    return flat.astype(array_type(tensor.dtype), copy=False).reshape(tensor.shape)
