import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 16384
in_features = 4096
out_features = 4096
num_groups = 16


class Model(nn.Module):
    """A linear layer, batch normalisation, GELU, group normalisation, the mean of each row and ReLU."""

    def __init__(self, in_features, out_features, num_groups):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.batch_norm = nn.BatchNorm1d(out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.weight = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        x = F.gelu(self.batch_norm(self.linear(x)))
        x = self.group_norm(x) * self.weight
        return torch.relu(torch.mean(x, dim=1, keepdim=True))


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, num_groups]
