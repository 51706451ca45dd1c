"""Sums of shifted slices: smoothing, gradients, Laplacians, time steps of a diffusion.

p = F.pad(x, (1, 1, 1, 1))
laplacian = p[:, 1:-1, :-2] + p[:, 1:-1, 2:] - 2.0 * x
return x + 0.1 * laplacian
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_SHIFTS = {"left": "p[:, 1:-1, :-2]", "right": "p[:, 1:-1, 2:]", "up": "p[:, :-2, 1:-1]", "down": "p[:, 2:, 1:-1]"}
_SUMS = {
    "row_mean": ["local = (left + x + right) / 3.0"],
    "cross": ["local = left + right + up + down"],
    "laplacian": ["local = left + right + up + down - 4.0 * x"],
    "gradient": ["dx = 0.5 * (right - left)", "dy = 0.5 * (down - up)", "local = torch.sqrt(dx * dx + dy * dy + 1e-6)"],
    "column_blur": ["local = 0.25 * up + 0.5 * x + 0.25 * down"],
    "upwind": ["local = x - 0.3 * (x - left) - 0.2 * (x - up)"],
    "local_maximum": ["local = torch.maximum(torch.maximum(left, right), torch.maximum(up, down))"],
    "variance": ["mean = (left + right + up + down) / 4.0", "local = (x - mean) * (x - mean)"],
}
_ENDS = {
    "plain": "return local",
    "step": "return x + 0.1 * local",
    "sharpen": "return 2.0 * x - local",
    "rescale": "return x / (1.0 + torch.abs(local))",
    "sum": "return local.sum(dim=-1)",
    "energy": "return (local * local).mean(dim=(1, 2))",
    "reaction": "return x + 0.1 * local + 0.05 * x * (1.0 - x)",
}


_BEFORE = {
    "nothing": [],
    "scaled": ["x = x * coefficient"],
    "bounded": ["x = torch.tanh(x)"],
    "centred": ["x = x - x.mean(dim=(1, 2), keepdim=True)"],
    "rectified": ["x = F.relu(x)"],
}


def write(draw: Draw) -> str:
    """What is before, the padding, the sum of shifts, and what is made of it."""
    constants = {"batch_size": draw.choose("batch", (2, 3, 4)), "height": draw.choose("height", (8, 10, 12, 16, 20))}
    constants["width"] = draw.choose("width", (8, 12, 16, 24))
    padding = draw.choose("padding", ("zeros", "replicate", "roll"))
    sums = _SUMS[draw.choose("sum", tuple(_SUMS))]
    end = draw.choose("end", (*_ENDS, "activation"))
    used = [name for name in _SHIFTS if any(name in line for line in sums)]
    if padding == "roll":
        turns = {"left": "1, dims=2", "right": "-1, dims=2", "up": "1, dims=1", "down": "-1, dims=1"}
        body = [f"{name} = torch.roll(x, {turns[name]})" for name in used]
    else:
        pad = "(1, 1, 1, 1)" if padding == "zeros" else '(1, 1, 1, 1), mode="replicate"'
        body = [f"p = F.pad(x, {pad})", *(f"{name} = {_SHIFTS[name]}" for name in used)]
    before = _BEFORE[draw.choose("before", tuple(_BEFORE))]
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    inputs = ["torch.randn(batch_size, height, width, dtype=dtype)"]
    inputs += ["torch.randn(height, width, dtype=dtype)"] if "x = x * coefficient" in before else []
    last = f"return {activation(draw, 'local')}" if end == "activation" else _ENDS[end]
    return program_text(
        constants,
        "Combines every point of a grid with its neighbours.",
        forward=[*before, *body, *sums, last],
        inputs=inputs,
        arguments="x, coefficient" if len(inputs) > 1 else "x",
        dtype=dtype,
    )


FAMILY = Family("stencils", "sums of shifted slices of a grid", write)
