import torch
import torch.nn as nn

rows = 32768
columns = 32768
inner = 64


class Model(nn.Module):
    """A product with many results, each over a short inner dimension."""

    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(rows, inner), torch.rand(inner, columns)]


def get_init_inputs():
    return []
