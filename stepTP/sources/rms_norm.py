"""Root-mean-square and L2 normalisation, alone and before a projection."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_AFTER = {
    "weight": "x * self.weight",
    "offset_weight": "x * (1.0 + self.weight)",
    "projection": "torch.matmul(x * self.weight, self.projection)",
    "gate": "x * self.weight * torch.sigmoid(x)",
}


def write(draw: Draw) -> str:
    """Divide by the root of the mean (or sum) of squares, weigh, and perhaps project."""
    batch = draw.choose("batch", (2, 4, 6, 8))
    tokens = draw.choose("tokens", (4, 6, 8, 12, 16))
    features = draw.choose("features", (8, 16, 24, 32, 48, 64))
    measure = draw.choose("measure", ("mean", "sum"))
    epsilon = draw.choose("epsilon", (1e-6, 1e-5))
    after = draw.choose("after", tuple(_AFTER))
    projection = ""
    if after == "projection":
        width = draw.choose("width", (4, 8, 16))
        projection = f"\n        self.projection = nn.Parameter(torch.randn(features, {width}) * features**-0.5)"
    return f'''import torch
import torch.nn as nn

batch_size = {batch}
tokens = {tokens}
features = {features}
epsilon = {epsilon}


class Model(nn.Module):
    """Normalises by the {"root mean square" if measure == "mean" else "Euclidean length"} of each token."""

    def __init__(self, features, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(features)){projection}

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).{measure}(dim=-1, keepdim=True) + self.epsilon)
        return {_AFTER[after]}


def get_inputs():
    return [torch.randn(batch_size, tokens, features)]


def get_init_inputs():
    return [features, epsilon]
'''


FAMILY = Family("rms_norm", "root-mean-square and L2 normalisation", write)
