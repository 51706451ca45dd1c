import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
num_groups = 256


class Model(nn.Module):
    """A linear layer, group normalisation, and Swish before and after a learned factor."""

    def __init__(self, in_features, out_features, num_groups):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(num_groups, out_features)
        self.factor = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        x = self.norm(self.linear(x))
        x = x * torch.sigmoid(x) * self.factor
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, num_groups]
