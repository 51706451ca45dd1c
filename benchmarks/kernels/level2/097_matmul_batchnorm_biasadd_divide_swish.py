import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
eps = 1e-5
momentum = 0.1
divisor = 1.0


class Model(nn.Module):
    """A linear layer, batch normalisation, a learned number, a division and Swish."""

    def __init__(self, in_features, out_features, eps, momentum, divisor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.BatchNorm1d(out_features, eps=eps, momentum=momentum)
        self.bias = nn.Parameter(torch.randn(1))
        self.divisor = divisor

    def forward(self, x):
        x = (self.norm(self.linear(x)) + self.bias) / self.divisor
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, eps, momentum, divisor]
