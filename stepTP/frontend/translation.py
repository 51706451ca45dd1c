"""A PyTorch module to LEIR: `torch.export`, decompositions but for the ops of the table, one entry a node."""

import operator
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, TensorArgument
from torch.fx.node import map_arg
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_unflatten

from leir.names import tensor_sequence
from leir.syntax import Declaration, Program
from stepTP.frontend.emitter import Emitter
from stepTP.frontend.ops import shape
from stepTP.frontend.table import TABLE
from stepTP.frontend.values import Buffer, constant

_IGNORED_ARGUMENTS = ("layout", "device", "pin_memory", "memory_format", "non_blocking")
_WITHOUT_EFFECT = ("aten._assert_tensor_metadata.default", "aten._assert_async.msg", "aten._assert_scalar.default")


@dataclass(frozen=True, slots=True)
class Translation:
    """A program with what its names stand for.

    `names`: of every input and output, in the order of the signature, what it is in the module: an argument of
    `forward`, a parameter or buffer by its path, `output` or `output.<place>`. `user_inputs` are the tensors among the
    arguments, in order; `constants` are the values of all other inputs, an array each. `ops` counts the entries.
    """

    program: Program
    names: dict[str, str]
    user_inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, np.ndarray]
    ops: dict[str, int]


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
        super().__init__(f"torch.export fails: {self.reason}" + (f" ({self.line})" if self.line else ""))


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values as LEIR's engines take them: bf16 as float32 arrays."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()


def translate(module: torch.nn.Module, inputs: tuple[Any, ...]) -> Translation:
    """The module, called with `inputs`, as a program in the plain form: every loop serial, one op after the other.

    Shapes are those of `inputs`. The module is taken in the mode it is in. Raises UnsupportedOp and ExportFailed.
    """
    return translate_exported(export(module, inputs))


def export(module: torch.nn.Module, inputs: tuple[Any, ...]) -> ExportedProgram:
    """The functional graph of ops of the table, and of core ATen ops where it has none."""
    try:
        with torch.no_grad():
            exported = torch.export.export(module, inputs)
    except Exception as error:  # tracing runs the module's own code, which may raise anything
        raise ExportFailed(error) from error
    if all(node.op != "call_function" or _is_known(node.target) for node in exported.graph.nodes):
        return exported
    table = torch.export.default_decompositions()
    for name in TABLE:
        _, op, overload = name.split(".")
        packet = getattr(torch.ops.aten, op)
        table.pop(getattr(packet, overload), None)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec.* is deprecated", FutureWarning)  # PyTorch's own use of it
        return exported.run_decompositions(table)


def _is_known(target: Any) -> bool:
    return target is operator.getitem or str(target) in TABLE or str(target) in _WITHOUT_EFFECT


def bind(translation: Translation, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
    """The program's inputs by name: the tensors among `inputs`, in order, and the constants."""
    tensors = [as_array(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    return dict(zip(translation.user_inputs, tensors, strict=True)) | translation.constants


def translate_exported(exported: ExportedProgram) -> Translation:
    """The program of an exported graph. Raises UnsupportedOp."""
    return _Translator(exported).translation()


class _Translator:
    def __init__(self, exported: ExportedProgram) -> None:
        self.exported = exported
        self.nodes = list(exported.graph.nodes)
        self.by_name = {node.name: node for node in self.nodes}
        self.values: dict[torch.fx.Node, Any] = {}
        self.names: dict[str, str] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.emitter = Emitter()

    def translation(self) -> Translation:
        names = tensor_sequence()
        inputs, user_inputs = self.declare_inputs(names)
        returned = self.declare_outputs(names)
        outputs = [Declaration(buffer.name, buffer.dtype, buffer.shape) for _, buffer in returned]
        for node in self.nodes:
            if node.op not in ("placeholder", "output") and (node.users or node.op == "get_attr"):
                self.values[node] = self.emit(node)
        for node, buffer in returned:
            if buffer.name not in self.emitter.written:
                self.emitter.node = node
                self.emitter.copied(self.values[node], buffer)
        return Translation(
            Program(tuple(inputs), tuple(outputs), tuple(self.emitter.statements)),
            self.names,
            tuple(user_inputs),
            tuple(declaration.tensor for declaration in outputs),
            self.constants,
            dict(sorted(self.emitter.ops.items())),
        )

    def declare_inputs(self, names: Iterator[str]) -> tuple[list[Declaration], list[str]]:
        """User inputs in the order of `forward`, then the parameters and buffers that are read, by first use."""
        e = self.emitter
        declarations: list[Declaration] = []
        user_inputs: list[str] = []
        specs = {spec.arg.name: spec for spec in self.exported.graph_signature.input_specs}
        given = [spec for spec in specs.values() if spec.kind == InputKind.USER_INPUT]
        read = [specs[node.name] for node in self.placeholders_by_use() if specs[node.name] not in given]
        for spec in (*given, *read):
            if isinstance(spec.arg, ConstantArgument):
                continue
            node = e.node = self.by_name[spec.arg.name]
            tensor = self.stored(spec)
            if spec.kind == InputKind.CONSTANT_TENSOR and tensor is not None and tensor.dim() == 0:
                number = tensor.item()
                if not isnan(number):
                    self.values[node] = constant(number, (), e.dtype())
                    continue
            name = next(names)
            buffer = Buffer(name, e.shape(), e.dtype())
            self.values[node] = buffer.value
            declarations.append(Declaration(name, buffer.dtype, buffer.shape))
            self.names[name] = spec.target or node.name
            if tensor is None:
                user_inputs.append(name)
            else:
                self.constants[name] = as_array(tensor)
                if not tensor.is_floating_point() and bool((tensor < 0).any()):
                    e.with_negatives.add(name)
        e.inputs = frozenset(self.names)
        return declarations, user_inputs

    def placeholders_by_use(self) -> list[torch.fx.Node]:
        order: dict[torch.fx.Node, None] = {}
        for node in self.nodes:
            if node.op != "placeholder":
                order |= dict.fromkeys(source for source in node.all_input_nodes if source.op == "placeholder")
        return list(order)

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
        places = _output_names(self.exported)
        offset = len(specs) - len(places)
        returned: list[tuple[torch.fx.Node, Buffer]] = []
        for number, spec in enumerate(specs):
            e.node = self.by_name.get(spec.arg.name, self.nodes[-1]) if hasattr(spec.arg, "name") else self.nodes[-1]
            if spec.kind != OutputKind.USER_OUTPUT:
                e.refuse(f"the module changes {spec.target} in place")
            if not isinstance(spec.arg, TensorArgument):
                continue
            buffer = Buffer(next(names), e.shape(), e.dtype())
            self.names[buffer.name] = places[number - offset]
            returned.append((e.node, buffer))
            e.outputs.setdefault(_origin(e.node), buffer)
        if not returned:
            e.node = self.nodes[-1]
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
            e.refuse("no entry in the table of ops")
        if isinstance(node.meta["val"], torch.Tensor):
            if any(isinstance(size, torch.SymInt) for size in node.meta["val"].shape):
                e.refuse("the shape of its result depends on data")
            if 0 in node.meta["val"].shape:
                e.refuse("a tensor without elements")
            e.dtype()
        if any(isinstance(leaf, float) and isnan(leaf) for leaf in tree_leaves((node.args, node.kwargs))):
            e.refuse("LEIR has no literal for NaN")
        arguments = map_arg(node.args, self.values.__getitem__)
        options = {
            k: map_arg(v, self.values.__getitem__) for k, v in node.kwargs.items() if k not in _IGNORED_ARGUMENTS
        }
        e.ops[name] += 1
        return TABLE[name](e, *arguments, **options)


def _origin(node: Any) -> tuple[str, int]:
    """The node that computes what `node` passes on unchanged, and which of its results it is."""
    while node.op == "call_function":
        name = str(node.target)
        if node.target is operator.getitem:
            return node.args[0].name, node.args[1]
        same_tensor = TABLE.get(name) is shape.same
        if not same_tensor and not (TABLE.get(name) is shape.view and _same_metadata(node, node.args[0])):
            break
        node = node.args[0]
    return node.name, 0


def _same_metadata(node: torch.fx.Node, other: torch.fx.Node) -> bool:
    return node.meta["val"].shape == other.meta["val"].shape


def _output_names(exported: ExportedProgram) -> list[str]:
    """`output`, or `output.<place>` for a tensor in a tuple, list or dict."""
    spec = exported.call_spec.out_spec
    assert spec is not None
    tree = tree_unflatten([0] * spec.num_leaves, spec)
    paths, _ = tree_flatten_with_path(tree)
    return [
        ".".join(["output", *(str(getattr(key, "idx", getattr(key, "key", key))) for key in path)]) for path, _ in paths
    ]
