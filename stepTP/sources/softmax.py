"""Softmax and log-softmax, with a few steps before them.

x = x / 3.0
x = x + self.bias
return torch.softmax(x, dim=-1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import steps
from stepTP.sources.text import program_text

_FUNCTIONS = {
    "softmax": "torch.softmax(x, dim={})",
    "functional": "F.softmax(x, dim={})",
    "log_softmax": "F.log_softmax(x, dim={})",
    "softmin": "F.softmin(x, dim={})",
    "squared": "torch.softmax(x, dim={}).pow(2)",
    "log": "torch.log(torch.softmax(x, dim={}) + 1e-4)",
    "negative_log": "-F.log_softmax(x, dim={})",
}
_BEFORE = (
    "x = x * 0.5",
    "x = x + self.bias",
    "x = x * self.scale",
    "x = x - x.mean(dim=-1, keepdim=True)",
    "x = torch.tanh(x)",
    "x = x / 3.0",
    "x = torch.clamp(x, min=-4.0, max=4.0)",
    "x = F.leaky_relu(x, negative_slope=0.1)",
    "x = -x",
)


def write(draw: Draw) -> str:
    """Two to four dimensions; which axis is normalised, what comes before, and the dtype."""
    rank = draw.choose("rank", (2, 3, 3, 4))
    names = {2: ("rows",), 3: ("batch_size", "rows"), 4: ("batch_size", "heads", "rows")}[rank]
    extents = {2: (8, 16, 24, 32), 3: (4, 6, 8, 12), 4: (2, 3, 4)}[rank]
    constants = {name: draw.choose(name, extents) for name in names}
    constants["classes"] = draw.choose("classes", (8, 16, 20, 32, 48) if rank < 4 else (8, 12, 16))
    dtype = draw.choose("dtype", ("f32", "f32", "f32", "f64"))
    axis = draw.choose("axis", ("-1", "-1", "-1", "0", "1"))
    before = steps(draw, (0, 1, 1, 2, 3), _BEFORE)
    state = [
        f"self.{name} = nn.Parameter({value}(classes, dtype=dtype))"
        for name, value in (("bias", "torch.randn"), ("scale", "1.0 + 0.1 * torch.randn"))
        if any(f"self.{name}" in line for line in before)
    ]
    function = _FUNCTIONS[draw.choose("function", tuple(_FUNCTIONS))].format(axis)
    return program_text(
        constants,
        f"Normalises scores over axis {axis}.",
        state=state,
        forward=[*before, f"return {function}"],
        inputs=[f"torch.randn({', '.join(constants)}, dtype=dtype)"],
        dtype=dtype,
    )


FAMILY = Family("softmax", "softmax and log-softmax over scores", write)
