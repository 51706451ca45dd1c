"""A convolution and a chain of two to five element-wise steps, perhaps reduced.

x = self.conv(x)
x = x - 0.5
x = F.mish(x)
return x.amin(dim=1, keepdim=True)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import STEPS, steps
from stepTP.sources.text import program_text

_NEVER_NEGATIVE = ("x = F.relu(x)", "x = torch.abs(x)", "x = F.softplus(x)", "x = torch.sigmoid(x)")
_CHANNEL = ("x = x * self.scale", "x = x + self.shift")
_ENDS = {
    "plain": "x",
    "channel_min": "x.amin(dim=1, keepdim=True)",
    "channel_sum": "x.sum(dim=1)",
    "space_mean": "x.mean(dim=(2, 3), keepdim=True)",
    "max_pool": "F.max_pool2d(x, kernel_size=2)",
    "log_sum_exp": "torch.logsumexp(x, dim=1, keepdim=True)",
}


def write(draw: Draw) -> str:
    """A plain or pointwise convolution, the steps with scale and shift by channel among them, and the end."""
    constants = {"batch_size": draw.choose("batch", (1, 2)), "in_channels": draw.choose("in_channels", (2, 3, 4))}
    constants["out_channels"] = draw.choose("out_channels", (4, 6, 8))
    constants |= {name: draw.choose(name, (6, 8, 10, 12)) for name in ("height", "width")}
    kernel = draw.choose("kernel_size", ("1", "3", "3", "(1, 5)", "(3, 1)"))
    padding = draw.choose("padding", ("", ', padding="same"', ", padding=1"))
    body = steps(draw, (2, 3, 4, 5), (*STEPS, *_CHANNEL, *_CHANNEL))
    state = [f"self.conv = nn.Conv2d(in_channels, out_channels, {kernel}{padding})"]
    ends = [end for end in _ENDS if end != "channel_min" or body[-1] not in _NEVER_NEGATIVE]
    for name, value in (("scale", "1.0 + 0.1 * torch.randn"), ("shift", "torch.randn")):
        if any(f"self.{name}" in line for line in body):
            state.append(f"self.{name} = nn.Parameter({value}(out_channels, 1, 1))")
    return program_text(
        constants,
        "A convolution with a chain of element-wise steps.",
        state=state,
        forward=["x = self.conv(x)", *body, f"return {_ENDS[draw.choose('end', ends)]}"],
        inputs=["torch.randn(batch_size, in_channels, height, width)"],
    )


FAMILY = Family("conv_epilogue", "a convolution with a chain of element-wise steps", write)
