import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
hidden_features = 8192
scaling_factor = 1.5


class Model(nn.Module):
    """A product with a weight, halved, summed over the features and scaled."""

    def __init__(self, in_features, hidden_features, scaling_factor):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden_features, in_features))
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = torch.matmul(x, self.weight.T) / 2
        return torch.sum(x, dim=1, keepdim=True) * self.scaling_factor


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, hidden_features, scaling_factor]
