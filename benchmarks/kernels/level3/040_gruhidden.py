import torch
import torch.nn as nn

batch_size = 10
sequence_length = 512
input_size = 128
hidden_size = 256
num_layers = 6


class Model(nn.Module):
    """The last hidden states of a GRU of several layers."""

    def __init__(self, input_size, hidden_size, num_layers):
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, num_layers)

    def forward(self, x, hidden):
        _, hidden = self.gru(x, hidden)
        return hidden


def get_inputs():
    return [
        torch.rand(sequence_length, batch_size, input_size),
        torch.rand(num_layers, batch_size, hidden_size),
    ]


def get_init_inputs():
    return [input_size, hidden_size, num_layers]
