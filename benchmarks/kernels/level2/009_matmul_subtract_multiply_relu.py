import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
subtract_value = 0.1
multiply_value = 1.5


class Model(nn.Module):
    """A linear layer, a number taken away, a scaling and ReLU."""

    def __init__(self, in_features, out_features, subtract_value, multiply_value):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.subtract_value = subtract_value
        self.multiply_value = multiply_value

    def forward(self, x):
        return torch.relu((self.linear(x) - self.subtract_value) * self.multiply_value)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, subtract_value, multiply_value]
