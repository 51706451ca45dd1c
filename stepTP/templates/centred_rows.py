"""Rows that are centred, pass an activation, and are summed up or put back.

centred = x - x.mean(dim=-1, keepdim=True)
y = torch.tanh(centred)
return (y * y).mean(dim=-1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_BEFORE = {
    "nothing": [],
    "scaled": ["x = x * w"],
    "shifted": ["x = x + w"],
    "squared": ["x = x * x"],
    "compressed": ["x = x / (1.0 + torch.abs(x))"],
}
_CENTRES = {
    "mean": "x.mean(dim=-1, keepdim=True)",
    "middle": "0.5 * (x.amax(dim=-1, keepdim=True) + x.amin(dim=-1, keepdim=True))",
    "first": "x[:, :1]",
    "previous": "torch.roll(x, 1, dims=-1)",
    "batch": "x.mean(dim=0)",
}
_ACTIVATIONS = (
    "F.gelu(centred)",
    "F.silu(centred)",
    "F.softplus(centred)",
    "F.elu(centred)",
    "torch.tanh(centred)",
    "torch.sigmoid(centred)",
)
_ENDS = (
    "y",
    "x + y",
    "x * y",
    "y.sum(dim=-1)",
    "(y * y).mean(dim=-1)",
    "y.amax(dim=-1) - y.amin(dim=-1)",
    "(x * y).sum(dim=0)",
)


def write(draw: Draw) -> str:
    """What is before, the centre, the activation, and what is made of it."""
    forward = [
        *_BEFORE[draw.choose("before", tuple(_BEFORE))],
        f"centred = x - {_CENTRES[draw.choose('centre', tuple(_CENTRES))]}",
        f"y = {draw.choose('activation', _ACTIVATIONS)}",
        f"return {draw.choose('end', _ENDS)}",
    ]
    return elementwise(draw, "Rows relative to their centre.", forward, {"x": "rows, columns", "w": "columns"})


FAMILY = Family("centred_rows", "rows that are centred, activated, and summed up or put back", write)
