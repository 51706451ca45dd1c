"""Layer normalisation and its neighbours."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_FORWARD = {
    "post_residual": ["return self.norm(x) + residual"],
    "residual": ["return self.norm(x + residual)"],
    "pre_activation": ["return F.gelu(self.norm(x)) + residual"],
    "scaled": ["return self.norm(x * 0.5 + residual) * 2.0"],
    "pooled": ["x = self.norm(x + residual)", "return x.mean(dim=1)"],
}


def write(draw: Draw) -> str:
    """A layer norm over the last axis, with a residual before or after."""
    batch = draw.choose("batch", (2, 4, 6, 8))
    tokens = draw.choose("tokens", (4, 6, 8, 12, 16))
    features = draw.choose("features", (8, 12, 16, 24, 32, 48, 64))
    affine = draw.choose("affine", (True, True, False))
    body = "\n        ".join(_FORWARD[draw.choose("forward", tuple(_FORWARD))])
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
tokens = {tokens}
features = {features}


class Model(nn.Module):
    """Normalises every token and joins a residual branch."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features, elementwise_affine={affine})

    def forward(self, x, residual):
        {body}


def get_inputs():
    shape = (batch_size, tokens, features)
    return [torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [features]
'''


FAMILY = Family("layer_norm", "layer normalisation with residuals and pooling", write)
