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
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_map_only, tree_unflatten

from leir.edit import accesses
from leir.names import tensor_sequence
from leir.syntax import Declaration, Program
from stepTP.frontend.emitter import Emitter, UnsupportedOp
from stepTP.frontend.expansion import LEFT_OVER, decompositions, expand
from stepTP.frontend.networks import networks_by_shape
from stepTP.frontend.ops import shape
from stepTP.frontend.rolling import rolled
from stepTP.frontend.scans import scans_in_order
from stepTP.frontend.segments import Kinds
from stepTP.frontend.table import TABLE
from stepTP.frontend.values import Buffer, constant

MOST_NESTS = 1_000  # of a program, once repetitions are loops

Inputs = tuple[Any, ...] | Mapping[str, Any]
"""What a module is called with: its arguments in order, or by name."""

_IGNORED_ARGUMENTS = ("layout", "device", "pin_memory", "memory_format", "non_blocking")
_UPDATES = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION)
_WITHOUT_EFFECT = ("aten._assert_tensor_metadata.default", "aten._assert_async.msg", "aten._assert_scalar.default")


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
        if _is_left_over(node):
            node.meta[LEFT_OVER] = True
    if all(node.op != "call_function" or _is_known(node.target) for node in exported.graph.nodes):
        return exported
    with torch.no_grad(), networks_by_shape(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec.* is deprecated", FutureWarning)  # PyTorch's own use of it
        if expand(exported, _is_known):
            return exported
        return exported.run_decompositions(dict(decompositions()))


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
        self.nodes = _live_nodes(exported)
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
                f"{len(program.body)} nests, more than {MOST_NESTS}: forward has a loop whose turns differ, which is "
                "written out"
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
        return tuple(sorted(spec.target or "" for spec in specs if spec.kind in _UPDATES))

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
        places = _output_names(self.exported)
        offset = len(specs) - len(places)
        returned: list[tuple[torch.fx.Node, Buffer]] = []
        for number, spec in enumerate(specs):
            e.node = self.by_name.get(getattr(spec.arg, "name", ""), self.last)
            if spec.kind in _UPDATES:
                continue
            if spec.kind != OutputKind.USER_OUTPUT:
                e.refuse(f"an output of the kind {spec.kind.name}")
            if not isinstance(spec.arg, TensorArgument):
                continue
            buffer = Buffer(next(names), e.shape(), e.dtype())
            self.names[buffer.name] = places[number - offset]
            returned.append((e.node, buffer))
            e.outputs.setdefault(_origin(e.node), buffer)
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
            e.refuse(_missing(node.target, name))
        if isinstance(node.meta["val"], torch.Tensor):
            if 0 in e.shape():
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


def _live_nodes(exported: ExportedProgram) -> list[torch.fx.Node]:
    """The nodes that what `forward` returns is computed from, and what it computes and never uses, in order.

    Left out is what only changes buffers or arguments. Where PyTorch decomposes the whole graph, it has left out what
    nothing uses.
    """
    specs = exported.graph_signature.output_specs
    returned = {s.arg.name for s in specs if s.kind not in _UPDATES and isinstance(s.arg, TensorArgument)}
    live: dict[torch.fx.Node, None] = {}
    for node in reversed(exported.graph.nodes):
        if node.name in returned or LEFT_OVER in node.meta or any(user in live for user in node.users):
            live[node] = None
    return [node for node in exported.graph.nodes if node in live]


def _is_left_over(node: torch.fx.Node) -> bool:
    """Whether nothing uses the tensor that a node computes from others: not one result of several."""
    computes = node.op == "call_function" and node.target is not operator.getitem and bool(node.all_input_nodes)
    return computes and not node.users and isinstance(node.meta.get("val"), torch.Tensor)


def _missing(target: Any, name: str) -> str:
    """Why there is no entry for an op."""
    if name in ("cond", "while_loop"):
        return "control flow that depends on the values of tensors"
    if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
        return "it draws random numbers"
    return "no entry in the table of ops"


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
