import torch
import torch.nn as nn

batch_size = 16384
input_size = 2048
hidden_size = 4096
output_size = 1024


class Model(nn.Module):
    """A linear layer, sigmoid, another linear layer, and the log-sum-exp of its rows' sums."""

    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.first = nn.Linear(input_size, hidden_size)
        self.second = nn.Linear(hidden_size, output_size)

    def forward(self, x):
        x = self.second(torch.sigmoid(self.first(x)))
        return torch.logsumexp(torch.sum(x, dim=1), dim=0)


def get_inputs():
    return [torch.rand(batch_size, input_size)]


def get_init_inputs():
    return [input_size, hidden_size, output_size]
