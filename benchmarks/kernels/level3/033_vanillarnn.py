import torch
import torch.nn as nn

batch_size = 256
input_size = 16384
hidden_size = 16384
output_size = 8192


class Model(nn.Module):
    """One step of a plain recurrent network, with its output."""

    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.to_hidden = nn.Linear(input_size + hidden_size, hidden_size)
        self.to_output = nn.Linear(hidden_size, output_size)
        self.tanh = nn.Tanh()

    def forward(self, x, hidden):
        hidden = self.tanh(self.to_hidden(torch.cat((x, hidden), dim=1)))
        return self.to_output(hidden)


def get_inputs():
    return [torch.rand(batch_size, input_size), torch.rand(batch_size, hidden_size)]


def get_init_inputs():
    return [input_size, hidden_size, output_size]
