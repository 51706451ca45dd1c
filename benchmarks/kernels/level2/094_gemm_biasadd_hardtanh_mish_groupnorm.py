import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
num_groups = 256


class Model(nn.Module):
    """A linear layer, a bias, a clamp, Mish and group normalisation."""

    def __init__(self, in_features, out_features, num_groups):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.clamp = nn.Hardtanh()
        self.mish = nn.Mish()
        self.norm = nn.GroupNorm(num_groups, out_features)

    def forward(self, x):
        x = self.clamp(self.linear(x) + self.bias)
        return self.norm(self.mish(x))


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, num_groups]
