import torch
import torch.nn as nn

batch_size = 32768
features = 32768


class Model(nn.Module):
    """The hinge loss of scores and signs."""

    def forward(self, predictions, targets):
        return torch.mean(torch.clamp(1 - predictions * targets, min=0))


def get_inputs():
    return [torch.rand(batch_size, features), torch.randint(0, 2, (batch_size, features)).float() * 2 - 1]


def get_init_inputs():
    return []
