import torch
import torch.nn as nn

batch_size = 8
sequence_length = 256
input_size = 1024
hidden_size = 256
output_size = 128


class Model(nn.Module):
    """A plain recurrent network over a sequence, with the output of each step."""

    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.to_hidden = nn.Linear(input_size + hidden_size, hidden_size)
        self.to_output = nn.Linear(hidden_size, output_size)

    def forward(self, x, hidden):
        outputs = []
        for step in range(x.size(0)):
            hidden = torch.tanh(self.to_hidden(torch.cat((x[step], hidden), dim=1)))
            outputs.append(self.to_output(hidden))
        return torch.stack(outputs, dim=0)


def get_inputs():
    return [torch.rand(sequence_length, batch_size, input_size), torch.rand(batch_size, hidden_size)]


def get_init_inputs():
    return [input_size, hidden_size, output_size]
