"""A PyTorch module to LEIR: `torch.export`, decompositions but for the ops of the table, one entry a node."""

import operator
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, TensorArgument
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map_only

from leir.edit import accesses
from leir.names import tensor_sequence
from leir.syntax import Declaration, Program
from stepTP.frontend.emitter import Emitter, UnsupportedOp
from stepTP.frontend.expansion import LEFT_OVER, decompositions, expand
from stepTP.frontend.graph import (
    IGNORED_ARGUMENTS,
    UPDATES,
    computed,
    is_empty,
    is_left_over,
    live_nodes,
    missing,
    origin,
    output_names,
)
from stepTP.frontend.networks import networks_by_shape
from stepTP.frontend.ops import creation
from stepTP.frontend.rolling import rolled
from stepTP.frontend.scans import scans_in_order
from stepTP.frontend.segments import Kinds
from stepTP.frontend.table import TABLE
from stepTP.frontend.values import Buffer, constant

MOST_NESTS = 4_000  # of a program, once repetitions are loops; DenseNet-201 has 2,632

Inputs = tuple[Any, ...] | Mapping[str, Any]
"""What a module is called with: its arguments in order, or by name."""

_WITHOUT_EFFECT = (
    "aten._assert_tensor_metadata.default", "aten._assert_async.msg", "aten._assert_async.default",
    "aten._assert_scalar.default",
)  # fmt: skip
_TAKE_EMPTY = ("aten.cat.default", "aten.stack.default")


@dataclass(frozen=True, slots=True)
class Translation:
    """A program with what its names stand for.

    `names`: of every input and output, in the order of the signature, what it is in the module: an argument of
    `forward`, a parameter or buffer by its path, `output` or `output.<place>`; a tied weight by all its paths, with
    commas between them. `user_inputs` are the tensors among the arguments, in order; `constants` are the values of all
    other inputs, an array each. `ops` counts the entries. `updates`: the buffers (running statistics) and arguments
    that `forward` changes in place besides what it returns; the program returns what `forward` returns, and no more.
    """

    program: Program
    names: dict[str, str]
    user_inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, np.ndarray]
    ops: dict[str, int]
    updates: tuple[str, ...] = ()

    def paths(self, name: str) -> tuple[str, ...]:
        """The paths of the parameter or buffer that an input stands for: several where it is tied."""
        return tuple(self.names[name].split(", "))


class ExportFailed(Exception):
    """`torch.export` cannot trace the module: `reason`, and the `line` of the module's code where it gave up."""

    def __init__(self, error: Exception) -> None:
        torch_folder = str(Path(torch.__file__).parent)
        own = [
            f"{frame.filename}:{frame.lineno}: {frame.line}"
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith((torch_folder, str(Path(__file__).parent), "<"))
        ]
        self.line = own[-1] if own else ""
        self.reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if isinstance(error, GuardOnDataDependentSymNode):
            self.reason = "its control flow or a shape depends on the values of tensors"
        super().__init__(f"torch.export fails: {self.reason}" + (f" ({self.line})" if self.line else ""))


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values as LEIR's engines take them: bf16 as float32 arrays."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()


def translate(module: torch.nn.Module, inputs: Inputs) -> Translation:
    """The module, called with `inputs`, as a program in the plain form: every loop serial, one op after the other.

    Shapes are those of `inputs`. The module is taken in the mode it is in, training or evaluation, and its state as it
    is before the call. Raises UnsupportedOp and ExportFailed.
    """
    return translate_exported(export(module, inputs))


def called(module: torch.nn.Module, inputs: Inputs) -> Any:
    """What the module returns for the inputs."""
    return module(**inputs) if isinstance(inputs, Mapping) else module(*inputs)


def export(module: torch.nn.Module, inputs: Inputs) -> ExportedProgram:
    """The functional graph of ops of the table, and of core ATen ops where it has none.

    Tensors are copied first: one that is given twice would count as one argument.
    """
    inputs = tree_map_only(torch.Tensor, torch.clone, inputs)
    try:
        with torch.no_grad(), scans_in_order(), networks_by_shape(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The tensor attributes? .* assigned during export", UserWarning)
            if isinstance(inputs, Mapping):
                exported = torch.export.export(module, (), dict(inputs))
            else:
                exported = torch.export.export(module, inputs)
    except Exception as error:  # tracing runs the module's own code, which may raise anything
        raise ExportFailed(error) from error
    for node in exported.graph.nodes:
        if is_left_over(node):
            node.meta[LEFT_OVER] = True
    if all(node.op != "call_function" or _is_known(node.target) for node in exported.graph.nodes):
        return exported
    try:
        with torch.no_grad(), networks_by_shape(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec.* is deprecated", FutureWarning)  # PyTorch's own use of it
            if expand(exported, _is_known):
                return exported
            return exported.run_decompositions(dict(decompositions()))
    except (RuntimeError, NotImplementedError) as error:  # of tracing, where the module hides its tensors from it
        raise ExportFailed(error) from error


def _is_known(target: Any) -> bool:
    return target is operator.getitem or str(target) in TABLE or str(target) in _WITHOUT_EFFECT


def bind(translation: Translation, inputs: Inputs) -> dict[str, np.ndarray]:
    """The program's inputs by name: the tensors among `inputs`, in order, and the constants."""
    tensors = [as_array(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    return dict(zip(translation.user_inputs, tensors, strict=True)) | translation.constants


def translate_exported(exported: ExportedProgram) -> Translation:
    """The program of an exported graph. Raises UnsupportedOp.

    A buffer that an op takes but its nests do not read (the running statistics in training) is no input. Where an op
    whose result nothing uses cannot be translated, nothing that is left over is.
    """
    try:
        translation = _Translator(exported).translation()
    except UnsupportedOp:
        if not [node for node in exported.graph.nodes if node.meta.pop(LEFT_OVER, False)]:
            raise
        translation = _Translator(exported).translation()
    read = {access.tensor for access in accesses(translation.program)}
    buffers = exported.graph_signature.buffers
    unread = tuple(translation.names[n] for n in translation.constants if n not in read)
    left_out = frozenset(path for path in unread if path in buffers)
    return _Translator(exported, left_out).translation() if left_out else translation


class _Translator:
    def __init__(self, exported: ExportedProgram, left_out: frozenset[str] = frozenset()) -> None:
        self.exported = exported
        self.left_out = left_out
        self.nodes = live_nodes(exported)
        self.by_name = {node.name: node for node in exported.graph.nodes}
        self.last = next(iter(reversed(exported.graph.nodes)))  # PyTorch 2.11 gives no iterator here
        self.values: dict[torch.fx.Node, Any] = {}
        self.names: dict[str, str] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.emitter = Emitter()
        self.emitter.live = frozenset(self.nodes)

    def translation(self) -> Translation:
        names = tensor_sequence()
        inputs, user_inputs = self.declare_inputs(names)
        returned = self.declare_outputs(names)
        outputs = [Declaration(buffer.name, buffer.dtype, buffer.shape) for _, buffer in returned]
        for node in self.nodes:
            if node.op == "call_function":
                self.values[node] = self.emit(node)
        for node, buffer in returned:
            if buffer.name not in self.emitter.written:
                self.emitter.node = node
                self.emitter.copied(self.values[node], buffer)
        program = Program(tuple(inputs), tuple(outputs), tuple(self.emitter.top))
        kinds: Kinds = {d.tensor: (d.dtype, d.shape) for d in (*inputs, *outputs)}
        program = rolled(program, kinds | self.emitter.temporaries)
        if len(program.body) > MOST_NESTS:
            self.emitter.node = self.last
            self.emitter.refuse(
                f"{len(program.body)} nests, more than {MOST_NESTS}: forward is that long, or has a loop whose turns "
                "differ, which is written out"
            )
        return Translation(
            program,
            self.names,
            tuple(user_inputs),
            tuple(declaration.tensor for declaration in outputs),
            self.constants,
            dict(sorted(self.emitter.ops.items())),
            self.updates(),
        )

    def updates(self) -> tuple[str, ...]:
        """The buffers and arguments that the module changes in place, sorted."""
        specs = self.exported.graph_signature.output_specs
        return tuple(sorted(spec.target or "" for spec in specs if spec.kind in UPDATES))

    def declare_inputs(self, names: Iterator[str]) -> tuple[list[Declaration], list[str]]:
        """User inputs in the order of `forward`, the parameters and buffers that are read, by first use, and the other
        parameters. Paths that hold one tensor are one input."""
        e = self.emitter
        declarations: list[Declaration] = []
        user_inputs: list[str] = []
        shared: dict[int, str] = {}
        specs = {spec.arg.name: spec for spec in self.exported.graph_signature.input_specs}
        given = [spec for spec in specs.values() if spec.kind == InputKind.USER_INPUT]
        read = [specs[node.name] for node in self.placeholders_by_use() if specs[node.name] not in given]
        unread = [spec for spec in specs.values() if spec.kind == InputKind.PARAMETER and spec not in read]
        references = iter([x for x in tree_leaves(self.exported.example_inputs) if isinstance(x, torch.Tensor)])
        for spec in (*given, *read, *unread):
            if isinstance(spec.arg, ConstantArgument):
                continue
            node = e.node = self.by_name[spec.arg.name]
            tensor = self.stored(spec)
            if spec.kind == InputKind.CONSTANT_TENSOR and tensor is not None and tensor.dim() == 0:
                number = tensor.item()
                if not isnan(number):
                    self.values[node] = constant(number, (), e.dtype())
                    continue
            if 0 in e.shape():
                e.refuse("a tensor without elements")
            if spec.target in self.left_out:
                self.values[node] = Buffer(node.name, e.shape(), e.dtype()).value
                continue
            if tensor is not None and id(tensor) in shared:
                name = shared[id(tensor)]
                self.values[node] = Buffer(name, e.shape(), e.dtype()).value
                self.names[name] = ", ".join(sorted((*self.names[name].split(", "), spec.target or node.name)))
                continue
            name = next(names)
            buffer = Buffer(name, e.shape(), e.dtype())
            self.values[node] = buffer.value
            if tensor is not None:
                shared[id(tensor)] = name
            declarations.append(Declaration(name, buffer.dtype, buffer.shape))
            self.names[name] = spec.target or node.name
            if tensor is None:
                user_inputs.append(name)
                tensor = next(references)
            else:
                self.constants[name] = as_array(tensor)
            if not tensor.is_floating_point() and bool((tensor < 0).any()):
                e.with_negatives.add(name)
        for node in self.nodes:
            if TABLE.get(str(node.target)) is creation.triangle_indices:
                e.node = node
                buffer = Buffer(next(names), e.shape(), e.dtype())
                e.lifted[node] = buffer.value
                declarations.append(Declaration(buffer.name, buffer.dtype, buffer.shape))
                self.names[buffer.name] = node.name
                self.constants[buffer.name] = as_array(computed(node))
        e.inputs = frozenset(self.names)
        return declarations, user_inputs

    def placeholders_by_use(self) -> list[torch.fx.Node]:
        order: dict[torch.fx.Node, None] = {}
        for node in self.nodes:
            if node.op != "placeholder":
                order |= dict.fromkeys(source for source in node.all_input_nodes if source.op == "placeholder")
        return list(order | dict.fromkeys(node for node in self.nodes if node.op == "placeholder"))

    def stored(self, spec: InputSpec) -> torch.Tensor | None:
        """The value of a parameter, buffer or lifted constant; None for a user's input."""
        for values in (self.exported.state_dict, self.exported.constants):
            tensor = values.get(spec.target or "")
            if isinstance(tensor, torch.Tensor):
                return tensor
        return None

    def declare_outputs(self, names: Iterator[str]) -> list[tuple[torch.fx.Node, Buffer]]:
        """A tensor for each tensor that `forward` returns; it is the destination of the op that computes it."""
        e = self.emitter
        specs = self.exported.graph_signature.output_specs
        places = output_names(self.exported)
        offset = len(specs) - len(places)
        returned: list[tuple[torch.fx.Node, Buffer]] = []
        for number, spec in enumerate(specs):
            e.node = self.by_name.get(getattr(spec.arg, "name", ""), self.last)
            if spec.kind in UPDATES:
                continue
            if spec.kind != OutputKind.USER_OUTPUT:
                e.refuse(f"an output of the kind {spec.kind.name}")
            if not isinstance(spec.arg, TensorArgument):
                continue
            if 0 in e.shape():
                e.refuse("an output without elements")
            buffer = Buffer(next(names), e.shape(), e.dtype())
            self.names[buffer.name] = places[number - offset]
            returned.append((e.node, buffer))
            e.outputs.setdefault(origin(e.node), buffer)
        if not returned:
            e.node = self.last
            e.refuse("the module returns no tensor")
        e.default = returned[0][1].dtype
        e.taken |= set(self.names)
        return returned

    def emit(self, node: Any) -> Any:
        """The value or values of a node, after emitting what computes them."""
        e = self.emitter
        e.node = node
        name = str(node.target)
        if name in _WITHOUT_EFFECT:
            return None
        if node.target is operator.getitem:
            source, number = node.args
            return self.values[source][number]
        if name not in TABLE:
            e.refuse(missing(node.target, name))
        if isinstance(node.meta["val"], torch.Tensor):
            if 0 in e.shape():
                return constant(0, e.shape(), e.dtype())
            e.dtype()
        if name not in _TAKE_EMPTY and any(is_empty(source) for source in node.all_input_nodes):
            e.refuse("a tensor without elements")
        if any(isinstance(leaf, float) and isnan(leaf) for leaf in tree_leaves((node.args, node.kwargs))):
            e.refuse("LEIR has no literal for NaN")
        arguments = map_arg(node.args, self.values.__getitem__)
        options = {k: map_arg(v, self.values.__getitem__) for k, v in node.kwargs.items() if k not in IGNORED_ARGUMENTS}
        e.ops[name] += 1
        return TABLE[name](e, *arguments, **options)
