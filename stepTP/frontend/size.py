"""How much a module computes, told without data: it runs on PyTorch's `meta` device, which keeps shapes only."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from stepTP.frontend.source import LoadedSource, SourceError
from stepTP.frontend.translation import called

_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
MOST_OPS = 4000  # a run of so many takes seconds; DenseNet-201 has 1,600
_PASSES = {"softmax": 4, "norm": 5, "logsumexp": 4, "var": 3, "std": 3, "loss": 3, "gelu": 1}  # nests over the operand


class TooManyOps(Exception):
    """The module runs more ops than are worth counting."""


def estimate(load: Callable[[], LoadedSource]) -> int:
    """About how many loop iterations the translation of a source has. `load` builds it.

    Raises SourceError where it cannot be built or run without data, TooManyOps where that would take long.
    """
    counter = _Counter()
    with torch.device("meta"), torch.no_grad(), counter, _OneStep(counter):
        source = load()
        counter.iterations = counter.ops = 0  # what the module does as it is built is no part of it
        try:
            called(source.module, source.inputs)
        except TooManyOps:
            raise
        except Exception as error:  # the module's own code may raise anything
            reason = (str(error).strip() or "no message").splitlines()[0]
            raise SourceError(source.file, 0, f"forward raises {type(error).__name__}: {reason}") from error
    return counter.iterations


class _OneStep(TorchFunctionMode):
    """Recurrent layers run one step of their sequence, which counts for all."""

    def __init__(self, counter: "_Counter") -> None:
        super().__init__()
        self.counter = counter

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") not in _RECURRENT or not isinstance(args[-1], bool):
            return func(*args, **(kwargs or {}))
        sequence = 1 if args[-1] else 0
        steps = args[0].shape[sequence]
        before = self.counter.iterations
        output, *states = func(args[0].narrow(sequence, 0, 1), *args[1:], **(kwargs or {}))
        self.counter.iterations = before + steps * (self.counter.iterations - before)
        shape = [steps if axis == sequence else size for axis, size in enumerate(output.shape)]
        return (output.new_empty(shape), *states)


class _Counter(TorchDispatchMode):
    """Counts multiplications of products and convolutions, and the elements that other ops go over."""

    def __init__(self) -> None:
        super().__init__()
        self.iterations = 0
        self.ops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.ops += 1
        if self.ops > MOST_OPS:
            raise TooManyOps(f"more than {MOST_OPS} ops")
        self.iterations += _iterations(func, args, kwargs or {}, result)
        return result


def _iterations(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    if func.is_view:
        return 0
    name = func.overloadpacket.__name__
    written = _elements(result)
    if name == "convolution":  # a transposed one looks at every window of every output element, too
        x, weight, transposed, groups = args[0], args[1], args[6], args[8]
        window = prod(weight.shape[2:])
        return written * window * (x.shape[1] // groups if transposed else weight.shape[1])
    if func.overloadpacket in flop_registry:
        return int(flop_registry[func.overloadpacket](*args, **kwargs, out_val=result)) // 2
    if "pool" in name and "adaptive" not in name:
        return written * prod(size if isinstance(size := args[1], list) else [size])
    read = max((leaf.numel() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)), default=0)
    passes = max((times for part, times in _PASSES.items() if part in name), default=1)
    return passes * max(read, written)


def _elements(result: Any) -> int:
    return max((leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)), default=0)
