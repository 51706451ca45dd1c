import torch
import torch.nn as nn

batch_size = 128
rows = 512
inner = 1024
columns = 2048


class Model(nn.Module):
    """A product for each pair of matrices in two batches."""

    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.rand(batch_size, rows, inner), torch.rand(batch_size, inner, columns)]


def get_init_inputs():
    return []
