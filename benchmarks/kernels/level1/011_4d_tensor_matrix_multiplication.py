import torch
import torch.nn as nn

batch_size = 8
height = 256
width = 512
inner = 256
columns = 768


class Model(nn.Module):
    """A tensor of rank 4 times a matrix, as a contraction of its last dimension."""

    def forward(self, a, b):
        return torch.einsum("bijl,lk->bijk", a, b)


def get_inputs():
    return [torch.rand(batch_size, height, width, inner), torch.rand(inner, columns)]


def get_init_inputs():
    return []
