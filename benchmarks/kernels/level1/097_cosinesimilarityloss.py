import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32768
features = 4096


class Model(nn.Module):
    """One minus the cosine between rows, averaged."""

    def forward(self, predictions, targets):
        return torch.mean(1 - F.cosine_similarity(predictions, targets, dim=1))


def get_inputs():
    return [torch.randn(batch_size, features), torch.randn(batch_size, features)]


def get_init_inputs():
    return []
