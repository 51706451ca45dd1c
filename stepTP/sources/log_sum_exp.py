"""Log-sum-exp chains: energies, soft maxima, mixtures of densities."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_FORWARD = {
    "soft_maximum": ["scores = x + weight", "top = scores.amax(dim=-1, keepdim=True)",
                     "return torch.log(torch.exp(scores - top).sum(dim=-1, keepdim=True)) + top"],
    "soft_minimum": ["costs = -x * weight", "top = costs.amax(dim=-1, keepdim=True)",
                     "return -(torch.log(torch.exp(costs - top).sum(dim=-1, keepdim=True)) + top)"],
    "mixture_density": ["logits = F.log_softmax(weight, dim=-1) - 0.5 * x * x",
                        "top = logits.amax(dim=-1, keepdim=True)",
                        "return torch.log(torch.exp(logits - top).sum(dim=-1, keepdim=True)) + top"],
    "free_energy": ["scaled = x * 0.5 + weight", "top = scaled.amax(dim=-1, keepdim=True)",
                    "energy = torch.exp(scaled - top)", "return energy / energy.sum(dim=-1, keepdim=True) * x"],
    "confidence": ["return torch.softmax(x, dim=-1).amax(dim=-1) - torch.softmax(x + weight, dim=-1).amin(dim=-1)"],
}  # fmt: skip


def write(draw: Draw) -> str:
    """A shifted exponential sum over the last axis and what is made of it."""
    batch = draw.choose("batch", (4, 8, 12, 16))
    rows = draw.choose("rows", (2, 4, 6, 8))
    components = draw.choose("components", (6, 8, 12, 16, 24, 32))
    body = "\n        ".join(_FORWARD[draw.choose("form", tuple(_FORWARD))])
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
rows = {rows}
components = {components}


class Model(nn.Module):
    """Sums of exponentials, shifted by their maximum."""

    def forward(self, x, weight):
        {body}


def get_inputs():
    return [torch.randn(batch_size, rows, components), torch.randn(rows, components)]


def get_init_inputs():
    return []
'''


FAMILY = Family("log_sum_exp", "shifted sums of exponentials", write)
