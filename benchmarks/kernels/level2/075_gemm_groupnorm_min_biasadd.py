import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
num_groups = 512


class Model(nn.Module):
    """A linear layer, group normalisation, the minimum of each row, and a bias that spreads it again."""

    def __init__(self, in_features, out_features, num_groups):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(num_groups, out_features)
        self.bias = nn.Parameter(torch.randn(1, out_features, 1, 1))

    def forward(self, x):
        x = self.norm(self.linear(x))
        return torch.min(x, dim=1, keepdim=True)[0] + self.bias


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, num_groups]
