"""Softmax of bounded scores at a temperature: sharpened, smoothed, distilled.

z = torch.tanh(x) / 0.5
p = torch.softmax(z, dim=-1)
return (1.0 - 0.1) * p + 0.1 / columns
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import reads
from stepTP.sources.text import program_text

_BOUNDED = (
    "torch.tanh({})",
    "torch.clamp({}, -1.0, 1.0)",
    "torch.sigmoid({})",
    "torch.sin({})",
    "(2.0 * torch.sigmoid({}) - 1.0)",
)
_TEMPERATURES = ("{} / 2.0", "{} * 2.0", "{} / 1.5", "1.25 * {}", "0.5 * {}")
_SCORES = ("x", "x + bias", "x * gain", "x - x.mean(dim=-1, keepdim=True)")
_OUTPUTS = {
    "smoothed": ["p = torch.softmax(z, dim=-1)", "return 0.9 * p + 0.1 / columns"],
    "plain": ["return torch.softmax(z, dim=-1)"],
    "sharpened": ["p = torch.softmax(z, dim=-1)", "return p * p / (p * p).sum(dim=-1, keepdim=True)"],
    "free_energy": ["return -0.5 * torch.logsumexp(z, dim=-1)"],
    "log": ["return F.log_softmax(z, dim=-1)"],
    "by_hand": ["e = torch.exp(z - z.amax(dim=-1, keepdim=True))", "return e / e.sum(dim=-1, keepdim=True)"],
    "distilled": ["p = torch.softmax(z, dim=-1)", "return -(torch.softmax(target, dim=-1) * torch.log(p)).sum(dim=-1)"],
    "gated": ["return target * torch.softmax(z, dim=-1)"],
    "first": ["e = torch.exp(z - z[:, :1])", "return e / e.sum(dim=-1, keepdim=True)"],
    "log_mean": ["return torch.log(torch.exp(z).mean(dim=-1))"],
}


def write(draw: Draw) -> str:
    """Scores, their bound and temperature, and what is made of their softmax."""
    scores, bounded = draw.choose("scores", _SCORES), draw.choose("bounded", _BOUNDED)
    lines = _OUTPUTS[draw.choose("output", tuple(_OUTPUTS))]
    forward = [f"s = {scores}", f"z = {draw.choose('temperature', _TEMPERATURES).format(bounded.format('s'))}", *lines]
    shapes = {"x": "rows, columns", "bias": "columns", "gain": "columns", "target": "rows, columns"}
    used = [name for name in shapes if reads(forward, name)]
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    return program_text(
        {"rows": draw.choose("rows", (4, 8, 12)), "columns": draw.choose("columns", (8, 12, 16))},
        "A softmax of bounded scores.",
        forward=forward,
        inputs=[f"torch.randn({shapes[name]}, dtype=dtype)" for name in used],
        arguments=", ".join(used),
        dtype=dtype,
    )


FAMILY = Family("tempered_scores", "softmax of bounded scores at a temperature", write)
