"""Soft mixtures of experts: a softmax gate over small linear experts."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw


def write(draw: Draw) -> str:
    """All experts run; their results are weighted by the gate."""
    batch = draw.choose("batch", (4, 6, 8, 12))
    features = draw.choose("features", (8, 12, 16, 24))
    experts = draw.choose("experts", (4, 5, 6, 8))
    outputs = draw.choose("outputs", (4, 6, 8, 12, 16))
    activation = draw.choose("activation", ("torch.relu", "torch.tanh", "torch.sigmoid", "torch.nn.functional.silu"))
    temperature = draw.choose("temperature", (1.0, 0.5, 2.0))
    return f'''import torch
import torch.nn as nn

batch_size = {batch}
features = {features}
outputs = {outputs}
experts = {experts}


class Model(nn.Module):
    """A dense mixture of linear experts."""

    def __init__(self, features, outputs, experts):
        super().__init__()
        self.gate = nn.Linear(features, experts)
        self.weight = nn.Parameter(torch.randn(experts, features, outputs) * features**-0.5)
        self.temperature = {temperature}

    def forward(self, x):
        gate = torch.softmax(self.gate(x) / self.temperature, dim=-1)
        expert = {activation}(torch.matmul(x.unsqueeze(0), self.weight))
        return (gate.transpose(0, 1).unsqueeze(-1) * expert).sum(dim=0)


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, outputs, experts]
'''


FAMILY = Family("mixture", "dense mixtures of experts with a softmax gate", write)
