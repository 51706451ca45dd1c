"""Attention on given queries, keys and values: fused call or written out, causal or not."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_MASK = """
        self.register_buffer("allowed", torch.ones(queries, keys, dtype=torch.bool).tril())"""


def write(draw: Draw) -> str:
    """Single or several heads; the fused function, or scores, softmax and product as three lines."""
    batch = draw.choose("batch", (1, 2, 3))
    heads = draw.choose("heads", (1, 2, 4))
    queries = draw.choose("queries", (4, 8, 10, 16, 20))
    width = draw.choose("width", (4, 8, 12, 16))
    causal = draw.choose("causal", (False, True))
    form = draw.choose("form", ("fused", "written", "written"))
    keys = queries if causal else draw.choose("keys", (6, 8, 12, 16, 24))
    if form == "fused":
        setup, arguments = "", ""
        body = [f"return F.scaled_dot_product_attention(query, key, value, is_causal={causal})"]
    else:
        arguments = "queries, keys, width" if causal else "width"
        setup = f"""
    def __init__(self, {arguments}):
        super().__init__()
        self.scale = width**-0.5{_MASK if causal else ""}
"""
        body = ["scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale"]
        if causal:
            body.append("scores = torch.where(self.allowed, scores, -1e4)")
        body += ["weights = torch.softmax(scores, dim=-1)", "return torch.matmul(weights, value)"]
    lines = "\n        ".join(body)
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
heads = {heads}
queries = {queries}
keys = {keys}
width = {width}


class Model(nn.Module):
    """Scaled dot-product attention{" with a causal mask" if causal else ""}."""
{setup}
    def forward(self, query, key, value):
        {lines}


def get_inputs():
    return [
        torch.randn(batch_size, heads, queries, width),
        torch.randn(batch_size, heads, keys, width),
        torch.randn(batch_size, heads, keys, width),
    ]


def get_init_inputs():
    return [{arguments}]
'''


FAMILY = Family("attention", "scaled dot-product attention, fused or written out, causal or not", write)
