import torch
import torch.nn as nn

batch_size = 1024
input_size = 8192
hidden_size = 8192
scaling_factor = 2.0


class Model(nn.Module):
    """A linear layer, and its scaled sigmoid added to it."""

    def __init__(self, input_size, hidden_size, scaling_factor):
        super().__init__()
        self.linear = nn.Linear(input_size, hidden_size)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = self.linear(x)
        return torch.sigmoid(x) * self.scaling_factor + x


def get_inputs():
    return [torch.rand(batch_size, input_size)]


def get_init_inputs():
    return [input_size, hidden_size, scaling_factor]
