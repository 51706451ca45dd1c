import torch
import torch.nn as nn

batch_size = 16
rows = 256
columns = 256
dim = 1


class Model(nn.Module):
    """Products over one dimension."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.prod(x, dim=self.dim)


def get_inputs():
    return [torch.rand(batch_size, rows, columns)]


def get_init_inputs():
    return [dim]
