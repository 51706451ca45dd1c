"""Two-dimensional convolutions with their usual neighbours."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_AFTER = {
    "relu": ["return F.relu(x)"],
    "silu_scale": ["return F.silu(x) * 2.0"],
    "residual": ["return F.relu(x + self.skip(inputs))"],
    "max_pool": ["return F.max_pool2d(F.relu(x), kernel_size=2)"],
    "avg_pool": ["return F.avg_pool2d(torch.tanh(x), kernel_size=2)"],
    "global_mean": ["return F.relu(x).mean(dim=(2, 3))"],
    "leaky_bias": ["x = F.leaky_relu(x, negative_slope=0.01)", "return x + self.bias"],
}


def write(draw: Draw) -> str:
    """One convolution (stride, padding, dilation, groups), then an activation, pooling or a skip."""
    batch = draw.choose("batch", (1, 2))
    channels = draw.choose("in_channels", (2, 4, 6))
    filters = draw.choose("out_channels", (4, 6, 8))
    size = draw.choose("size", (8, 10, 12, 14, 16))
    kernel = draw.choose("kernel_size", (1, 3, 3, 5))
    stride = draw.choose("stride", (1, 1, 2))
    groups = draw.choose("groups", (1, 1, 2))
    bias = draw.choose("bias", (True, False))
    after = draw.choose("after", tuple(_AFTER))
    dilates = after != "residual" and 2 * (kernel - 1) + 1 <= size // 2
    dilation = draw.choose("dilation", (1, 1, 2) if dilates else (1,))
    padding = draw.choose("padding", (kernel // 2,) if after == "residual" else (0, 1, 2))
    extra = {
        "residual": "\n        self.skip = nn.Conv2d(in_channels, out_channels, 1, stride=stride)",
        "leaky_bias": "\n        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))",
    }.get(after, "")
    body = "\n        ".join(_AFTER[after])
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
in_channels = {channels}
out_channels = {filters}
size = {size}
kernel_size = {kernel}
stride = {stride}


class Model(nn.Module):
    """A convolution and what follows it."""

    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super().__init__()
        self.conv = nn.Conv2d(
            in_channels, out_channels, kernel_size, stride=stride,
            padding={padding}, dilation={dilation}, groups={groups}, bias={bias},
        ){extra}

    def forward(self, inputs):
        x = self.conv(inputs)
        {body}


def get_inputs():
    return [torch.randn(batch_size, in_channels, size, size)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride]
'''


FAMILY = Family("conv_block", "a 2-d convolution with activation, pooling or skip connection", write)
