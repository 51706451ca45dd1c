"""Weighted means of tokens, the weights from a softmax over learned scores."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_SCORES = {
    "linear": "torch.matmul(x, self.query)",
    "tanh": "torch.matmul(torch.tanh(x), self.query)",
    "scaled": "torch.matmul(x, self.query) * x.shape[-1] ** -0.5",
    "bounded": "torch.clamp(torch.matmul(x, self.query), min=-5.0, max=5.0)",
}
_RESULTS = {
    "sum": ["return (weights.unsqueeze(-1) * x).sum(dim=1)"],
    "centred": ["pooled = (weights.unsqueeze(-1) * x).sum(dim=1)", "return pooled - x.mean(dim=1)"],
    "product": ["return torch.matmul(weights.unsqueeze(1), x).squeeze(1)"],
    "entropy": ["return -(weights * torch.log(weights + 1e-6)).sum(dim=-1)"],
}


def write(draw: Draw) -> str:
    """Scores of tokens, their softmax, and what the weights are used for."""
    batch = draw.choose("batch", (2, 4, 6, 8))
    tokens = draw.choose("tokens", (4, 8, 10, 16, 24))
    features = draw.choose("features", (8, 12, 16, 24, 32))
    scores = _SCORES[draw.choose("scores", tuple(_SCORES))]
    body = "\n        ".join(_RESULTS[draw.choose("result", tuple(_RESULTS))])
    return f'''import torch
import torch.nn as nn

batch_size = {batch}
tokens = {tokens}
features = {features}


class Model(nn.Module):
    """Pools the tokens of a sequence with learned attention."""

    def __init__(self, features):
        super().__init__()
        self.query = nn.Parameter(torch.randn(features) * features**-0.5)

    def forward(self, x):
        weights = torch.softmax({scores}, dim=1)
        {body}


def get_inputs():
    return [torch.randn(batch_size, tokens, features)]


def get_init_inputs():
    return [features]
'''


FAMILY = Family("attention_pooling", "softmax-weighted means over tokens", write)
