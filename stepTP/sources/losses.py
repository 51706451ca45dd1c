"""Training losses over a batch."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_FORWARD = {
    "cross_entropy": ["log_probabilities = F.log_softmax(prediction, dim=-1)",
                      "return -(torch.softmax(target, dim=-1) * log_probabilities).sum(dim=-1)"],
    "smoothed_cross_entropy": ["log_probabilities = torch.log_softmax(prediction, dim=-1)",
                               "return -(torch.sigmoid(target) * log_probabilities).sum(dim=-1).mean(dim=-1)"],
    "divergence": ["log_p = F.log_softmax(target, dim=-1)", "log_q = F.log_softmax(prediction, dim=-1)",
                   "return (torch.exp(log_p) * (log_p - log_q)).sum(dim=-1)"],
    "huber": ["error = torch.abs(prediction - target)", "quadratic = 0.5 * error * error",
              "return torch.where(error < 1.0, quadratic, error - 0.5).mean(dim=-1)"],
    "mean_squared": ["return (prediction - target).pow(2).mean(dim=(1, 2))"],
    "cosine": ["product = (prediction * target).sum(dim=-1)",
               "lengths = torch.sqrt((prediction * prediction).sum(dim=-1) * (target * target).sum(dim=-1) + 1e-6)",
               "return 1.0 - product / lengths"],
    "hinge": ["margin = 1.0 - prediction * torch.tanh(target)", "return F.relu(margin).sum(dim=-1)"],
}  # fmt: skip


def write(draw: Draw) -> str:
    """A loss of predictions against targets, summed over classes."""
    batch = draw.choose("batch", (4, 8, 12, 16))
    tokens = draw.choose("tokens", (2, 4, 6, 8))
    classes = draw.choose("classes", (6, 8, 10, 16, 24, 32))
    body = "\n        ".join(_FORWARD[draw.choose("loss", tuple(_FORWARD))])
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
tokens = {tokens}
classes = {classes}


class Model(nn.Module):
    """A loss between predictions and targets."""

    def forward(self, prediction, target):
        {body}


def get_inputs():
    shape = (batch_size, tokens, classes)
    return [torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return []
'''


FAMILY = Family("losses", "losses of predictions against targets", write)
