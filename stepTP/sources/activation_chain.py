"""Element-wise chains with broadcast operands, as they follow a matrix product or a convolution.

x = x * self.scale + self.shift
x = F.gelu(x)
return x * torch.sigmoid(residual)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import steps
from stepTP.sources.text import program_text

_STARTS = {
    "affine": ["x = x * self.scale + self.shift"],
    "centred": ["x = (x - self.shift) * self.scale"],
    "scale": ["x = x * self.scale"],
    "lerp": ["x = torch.lerp(x, residual, 0.25)"],
    "addcmul": ["x = torch.addcmul(self.shift, x, self.scale, value=0.5)"],
    "nothing": [],
}
_EPILOGUES = {
    "residual": "x + residual",
    "gate": "x * torch.sigmoid(residual)",
    "clamp": "torch.clamp(x + residual, min=-2.0, max=2.0)",
    "select": "torch.where(residual > 0, x, 0.5 * x + residual)",
    "difference": "torch.abs(x - residual)",
    "maximum": "torch.maximum(x, residual)",
    "mean": "0.5 * (x + residual)",
    "quotient": "x / (1.0 + torch.abs(residual))",
    "product": "x * residual + residual",
}


def write(draw: Draw) -> str:
    """A scale and shift by channel, one to four steps, and what joins the residual."""
    dtype = draw.choose("dtype", ("f32", "f32", "f32", "f64"))
    constants = {"batch_size": draw.choose("batch", (4, 6, 8, 12)), "channels": draw.choose("channels", (4, 8, 16, 24))}
    constants["length"] = draw.choose("length", (4, 8, 10, 16, 20))
    start = _STARTS[draw.choose("start", tuple(_STARTS))]
    state = [
        f"self.{name} = nn.Parameter({value}(channels, 1, dtype=dtype))"
        for name, value in (("scale", "1.0 + 0.1 * torch.randn"), ("shift", "0.1 * torch.randn"))
        if any(f"self.{name}" in line for line in start)
    ]
    epilogue = _EPILOGUES[draw.choose("epilogue", tuple(_EPILOGUES))]
    return program_text(
        constants,
        "A chain of element-wise steps and a residual.",
        state=state,
        forward=[*start, *steps(draw, (1, 2, 3, 4)), f"return {epilogue}"],
        inputs=["torch.randn(batch_size, channels, length, dtype=dtype)"] * 2,
        arguments="x, residual",
        dtype=dtype,
    )


FAMILY = Family("activation_chain", "scale, shift, activations and residual on one tensor", write)
