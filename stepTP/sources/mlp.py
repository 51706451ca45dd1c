"""Multi-layer perceptrons, plain and gated."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_HEADER = """import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
features = {features}
hidden = {hidden}
"""

_FOOTER = """

def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, hidden]
"""


def write(draw: Draw) -> str:
    """Two layers with an activation between them, or a gate and a value branch."""
    batch = draw.choose("batch", (4, 6, 8, 12, 16))
    features = draw.choose("features", (8, 12, 16, 24, 32))
    hidden = draw.choose("hidden", (16, 20, 32, 40, 48))
    activation = draw.choose("activation", ("F.relu", "F.gelu", "F.silu", "torch.tanh", "torch.sigmoid"))
    kind = draw.choose("kind", ("plain", "gated", "residual"))
    header = _HEADER.format(batch=batch, features=features, hidden=hidden)
    if kind == "gated":
        model = f'''

class Model(nn.Module):
    """A gated feed-forward layer: the value branch is weighted by an activated gate."""

    def __init__(self, features, hidden):
        super().__init__()
        self.gate = nn.Linear(features, hidden, bias=False)
        self.value = nn.Linear(features, hidden, bias=False)
        self.output = nn.Linear(hidden, features, bias=False)

    def forward(self, x):
        return self.output({activation}(self.gate(x)) * self.value(x))
'''
    else:
        result = "x + self.down(h)" if kind == "residual" else "self.down(h)"
        model = f'''

class Model(nn.Module):
    """A feed-forward layer: up, activation, down."""

    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        h = {activation}(self.up(x))
        return {result}
'''
    return header + model + _FOOTER


FAMILY = Family("mlp", "feed-forward layers: plain, gated, residual", write)
