"""Chains of matrix products: bilinear forms, low-rank updates, Gram matrices."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_FORWARD = {
    "bilinear": ["scores = torch.bmm(torch.matmul(a, self.weight), b.transpose(1, 2))", "return torch.tanh(scores)"],
    "low_rank": ["update = torch.matmul(torch.matmul(a, self.down), self.up)", "return b + 0.5 * update"],
    "gram": [
        "gram = torch.bmm(a, a.transpose(1, 2))",
        "return (gram + torch.bmm(b, b.transpose(1, 2))) / self.features",
    ],
    "projected_product": ["return torch.relu(torch.matmul(a, self.weight) * b + self.bias)"],
    "affinity": [
        "scores = torch.bmm(a, b.transpose(1, 2)) * self.scale",
        "return scores / (scores.abs().sum(dim=-1, keepdim=True) + 1.0)",
    ],
}
_STATE = {
    "bilinear": ["self.weight = nn.Parameter(torch.randn(features, features) * features**-0.5)"],
    "low_rank": ["self.down = nn.Parameter(torch.randn(features, rank) * features**-0.5)",
                 "self.up = nn.Parameter(torch.randn(rank, features) * rank**-0.5)"],
    "gram": ["self.features = features"],
    "projected_product": ["self.weight = nn.Parameter(torch.randn(features, features) * features**-0.5)",
                          "self.bias = nn.Parameter(torch.randn(features))"],
    "affinity": ["self.scale = features**-0.5"],
}  # fmt: skip


def write(draw: Draw) -> str:
    """Two batched operands, one or two products, and an element-wise end."""
    batch = draw.choose("batch", (2, 3, 4))
    rows = draw.choose("rows", (4, 6, 8, 12, 16))
    features = draw.choose("features", (8, 12, 16, 24, 32))
    form = draw.choose("form", tuple(_FORWARD))
    state, body = "\n        ".join(_STATE[form]), "\n        ".join(_FORWARD[form])
    arguments = "features, rank" if form == "low_rank" else "features"
    constant = f"rank = {draw.choose('rank', (2, 4, 6))}\n" if form == "low_rank" else ""
    return f'''import torch
import torch.nn as nn

batch_size = {batch}
rows = {rows}
features = {features}
{constant}

class Model(nn.Module):
    """Products of batched matrices."""

    def __init__(self, {arguments}):
        super().__init__()
        {state}

    def forward(self, a, b):
        {body}


def get_inputs():
    return [torch.randn(batch_size, rows, features), torch.randn(batch_size, rows, features)]


def get_init_inputs():
    return [{arguments}]
'''


FAMILY = Family("batched_matmul", "chains of batched matrix products", write)
