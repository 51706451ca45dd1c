import torch
import torch.nn as nn

long = 32768
short = 32


class Model(nn.Module):
    """A tall matrix times a wide one."""

    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(long, short), torch.rand(short, long)]


def get_init_inputs():
    return []
