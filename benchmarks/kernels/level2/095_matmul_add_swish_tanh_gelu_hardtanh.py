import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1024
in_features = 8192
out_features = 8192


class Model(nn.Module):
    """A linear layer, a learned vector added, Swish, tanh, GELU and a clamp."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.offset = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        x = self.linear(x) + self.offset
        x = torch.tanh(torch.sigmoid(x) * x)
        return F.hardtanh(F.gelu(x), min_val=-1, max_val=1)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
