"""Root-mean-square normalisation, alone, gated and before a projection.

x = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.epsilon)
return x * self.weight
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_NORMS = {
    "rsqrt": ["x = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.epsilon)"],
    "quotient": ["x = x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.epsilon)"],
    "product": ["square = (x * x).mean(dim=-1, keepdim=True)", "x = x * torch.rsqrt(square + self.epsilon)"],
    "sum": ["x = x * torch.rsqrt(x.pow(2).sum(dim=-1, keepdim=True) + self.epsilon)"],
    "library": ["x = F.rms_norm(x, x.shape[-1:], eps=self.epsilon)"],
    "added": ["x = x + residual", "x = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.epsilon)"],
}
_ENDS = {
    "weight": ("x * self.weight", []),
    "offset_weight": ("x * (1.0 + self.weight)", []),
    "projection": (
        "torch.matmul(x * self.weight, self.projection)",
        ["self.projection = nn.Parameter(torch.randn(features, width, dtype=dtype) * features**-0.5)"],
    ),
    "gate": ("x * self.weight * GATE", []),
    "active": ("ACTIVE", []),
    "affine": ("x * self.weight + self.bias", ["self.bias = nn.Parameter(torch.randn(features, dtype=dtype))"]),
    "row_sum": ("(x * self.weight).sum(dim=-1)", []),
    "skip": ("first + x * self.weight", []),
    "softmax": ("torch.softmax(x * self.weight, dim=-1)", []),
    "capped": ("10.0 * torch.tanh(x * self.weight / 10.0)", []),
}
_BEFORE = {
    "nothing": [],
    "scaled": ["x = x * self.scale"],
    "active": ["x = ACTIVE"],
    "positions": ["x = x + self.position"],
    "difference": ["x = x - x.mean(dim=1, keepdim=True)"],
}
_STATE = {
    "scale": "self.scale = nn.Parameter(0.5 + torch.rand(features, dtype=dtype))",
    "position": "self.position = nn.Parameter(0.1 * torch.randn(tokens, features, dtype=dtype))",
}


def write(draw: Draw) -> str:
    """A step before; divide by the root of the mean (or sum) of squares; weigh, gate, and perhaps project."""
    constants: dict[str, int | float] = {"batch_size": draw.choose("batch", (2, 3, 4))}
    constants["tokens"] = draw.choose("tokens", (4, 6, 8, 12))
    constants["features"] = draw.choose("features", (8, 16, 24, 32, 48))
    norm = draw.choose("norm", tuple(_NORMS))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    end, state = _ENDS[draw.choose("end", tuple(_ENDS))]
    if "width" in "".join(state):
        constants["width"] = draw.choose("width", (4, 8, 16))
    constants["epsilon"] = draw.choose("epsilon", (1e-6, 1e-5))
    if "GATE" in end:
        end = end.replace("GATE", activation(draw, "gate"))
    elif end == "ACTIVE":
        end = activation(draw, "x * self.weight")
    before = [line.replace("ACTIVE", activation(draw, "x", "first_activation")) if "ACTIVE" in line else line
              for line in _BEFORE[draw.choose("before", tuple(_BEFORE))]]  # fmt: skip
    before += ["first = x"] if "first" in end else []
    state = [*(value for name, value in _STATE.items() if f"self.{name}" in "".join(before)), *state]
    other = [name for name, there in (("residual", norm == "added"), ("gate", "gate" in end)) if there]
    weight = "self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(features, dtype=dtype))"
    return program_text(
        constants,
        f"Normalises by the {'Euclidean length' if norm == 'sum' else 'root mean square'} of each token.",
        state=["self.epsilon = epsilon", weight, *state],
        forward=[*before, *_NORMS[norm], f"return {end}"],
        inputs=["torch.randn(batch_size, tokens, features, dtype=dtype)"] * (1 + len(other)),
        arguments=", ".join(["x", *other]),
        dtype=dtype,
    )


FAMILY = Family("rms_norm", "root-mean-square normalisation", write)
