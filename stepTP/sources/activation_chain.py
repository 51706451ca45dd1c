"""Element-wise chains with broadcast operands, as they follow a matrix product or a convolution."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_ACTIVATIONS = {
    "relu": "F.relu(x)",
    "leaky_relu": "F.leaky_relu(x, negative_slope=0.1)",
    "gelu": "F.gelu(x)",
    "gelu_tanh": 'F.gelu(x, approximate="tanh")',
    "silu": "F.silu(x)",
    "sigmoid": "torch.sigmoid(x)",
    "tanh": "torch.tanh(x)",
}
_EPILOGUES = {
    "residual": "x + residual",
    "gate": "x * torch.sigmoid(residual)",
    "clamp": "torch.clamp(x + residual, min=-2.0, max=2.0)",
    "select": "torch.where(residual > 0, x, 0.5 * x)",
    "difference": "torch.abs(x - residual)",
}


def write(draw: Draw) -> str:
    """Scale and shift by channel, activate, combine with a residual of the same shape."""
    batch = draw.choose("batch", (4, 6, 8, 12, 16))
    channels = draw.choose("channels", (8, 16, 24, 32, 48, 64))
    length = draw.choose("length", (4, 8, 10, 16, 20))
    activation = _ACTIVATIONS[draw.choose("activation", tuple(_ACTIVATIONS))]
    epilogue = _EPILOGUES[draw.choose("epilogue", tuple(_EPILOGUES))]
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
channels = {channels}
length = {length}


class Model(nn.Module):
    """Scales and shifts each channel, applies an activation and combines the result with a residual."""

    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(1.0 + 0.1 * torch.randn(channels, 1))
        self.shift = nn.Parameter(0.1 * torch.randn(channels, 1))

    def forward(self, x, residual):
        x = x * self.scale + self.shift
        x = {activation}
        return {epilogue}


def get_inputs():
    shape = (batch_size, channels, length)
    return [torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [channels]
'''


FAMILY = Family("activation_chain", "scale, shift, activation and residual on one tensor", write)
