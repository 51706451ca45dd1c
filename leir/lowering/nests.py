"""Compiled nests, shared between programs: a step changes one nest, and the others need no compiling again.

A program is its outermost statements in order, with the fills that it implies written out; nothing but global tensors
passes from one to the next. So each is a function of its own over the global tensors that it touches. A function is
compiled once for as long as it is kept: all that are new to a batch of programs together. A program runs as its
functions in order.

A function takes addresses and nothing else. TVM's own interface unpacks and examines every tensor, in more code than a
nest has. On `llvm` lifetimes of `s` and `l` tensors start poisoned; on `cuda` nothing is contracted.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import PrimType, StringImm
from tvm.tirx.buffer import buffer_data_pointer_type
from tvm.tirx.stmt import Return

from leir.analysis.access import Tensor, tensors
from leir.analysis.kernels import BYTES
from leir.edit import tensors_in, walk
from leir.lowering.build import device_source, load, translate_entries
from leir.lowering.cuda import compile_quickly, kernels_of_source
from leir.lowering.execute import Array, as_passed, checked_buffer, new_buffers, take_results
from leir.lowering.fill import owned_dimensions, with_fills
from leir.lowering.kernels import host_body
from leir.lowering.launches import in_turn, launches, run_side_by_side
from leir.lowering.names import Names, Storage, Target, buffer_type
from leir.lowering.numbers import integer
from leir.lowering.packed import Packed
from leir.lowering.parameters import parameters
from leir.lowering.serial import serial_body
from leir.syntax import Alloc, Declaration, DType, Program, Stmt

KEPT = 2048  # functions that a process keeps; a loaded library of one takes some 30 KiB
_ANY_VALUE = 15  # TVM's number for the value of a packed argument, as `tvm_struct_get` counts fields
_TOGETHER = 64 << 20  # bytes of buffers that runs on a GPU have together
_CPU, _GPU = 1, 2  # DLPack's numbers

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Nest:
    """An outermost statement with its fills, and name, dtype and shape of each global tensor that it touches."""

    statement: Stmt
    tensors: tuple[tuple[str, DType, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Key:
    """What decides the code of a nest."""

    nest: Nest
    target: Target


@dataclass(frozen=True, slots=True, eq=False)
class NestSequence:
    """A compiled program: its nests' functions in order, each with the names of the tensors that it takes."""

    parameters: tuple[Tensor, ...]
    target: Target
    calls: tuple[tuple[Function, tuple[str, ...]], ...]

    @property
    def together(self) -> int:
        """How many runs `run_each` takes at most: on `cuda` some 64 MiB of buffers, elsewhere one."""
        if self.target == "llvm":
            return 1
        return max(_TOGETHER // max(sum(prod(t.shape) * BYTES[t.dtype] for t in self.parameters), 1), 1)

    def run(self, buffers: Mapping[str, Array]) -> None:
        """As `Executable.run`. Raises BufferMismatch."""
        self.run_each([buffers])

    def run_each(self, runs: Sequence[Mapping[str, Array]]) -> None:
        """As `run`, on several sets of buffers. On `cuda` all of them go there, run, and come back together."""
        arrays = [checked_buffer(tensor, buffers) for buffers in runs for tensor in self.parameters]
        wanted = self.parameters * len(runs)
        passed = [as_passed(tensor, array) for tensor, array in zip(wanted, arrays, strict=True)]
        if self.target == "llvm":
            for given in self._addresses([array.ctypes.data for array in passed]):
                for function, taken in self.calls:
                    function(*[given[name] for name in taken])
        else:
            device = tvm.cuda(0)
            packed = Packed(passed, device)
            run_side_by_side(self.calls, self._addresses(packed.addresses), device)
            passed = packed.take_back()
        take_results(wanted, arrays, passed)

    def _addresses(self, addresses: Sequence[int]) -> list[dict[str, ctypes.c_void_p]]:
        """The addresses of the parameters of each run by name."""
        names = [tensor.name for tensor in self.parameters]
        starts = range(0, len(addresses), max(len(names), 1))
        return [dict(zip(names, map(ctypes.c_void_p, addresses[s : s + len(names)]), strict=True)) for s in starts]

    def new_buffers(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """As `Executable.new_buffers`."""
        return new_buffers(self.parameters, inputs)


class Functions:
    """Compiled nests by what decides their code, least recently used first; at most `limit`."""

    def __init__(self, limit: int = KEPT) -> None:
        self.limit = limit
        self.known: OrderedDict[_Key, Function] = OrderedDict()
        self.compiled = 0  # how many were compiled so far

    def compile(self, programs: Sequence[Program], target: Target) -> list[NestSequence]:
        """The programs; the nests that are new are compiled together. Raises LinkError, NoDevice, CudaCompileError."""
        keys = [[_Key(nest, target) for nest in nests(program, target)] for program in programs]
        needed = dict.fromkeys(key for some in keys for key in some)
        new = [key for key in needed if key not in self.known]
        found = {key: self.known[key] for key in needed if key in self.known}
        found |= dict(zip(new, _compiled(new, target), strict=True)) if new else {}
        self.compiled += len(new)
        self.known |= found
        for key in needed:
            self.known.move_to_end(key)
        while len(self.known) > self.limit:
            self.known.popitem(last=False)
        return [
            NestSequence(
                parameters(program),
                target,
                tuple((found[key], tuple(name for name, _, _ in key.nest.tensors)) for key in some),
            )
            for program, some in zip(programs, keys, strict=True)
        ]


FUNCTIONS = Functions()


def compile_nests(programs: Sequence[Program], target: Target) -> list[NestSequence]:
    """The programs by the functions that this process keeps, for checking values: see the module's description."""
    return FUNCTIONS.compile(programs, target)


def nests(program: Program, target: Target) -> tuple[Nest, ...]:
    """The outermost statements of a well-formed program in order, fills among them."""
    known = tensors(program)
    filled = with_fills(program, known, target)
    return tuple(
        Nest(statement, tuple((n, known[n].dtype, known[n].shape) for n in _touched(statement)))
        for statement in filled.body
        if not isinstance(statement, Alloc)  # of a global tensor, which is a parameter
        and _touched(statement)  # otherwise there is nothing to see of what it does
    )


@lru_cache(maxsize=KEPT)
def nest_source(nest: Nest) -> str:
    """The kernels of a nest in CUDA C++, as `cuda_source` has them, but that the numbers in their names begin anew."""
    return kernels_of_source(device_source([launching(nest, "main")]))


@lru_cache(maxsize=KEPT)
def _touched(statement: Stmt) -> tuple[str, ...]:
    """The global tensors of an outermost statement, by first appearance."""
    own = [inner.tensor for _, inner in walk(statement) if isinstance(inner, Alloc)]
    return tuple(name for name in tensors_in(statement) if name not in own)


def _compiled(keys: Sequence[_Key], target: Target) -> list[Function]:
    names = [f"nest_{number}" for number in range(len(keys))]
    if target == "llvm":
        module = load(translate_entries([entry(key.nest, name) for key, name in zip(keys, names, strict=True)]))
        return [module[name] for name in names]
    kernels, hosts = compile_quickly([launching(key.nest, name) for key, name in zip(keys, names, strict=True)])
    rows = {name: launches(hosts[name]) for name in names}
    functions = {name: in_turn(row, kernels) for name, row in rows.items() if row is not None}
    others = [name for name in names if name not in functions]
    if others:
        module = translate_entries(
            [_with_addresses(hosts[name].params, hosts[name].body, name, _GPU) for name in others]
        )
        module.import_module(kernels)
        functions |= {name: module[name] for name in others}
    return [functions[name] for name in names]


def entry(nest: Nest, name: str) -> tirx.PrimFunc:
    """The nest as a function for the CPU that takes the addresses of its tensors; `s` and `l` ones start poisoned."""
    buffers, names = _buffers(nest, "llvm")
    return _with_addresses(buffers, serial_body((nest.statement,), names, poison=True), name, _CPU)


def _with_addresses(buffers: Sequence[tirx.Buffer], body: tirx.Stmt, name: str, device: int) -> tirx.PrimFunc:
    """A function of TVM's calling convention whose arguments are the addresses of the buffers, on a kind of device.

    It has the form in which TVM's own pass leaves functions (`MakePackedAPI`), without its examination of arguments.
    """
    handle, arguments, count, result = (
        tirx.Var(given, dtype)
        for given, dtype in (("handle", "handle"), ("arguments", "handle"), ("count", "int32"), ("result", "handle"))
    )
    declared = [
        tirx.DeclBuffer(buffer, data=tirx.reinterpret(buffer_data_pointer_type(buffer), value))
        for number, buffer in enumerate(buffers)
        for value in (tirx.tvm_struct_get(arguments, number, _ANY_VALUE, "handle"),)
    ]
    for attribute, value in (("device_type", device), ("device_id", 0)):
        body = tirx.AttrStmt(StringImm("default"), attribute, integer(value), body)
    whole = tirx.SeqStmt([*declared, body, Return(integer(0))])
    function = tirx.PrimFunc([handle, arguments, count, result], whole, PrimType("int32")).with_attr(
        {"global_symbol": f"__tvm_ffi_{name}", "tirx.noalias": True, "calling_conv": 1}
    )
    assert isinstance(function, tirx.PrimFunc)
    return function


def launching(nest: Nest, name: str) -> tirx.PrimFunc:
    """The nest's kernels with what runs them, as a function over its tensors."""
    buffers, names = _buffers(nest, "cuda")
    first, *rest = (Declaration(*tensor) for tensor in nest.tensors)
    alone = Program(tuple(rest), (first,), (nest.statement,))
    owned = {tensor.name: owned_dimensions(alone, tensor) for tensor in tensors(alone).values()}
    body = host_body(alone, owned, names)
    function = tirx.PrimFunc(buffers, body).with_attr({"global_symbol": name, "tirx.noalias": True})
    assert isinstance(function, tirx.PrimFunc)
    return function


def _buffers(nest: Nest, target: Target) -> tuple[list[tirx.Buffer], Names]:
    buffers = [tirx.decl_buffer(shape, buffer_type(dtype, target), name) for name, dtype, shape in nest.tensors]
    storage = {
        name: Storage(buffer, dtype, shape) for buffer, (name, dtype, shape) in zip(buffers, nest.tensors, strict=True)
    }
    return buffers, Names(target, storage)
