import torch
import torch.nn as nn

rows = 2048
inner = 8192
columns = 4096


class Model(nn.Module):
    """The product of a matrix that is stored transposed with another."""

    def forward(self, a, b):
        return torch.matmul(a.T, b)


def get_inputs():
    return [torch.rand(inner, rows), torch.rand(inner, columns)]


def get_init_inputs():
    return []
