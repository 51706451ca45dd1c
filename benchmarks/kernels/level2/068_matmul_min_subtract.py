import torch
import torch.nn as nn

batch_size = 128
in_features = 16384
out_features = 16384
constant = 2.0


class Model(nn.Module):
    """A linear layer, the minimum with a learned number, and that number taken away."""

    def __init__(self, in_features, out_features, constant):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.constant = nn.Parameter(torch.tensor(constant))

    def forward(self, x):
        return torch.min(self.linear(x), self.constant) - self.constant


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, constant]
