"""Questions about an exported graph that need no translation of it."""

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from stepTP.frontend.expansion import LEFT_OVER
from stepTP.frontend.ops import shape
from stepTP.frontend.table import TABLE

IGNORED_ARGUMENTS = ("layout", "device", "pin_memory", "memory_format", "non_blocking")
UPDATES = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION)


def is_empty(node: torch.fx.Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and 0 in value.shape


def live_nodes(exported: ExportedProgram) -> list[torch.fx.Node]:
    """The nodes that what `forward` returns is computed from, and what it computes and never uses, in order.

    Left out is what only changes buffers or arguments. Where PyTorch decomposes the whole graph, it has left out what
    nothing uses.
    """
    specs = exported.graph_signature.output_specs
    returned = {s.arg.name for s in specs if s.kind not in UPDATES and isinstance(s.arg, TensorArgument)}
    live: dict[torch.fx.Node, None] = {}
    for node in reversed(exported.graph.nodes):
        if node.name in returned or LEFT_OVER in node.meta or any(user in live for user in node.users):
            live[node] = None
    return [node for node in exported.graph.nodes if node in live]


def is_left_over(node: torch.fx.Node) -> bool:
    """Whether nothing uses the tensor that a node computes from others: not one result of several."""
    computes = node.op == "call_function" and node.target is not operator.getitem and bool(node.all_input_nodes)
    return computes and not node.users and isinstance(node.meta.get("val"), torch.Tensor)


def computed(node: torch.fx.Node) -> torch.Tensor:
    """What an op without tensors among its arguments returns."""
    assert callable(node.target)
    return node.target(*node.args, **{k: v for k, v in node.kwargs.items() if k not in IGNORED_ARGUMENTS})


def missing(target: Any, name: str) -> str:
    """Why there is no entry for an op."""
    if name in ("cond", "while_loop"):
        return "control flow that depends on the values of tensors"
    if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
        return "it draws random numbers"
    return "no entry in the table of ops"


def origin(node: Any) -> tuple[str, int]:
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


def output_names(exported: ExportedProgram) -> list[str]:
    """`output`, or `output.<place>` for a tensor in a tuple, list or dict."""
    spec = exported.call_spec.out_spec
    assert spec is not None
    tree = tree_unflatten([0] * spec.num_leaves, spec)
    paths, _ = tree_flatten_with_path(tree)
    return [
        ".".join(["output", *(str(getattr(key, "idx", getattr(key, "key", key))) for key in path)]) for path, _ in paths
    ]
