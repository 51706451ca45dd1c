"""Ops without an entry, replaced one by one by what PyTorch makes of them.

`ExportedProgram.run_decompositions` traces the whole program again and takes ten times as long as its export; tracing
one op on the metadata of its arguments takes some milliseconds. The decompositions are the same.
"""

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from stepTP.frontend.table import TABLE

LEFT_OVER = "left_over"  # in a node's `meta`: the module computes it and never uses it
_KEPT_META = ("stack_trace", "nn_module_stack")


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions to core ops, without those of ops that have an entry."""
    table = torch.export.default_decompositions()
    table.update(get_decompositions([torch.ops.aten.grid_sampler_2d]))
    table[torch.ops.aten._pdist_forward.default] = _pairwise_distances
    for name in TABLE:
        _, op, overload = name.split(".")
        table.pop(getattr(getattr(torch.ops.aten, op), overload), None)
    return dict(table.items())


def _pairwise_distances(x: torch.Tensor, p: float = 2) -> torch.Tensor:
    """Those of `_cdist_forward` above the diagonal, row by row."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1).unbind()
    return torch.cdist(x, x, p)[first, second]


def expand(exported: ExportedProgram, is_known: Callable[[Any], bool]) -> bool:
    """Replaces, in place, the ops that are not known. False, and nothing changed, where that takes the whole graph:
    an op that changes its argument, a size that depends on data, an op that comes to others that are not known."""
    nodes = list(exported.graph.nodes)
    unknown = [node for node in nodes if node.op == "call_function" and not is_known(node.target)]
    if any(isinstance(leaf, torch.SymInt) for node in nodes for leaf in _sizes(node)):
        return False
    if not all(isinstance(node.target, OpOverload) and not _changes_arguments(node) for node in unknown):
        return False
    traced: list[torch.fx.Graph] = []
    for node in unknown:
        if not any(isinstance(value, torch.Tensor) for value in tree_leaves(node.meta.get("val"))):
            return False
        graph = _traced(node)
        if any(n.op == "get_attr" or (n.op == "call_function" and not is_known(n.target)) for n in graph.nodes):
            return False
        traced.append(graph)
    for node, graph in zip(unknown, traced, strict=True):
        _inline(exported, node, graph)
    return True


def _sizes(node: torch.fx.Node) -> list[Any]:
    values = tree_leaves(node.meta.get("val"))
    return [size for v in values for size in (v.shape if isinstance(v, torch.Tensor) else (v,))]


def _traced(node: torch.fx.Node) -> torch.fx.Graph:
    """The core ops that the op comes to: a placeholder for each of `node.all_input_nodes`, and its results."""
    sources = node.all_input_nodes

    def call(*tensors: torch.Tensor) -> Any:
        given = dict(zip(sources, tensors, strict=True))
        arguments, options = map_arg((node.args, node.kwargs), given.__getitem__)
        return node.target(*arguments, **options)  # pyright: ignore[reportCallIssue]

    inputs = [source.meta["val"] for source in sources]
    results = [v for v in tree_leaves(node.meta["val"]) if isinstance(v, torch.Tensor)]
    with torch.no_grad(), results[0].fake_mode:  # pyright: ignore[reportAttributeAccessIssue]
        module = make_fx(call, decomposition_table=decompositions())(*inputs)
        if any(_changes_arguments(inner) for inner in module.graph.nodes):
            module = make_fx(torch.func.functionalize(module), decomposition_table=decompositions())(*inputs)
    return module.graph


def _changes_arguments(node: torch.fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _inline(exported: ExportedProgram, node: torch.fx.Node, graph: torch.fx.Graph) -> None:
    copies: dict[torch.fx.Node, Any] = {}
    sources = iter(node.all_input_nodes)
    results: Any = None
    with exported.graph.inserting_before(node):
        for inner in graph.nodes:
            if inner.op == "placeholder":
                copies[inner] = next(sources)
            elif inner.op == "output":
                results = map_arg(inner.args[0], copies.__getitem__)
            else:
                copies[inner] = exported.graph.node_copy(inner, copies.__getitem__)
                copies[inner].meta |= {key: node.meta[key] for key in _KEPT_META if key in node.meta}
    if isinstance(results, torch.fx.Node):
        results.meta |= {key: value for key, value in node.meta.items() if key == LEFT_OVER}
        _replace(exported, node, results)
        return
    for user in list(node.users):
        if user.target is operator.getitem:
            _replace(exported, user, results[user.args[1]])
    exported.graph.erase_node(node)


def _replace(exported: ExportedProgram, old: torch.fx.Node, new: torch.fx.Node) -> None:
    old.replace_all_uses_with(new)
    exported.graph_signature.replace_all_uses(old.name, new.name)
    exported.graph.erase_node(old)
