import torch
import torch.nn as nn

batch_size = 10
sequence_length = 512
input_size = 128
hidden_size = 256
num_layers = 6
output_size = 10


class Model(nn.Module):
    """An LSTM in both directions, and a linear layer on its last step."""

    def __init__(self, input_size, hidden_size, num_layers, output_size):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden_size, output_size)

    def forward(self, x, hidden, cell):
        out, _ = self.lstm(x, (hidden, cell))
        return self.fc(out[:, -1, :])


def get_inputs():
    return [
        torch.rand(batch_size, sequence_length, input_size),
        torch.rand(2 * num_layers, batch_size, hidden_size),
        torch.rand(2 * num_layers, batch_size, hidden_size),
    ]


def get_init_inputs():
    return [input_size, hidden_size, num_layers, output_size]
