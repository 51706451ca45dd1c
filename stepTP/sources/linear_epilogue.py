"""One linear layer and what follows it."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_EPILOGUES = {
    "relu": ["x = F.relu(x)"],
    "gelu": ["x = F.gelu(x)"],
    "scale_tanh": ["x = torch.tanh(x * 0.5)"],
    "swish": ["x = x * torch.sigmoid(x)", "x = x / 2.0"],
    "clamp_residual": ["x = torch.clamp(x, min=-1.0, max=1.0)", "x = x + inputs.mean(dim=1, keepdim=True)"],
    "square_sum": ["x = x.pow(2)", "x = x.sum(dim=1, keepdim=True)"],
    "normalise": ["x = x / torch.sqrt((x * x).sum(dim=1, keepdim=True) + 1e-6)"],
    "max_subtract": ["x = x - x.amax(dim=1, keepdim=True)", "x = torch.exp(x)"],
}


def write(draw: Draw) -> str:
    """Linear, with or without bias, and an epilogue of one or two lines."""
    batch = draw.choose("batch", (4, 8, 12, 16, 24, 32))
    inputs = draw.choose("in_features", (8, 16, 20, 32, 48, 64))
    outputs = draw.choose("out_features", (8, 12, 16, 24, 32, 64))
    bias = draw.choose("bias", (True, False))
    epilogue = _EPILOGUES[draw.choose("epilogue", tuple(_EPILOGUES))]
    body = "\n        ".join(epilogue)
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
in_features = {inputs}
out_features = {outputs}


class Model(nn.Module):
    """A linear layer with its epilogue."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias={bias})

    def forward(self, inputs):
        x = self.linear(inputs)
        {body}
        return x


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
'''


FAMILY = Family("linear_epilogue", "a linear layer with an element-wise or row-wise epilogue", write)
