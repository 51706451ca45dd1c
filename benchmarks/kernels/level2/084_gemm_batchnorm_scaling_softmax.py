import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
eps = 1e-5
momentum = 0.1


class Model(nn.Module):
    """A linear layer, batch normalisation, a learned number and softmax."""

    def __init__(self, in_features, out_features, eps, momentum):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.BatchNorm1d(out_features, eps=eps, momentum=momentum)
        self.scale = nn.Parameter(torch.ones(1))
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        return self.softmax(self.scale * self.norm(self.linear(x)))


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, eps, momentum]
