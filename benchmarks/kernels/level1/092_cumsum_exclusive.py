import torch
import torch.nn as nn

batch_size = 32768
length = 32768
dim = 1


class Model(nn.Module):
    """Running sums that leave their own element out: the first is zero."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        before = x.narrow(self.dim, 0, x.size(self.dim) - 1)
        zeros = torch.zeros_like(x.select(self.dim, 0).unsqueeze(self.dim))
        return torch.cumsum(torch.cat((zeros, before), dim=self.dim), dim=self.dim)


def get_inputs():
    return [torch.rand(batch_size, length)]


def get_init_inputs():
    return [dim]
