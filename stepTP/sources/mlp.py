"""Multi-layer perceptrons of two or three layers, plain, residual, normalised.

h = F.gelu(self.up(x))
return x + self.down(h)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, logged
from stepTP.sources.text import program_text

_ENDS = {
    "plain": "h",
    "residual": "x + h",
    "scaled": "x + 0.5 * h",
    "softmax": "torch.softmax(h, dim=-1)",
    "log_softmax": "F.log_softmax(h, dim=-1)",
    "norm": "F.normalize(x + h, dim=-1)",
    "tanh": "torch.tanh(h)",
}


def write(draw: Draw) -> str:
    """Two or three layers, each with its own or a common activation, a norm in between, something logged, an end."""
    constants = {
        "batch_size": draw.choose("batch", (4, 6, 8, 12)),
        "features": draw.choose("features", (8, 12, 16, 24)),
    }
    constants["hidden"] = draw.choose("hidden", (16, 20, 32, 40))
    layers = draw.choose("layers", (2, 2, 3))
    norm = draw.choose("norm", ("none", "none", "layer", "before"))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    bias = draw.choose("bias", ("", "", ", bias=False"))
    state = [f"self.up = nn.Linear(features, hidden{bias}, dtype=dtype)"]
    body: list[str] = []
    if norm == "before":
        state.insert(0, "self.norm = nn.LayerNorm(features, dtype=dtype)")
        body.append("h = self.norm(x)")
    body.append(f"h = {activation(draw, 'self.up(h)' if norm == 'before' else 'self.up(x)')}")
    if norm == "layer":
        state.append("self.norm = nn.LayerNorm(hidden, dtype=dtype)")
        body.append("h = self.norm(h)")
    if layers == 3:
        state.append(f"self.middle = nn.Linear(hidden, hidden{bias}, dtype=dtype)")
        body.append(f"h = {activation(draw, 'self.middle(h)', 'second_activation')}")
    state.append(f"self.down = nn.Linear(hidden, features{bias}, dtype=dtype)")
    body.append("h = self.down(h)")
    return program_text(
        constants,
        f"A perceptron of {'two' if layers == 2 else 'three'} layers.",
        state=state,
        forward=[*body, *logged(draw, "h"), f"return {_ENDS[draw.choose('end', tuple(_ENDS))]}"],
        inputs=["torch.randn(batch_size, features, dtype=dtype)"],
        dtype=dtype,
    )


FAMILY = Family("mlp", "perceptrons of two or three layers", write)
