import torch
import torch.nn as nn

batch_size = 1024
input_size = 8192
hidden_size = 8192
num_groups = 512
eps = 1e-5
negative_slope = 0.01


class Model(nn.Module):
    """A linear layer, group normalisation, LeakyReLU, and the result added to itself."""

    def __init__(self, input_size, hidden_size, num_groups, eps, negative_slope):
        super().__init__()
        self.linear = nn.Linear(input_size, hidden_size)
        self.norm = nn.GroupNorm(num_groups, hidden_size, eps=eps)
        self.activation = nn.LeakyReLU(negative_slope)

    def forward(self, x):
        x = self.activation(self.norm(self.linear(x)))
        return x + x


def get_inputs():
    return [torch.rand(batch_size, input_size)]


def get_init_inputs():
    return [input_size, hidden_size, num_groups, eps, negative_slope]
