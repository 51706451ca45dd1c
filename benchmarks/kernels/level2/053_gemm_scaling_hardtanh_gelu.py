import torch
import torch.nn as nn

batch_size = 2048
in_features = 8192
out_features = 8192
scaling_factor = 0.5
low = -2
high = 2


class Model(nn.Module):
    """A linear layer, a scaling, a clamp and GELU."""

    def __init__(self, in_features, out_features, scaling_factor, low, high):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor
        self.clamp = nn.Hardtanh(min_val=low, max_val=high)
        self.activation = nn.GELU()

    def forward(self, x):
        return self.activation(self.clamp(self.linear(x) * self.scaling_factor))


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, scaling_factor, low, high]
