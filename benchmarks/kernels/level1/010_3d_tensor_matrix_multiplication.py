import torch
import torch.nn as nn

batch_size = 16
rows = 1024
inner = 2048
columns = 768


class Model(nn.Module):
    """A tensor of rank 3 times a matrix."""

    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(batch_size, rows, inner), torch.rand(inner, columns)]


def get_init_inputs():
    return []
