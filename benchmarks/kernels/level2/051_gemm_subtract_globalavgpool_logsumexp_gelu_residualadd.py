import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2048
in_features = 8192
out_features = 8192


class Model(nn.Module):
    """A linear layer, a learned vector taken away, row means, log-sum-exp, GELU, and the input added."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.subtract = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        original = x.clone().detach()
        x = self.linear(x) - self.subtract
        x = torch.mean(x, dim=1, keepdim=True)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        return F.gelu(x) + original


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
