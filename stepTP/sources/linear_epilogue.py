"""One linear layer and a row-wise end.

x = self.linear(inputs)
x = F.relu(x)
return x / torch.sqrt((x * x).sum(dim=1, keepdim=True) + 1e-6)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, logged
from stepTP.sources.text import program_text

_EPILOGUES = {
    "plain": ["return x"],
    "swish": ["x = x * torch.sigmoid(x)", "return x / 2.0"],
    "clamp_residual": ["x = torch.clamp(x, min=-1.0, max=1.0)", "return x + inputs.mean(dim=1, keepdim=True)"],
    "square_sum": ["return x.pow(2).sum(dim=1, keepdim=True)"],
    "normalise": ["return x / torch.sqrt((x * x).sum(dim=1, keepdim=True) + 1e-6)"],
    "max_subtract": ["return torch.exp(x - x.amax(dim=1, keepdim=True))"],
    "softmax": ["return torch.softmax(x, dim=1)"],
    "log_softmax": ["return F.log_softmax(x, dim=1)"],
    "centre": ["return x - x.mean(dim=1, keepdim=True)"],
    "log_sum_exp": ["return torch.logsumexp(x, dim=1)"],
    "running": ["return torch.cumsum(x, dim=1)"],
    "column_norm": ["return x / (x.abs().sum(dim=0, keepdim=True) + 1e-3)"],
}
_LAYERS = {
    "bias": ("self.linear(inputs)", ["self.linear = nn.Linear(in_features, out_features)"]),
    "no_bias": ("self.linear(inputs)", ["self.linear = nn.Linear(in_features, out_features, bias=False)"]),
    "function": (
        "F.linear(inputs, self.weight)",
        ["self.weight = nn.Parameter(torch.randn(out_features, in_features) * in_features**-0.5)"],
    ),
    "addmm": (
        "torch.addmm(self.bias, inputs, self.weight)",
        ["self.weight = nn.Parameter(torch.randn(in_features, out_features) * in_features**-0.5)",
         "self.bias = nn.Parameter(torch.randn(out_features))"],
    ),
}  # fmt: skip


def write(draw: Draw) -> str:
    """How the layer is written, an activation or none, something logged, and what is done with the rows."""
    constants = {"batch_size": draw.choose("batch", (4, 8, 12, 16, 24))}
    constants["in_features"] = draw.choose("in_features", (8, 16, 20, 32, 48))
    constants["out_features"] = draw.choose("out_features", (8, 12, 16, 24, 32))
    layer, state = _LAYERS[draw.choose("layer", tuple(_LAYERS))]
    middle = [f"x = {activation(draw)}"] if draw.choose("active", (True, True, False)) else []
    return program_text(
        constants,
        "A linear layer with its epilogue.",
        state=state,
        forward=[f"x = {layer}", *middle, *logged(draw, "x"), *_EPILOGUES[draw.choose("epilogue", tuple(_EPILOGUES))]],
        inputs=["torch.randn(batch_size, in_features)"],
        arguments="inputs",
    )


FAMILY = Family("linear_epilogue", "a linear layer with an element-wise or row-wise epilogue", write)
