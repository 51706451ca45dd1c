"""A self-attention layer with its projections."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw


def write(draw: Draw) -> str:
    """Projections, heads, attention, and perhaps an output projection."""
    batch = draw.choose("batch", (1, 2))
    tokens = draw.choose("tokens", (4, 6, 8, 12, 16))
    heads = draw.choose("heads", (1, 2, 4))
    width = draw.choose("head_width", (4, 8))
    causal = draw.choose("causal", (False, True))
    joint = draw.choose("joint_projection", (True, False))
    output = draw.choose("output_projection", (True, False))
    if joint:
        layers = ["self.qkv = nn.Linear(features, 3 * features, bias=False)"]
        project = [
            "qkv = self.qkv(x).view(batch, tokens, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)",
            "query, key, value = qkv[0], qkv[1], qkv[2]",
        ]
    else:
        layers = [f"self.{name} = nn.Linear(features, features)" for name in ("query", "key", "value")]
        project = [
            f"{name} = self.{name}(x).view(batch, tokens, self.heads, self.width).transpose(1, 2)"
            for name in ("query", "key", "value")
        ]
    if output:
        layers.append("self.output = nn.Linear(features, features)")
    result = "self.output(x)" if output else "x"
    setup, forward = "\n        ".join(layers), "\n        ".join(project)
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
tokens = {tokens}
heads = {heads}
features = {heads * width}


class Model(nn.Module):
    """Multi-head self-attention{" that looks back only" if causal else ""}."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.width = features // heads
        {setup}

    def forward(self, x):
        batch, tokens, features = x.shape
        {forward}
        x = F.scaled_dot_product_attention(query, key, value, is_causal={causal})
        x = x.transpose(1, 2).reshape(batch, tokens, features)
        return {result}


def get_inputs():
    return [torch.randn(batch_size, tokens, features)]


def get_init_inputs():
    return [features, heads]
'''


FAMILY = Family("self_attention", "a self-attention layer with its projections", write)
