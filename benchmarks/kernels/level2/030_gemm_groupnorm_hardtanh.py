import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
num_groups = 16
low = -2.0
high = 2.0


class Model(nn.Module):
    """A linear layer, group normalisation and a clamp."""

    def __init__(self, in_features, out_features, num_groups, low, high):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(num_groups, out_features)
        self.clamp = nn.Hardtanh(low, high)

    def forward(self, x):
        return self.clamp(self.norm(self.linear(x)))


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, num_groups, low, high]
