import torch
import torch.nn as nn

batch_size = 128
in_features = 16384
out_features = 16384
dropout_p = 0.2


class Model(nn.Module):
    """A linear layer, dropout, the mean of each row and softmax over the rows' means."""

    def __init__(self, in_features, out_features, dropout_p):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, x):
        x = self.dropout(self.linear(x))
        return torch.softmax(torch.mean(x, dim=1), dim=0)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, dropout_p]
