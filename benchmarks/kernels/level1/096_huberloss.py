import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32768
features = 32768


class Model(nn.Module):
    """The Huber loss: squares near zero, absolute values elsewhere."""

    def forward(self, predictions, targets):
        return F.smooth_l1_loss(predictions, targets)


def get_inputs():
    return [torch.rand(batch_size, features) * 3.0, torch.rand(batch_size, features)]


def get_init_inputs():
    return []
