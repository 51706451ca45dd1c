"""Quantised values: scales, rounding, integer codes, and products with dequantised weights.

scale = x.abs().amax(dim=-1, keepdim=True) / 127.0 + 1e-6
code = torch.clamp(torch.round(x / scale), min=-127.0, max=127.0)
return code * scale
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_CODES = {
    "int8": "code = torch.randint(-127, 128, ({}), dtype=torch.int8)",
    "int32": "code = torch.randint(-100, 100, ({}), dtype=torch.int32)",
}
_DECODE = {
    "row_scale": ("w = code.float() * self.scale", "torch.rand(rows, 1)"),
    "column_scale": ("w = code.float() * self.scale", "torch.rand(columns)"),
    "zero_point": ("w = (code.float() - 3.0) * self.scale", "torch.rand(rows, 1)"),
    "unsigned": ("w = (code.float() + 128.0) / 255.0 * self.scale", "torch.rand(columns)"),
    "halved": ("w = torch.where(code > 0, code.float(), 0.5 * code.float()) * self.scale", "torch.rand(rows, 1)"),
}
_USES = {
    "weights": "return w", "product": "return torch.matmul(x, w)", "gated": "return torch.tanh(torch.matmul(x, w))",
    "sum": "return w.sum(dim=0) + x.sum(dim=0).mean()", "scaled": "return torch.matmul(x * 0.5, w) + w.mean(dim=0)",
}  # fmt: skip
_CENTRED = "x = x - x.mean(dim=-1, keepdim=True)"
_BEFORE_USE = {
    "nothing": [],
    "transposed_twice": ["w = w.t().contiguous().t()"],
    "pruned": ["w = torch.where(w.abs() > 0.05, w, 0.0)"],
    "smoothed": ["w = w / (1.0 + w.abs().amax(dim=0, keepdim=True))"],
    "centred": ["w = w - 0.1 * w.mean(dim=1, keepdim=True)"],
}
_ENCODE = {
    "row": "scale = x.abs().amax(dim=-1, keepdim=True) / 127.0 + 1e-6",
    "column": "scale = x.abs().amax(dim=0, keepdim=True) / 127.0 + 1e-6",
    "tensor": "scale = x.abs().amax() / 127.0 + 1e-6",
    "mean": "scale = x.abs().mean(dim=-1, keepdim=True) / 32.0 + 1e-6",
}
_LEVELS = {
    "scale": ["return scale * x"],
    "clamped": ["return torch.clamp(x / scale, min=-64.0, max=64.0) * scale"],
    "error": [
        "low = torch.clamp(x / scale, min=-100.0, max=100.0)",
        "return (low * scale - x).abs().sum(dim=-1) + x.mean(dim=-1)",
    ],
    "ternary": ["return torch.where(x > scale * 40.0, scale, torch.where(x < -scale * 40.0, -scale, 0.1 * x))"],
    "half": ["return (x / scale).half().float() * scale"],
    "soft": ["return torch.tanh(x / scale / 64.0) * scale"],
}


def write(draw: Draw) -> str:
    """Decoding of integer codes with a scale, a step on them, their use; or scales for floats and their levels."""
    constants = {"rows": draw.choose("rows", (4, 8, 12, 16)), "columns": draw.choose("columns", (8, 12, 16, 24))}
    after = draw.choose("after", ("", "", "x = x * 2.0", "x = torch.tanh(x)", _CENTRED))
    if draw.choose("kind", ("decode", "encode")) == "encode":
        body = [after] if after else []
        body += [_ENCODE[draw.choose("scale", tuple(_ENCODE))], *_LEVELS[draw.choose("levels", tuple(_LEVELS))]]
        return program_text(constants, "Scales of rows and levels of values.", forward=body,
                            inputs=["torch.randn(rows, columns)"])  # fmt: skip
    line, scale = _DECODE[draw.choose("decode", tuple(_DECODE))]
    use = _USES[draw.choose("use", [use for use in _USES if after != _CENTRED or use != "sum"])]
    kind = draw.choose("dtype_of_codes", tuple(_CODES))
    codes = _CODES[kind].format("rows, columns").removeprefix("code = ")
    read = "x" in use.replace("max", "")
    if read:
        constants = {"batch_size": draw.choose("batch", (4, 6, 8))} | constants
    body = [*([after] if after and read else []), line, *_BEFORE_USE[draw.choose("weights", tuple(_BEFORE_USE))], use]
    return program_text(
        constants,
        "Weights from integer codes and scales.",
        state=[f"self.scale = nn.Parameter(0.02 * {scale} + 0.01)"],
        forward=body,
        inputs=[codes, *(["torch.randn(batch_size, rows)"] if read else [])],
        arguments="code, x" if read else "code",
    )


FAMILY = Family("quantisation", "integer codes, scales and products with them", write)
