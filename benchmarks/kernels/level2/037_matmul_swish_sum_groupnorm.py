import torch
import torch.nn as nn

batch_size = 32768
in_features = 1024
out_features = 4096
num_groups = 64


class Model(nn.Module):
    """A linear layer, Swish, a bias and group normalisation."""

    def __init__(self, in_features, out_features, num_groups):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.norm = nn.GroupNorm(num_groups, out_features)

    def forward(self, x):
        x = self.linear(x)
        x = torch.sigmoid(x) * x + self.bias
        return self.norm(x)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, num_groups]
