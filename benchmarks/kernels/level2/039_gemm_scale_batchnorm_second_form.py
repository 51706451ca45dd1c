import torch
import torch.nn as nn

batch_size = 16384
in_features = 4096
out_features = 4096
eps = 1e-5
momentum = 0.1


class Model(nn.Module):
    """A linear layer, a learned scale and batch normalisation with settings of its own."""

    def __init__(self, in_features, out_features, eps, momentum):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = nn.Parameter(torch.randn(out_features))
        self.norm = nn.BatchNorm1d(out_features, eps=eps, momentum=momentum)

    def forward(self, x):
        return self.norm(self.linear(x) * self.scale)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, eps, momentum]
