"""Tracing RNN, LSTM and GRU networks without running their steps: only the shapes of their results are wanted.

PyTorch traces such a network as one op, but runs its decomposition over all steps to learn what it returns, 12 ms a
step.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

_OPS = (
    torch.ops.aten.lstm.input,
    torch.ops.aten.gru.input,
    torch.ops.aten.rnn_tanh.input,
    torch.ops.aten.rnn_relu.input,
)


@contextmanager
def networks_by_shape() -> Iterator[None]:
    """While it is entered, networks that Python dispatches return empty tensors of the right shapes."""
    kept = [dict(op.py_kernels) for op in _OPS]
    for op in _OPS:
        op.py_kernels.update(dict.fromkeys(list(op.py_kernels), _empty))
        op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op, kernels in zip(_OPS, kept, strict=True):
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


def _empty(x: torch.Tensor, start: torch.Tensor | Sequence[torch.Tensor], *options: Any) -> tuple[torch.Tensor, ...]:
    """(outputs, last states): x (time, batch, input), or batch first; states (layers * directions, batch, size)."""
    states = [start] if isinstance(start, torch.Tensor) else list(start)
    bidirectional = options[-2]
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:2], width)), *(state.new_empty(state.shape) for state in states)
