import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1024
in_features = 8192
hidden_features = 8192
scale_factor = 2.0
low = -10.0
high = 10.0


class Model(nn.Module):
    """A linear layer, a scaling, the result added to itself, a clamp, log-sum-exp, and a product with its Mish."""

    def __init__(self, in_features, hidden_features, scale_factor, low, high):
        super().__init__()
        self.linear = nn.Linear(in_features, hidden_features)
        self.scale_factor = scale_factor
        self.low = low
        self.high = high

    def forward(self, x):
        x = self.linear(x) * self.scale_factor
        x = torch.clamp(x + x, self.low, self.high)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        return x * F.mish(x)


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, hidden_features, scale_factor, low, high]
