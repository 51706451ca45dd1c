import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
multiplier = 2.0
negative_slope = 0.1


class Model(nn.Module):
    """A linear layer, a scaling and LeakyReLU."""

    def __init__(self, in_features, out_features, multiplier, negative_slope):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.multiplier = multiplier
        self.activation = nn.LeakyReLU(negative_slope)

    def forward(self, x):
        return self.activation(self.linear(x) * self.multiplier)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, multiplier, negative_slope]
