"""Differences, quotients and inverses in which parts cancel.

shifted = x + a
centred = shifted - shifted.mean(dim=-1, keepdim=True)
return centred * 2.0 / 2.0
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_PAIRS = (
    "y = y + a - a",
    "y = 2.0 * y / 2.0",
    "y = (y + a) - (a - y)",
    "y = y * p / p",
    "y = torch.log(torch.exp(y))",
    "y = -(-y)",
    "y = y - 0.5 * y",
    "y = (y + x) - x",
    "y = y * (1.0 + a) - y * a",
    "y = y / p + a / p - a / p",
    "y = 1.0 / (1.0 / (y * y + 1.0))",
    "y = (y - a) * (y + a) + a * a",
    "y = y + 0.0",
    "y = y * 1.0 + x * 0.5 - 0.5 * x",
    "y = torch.exp(torch.log(y * y + 1.0))",
    "y = y**2 - y * y + y",
    "y = torch.sqrt(y * y + 1.0) ** 2 - 1.0",
    "y = y.t().t()",
    "y = torch.flip(torch.flip(y, [0]), [0])",
    "y = 1.0 - (1.0 - y)",
)
_STARTS = (
    "y = torch.tanh(x) * a",
    "y = x * 0.5 + a",
    "y = torch.sigmoid(x) + a",
    "y = torch.clamp(x - a, min=-3.0, max=3.0)",
    "y = torch.relu(x) - a",
)
_ENDS = (
    "y",
    "y * x",
    "y - y.mean(dim=-1, keepdim=True)",
    "torch.softmax(y + a.sum() - a.sum(), dim=-1)",
    "y.sum(dim=-1)",
    "torch.tanh(y)",
)


def write(draw: Draw) -> str:
    """A start, one to three lines in which something cancels, and an end."""
    body = [draw.choose("start", _STARTS)]
    for number in range(draw.choose("lines", (1, 2, 2, 3))):
        body.append(draw.choose(f"line{number}", [line for line in _PAIRS if line not in body]))
    body.append(f"return {draw.choose('end', _ENDS)}")
    if any("/ p" in line for line in body):
        body.insert(1, "p = 1.0 + a * a")
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    constants = {
        "rows": draw.choose("rows", (4, 8, 12, 16, 24)),
        "columns": draw.choose("columns", (8, 12, 16, 20, 32)),
    }
    return program_text(
        constants,
        "Arithmetic in which parts cancel.",
        forward=body,
        inputs=["torch.randn(rows, columns, dtype=dtype)", "torch.randn(columns, dtype=dtype)"],
        arguments="x, a",
        dtype=dtype,
    )


FAMILY = Family("cancellations", "arithmetic in which parts cancel", write)
