import torch
import torch.nn as nn

batch_size = 128
in_features = 32768
out_features = 32768
pool_size = 2
scale_factor = 0.5


class Model(nn.Module):
    """A linear layer, pooling of neighbours, a sum of each row and a scaling."""

    def __init__(self, in_features, out_features, pool_size, scale_factor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.pool = nn.MaxPool1d(pool_size)
        self.scale_factor = scale_factor

    def forward(self, x):
        x = self.pool(self.linear(x).unsqueeze(1)).squeeze(1)
        return torch.sum(x, dim=1) * self.scale_factor


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, pool_size, scale_factor]
