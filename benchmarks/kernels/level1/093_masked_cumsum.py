import torch
import torch.nn as nn

batch_size = 32768
length = 32768
dim = 1


class Model(nn.Module):
    """Running sums of the elements that a mask lets pass."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask):
        return torch.cumsum(x * mask, dim=self.dim)


def get_inputs():
    return [torch.rand(batch_size, length), torch.randint(0, 2, (batch_size, length)).bool()]


def get_init_inputs():
    return [dim]
