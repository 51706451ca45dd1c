"""Small three-dimensional convolutions and what follows them.

x = self.conv(x)
x = F.hardswish(x)
return x.mean(dim=(2, 3, 4))
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, steps
from stepTP.sources.text import program_text

_ENDS = {
    "mean": "x.mean(dim=(2, 3, 4))",
    "channel_softmax": "torch.softmax(x, dim=1)",
    "channel_max": "x.amax(dim=1)",
    "log_sum_exp": "torch.logsumexp(x, dim=1)",
    "max_pool": "F.max_pool3d(x, kernel_size=2)",
    "avg_pool": "F.avg_pool3d(x, kernel_size=2)",
    "bias": "x + self.bias",
    "plain": "x",
}

_GATES = {
    "gate_first": ("gate = torch.sigmoid(self.gate(x))", "x = self.conv(x) * gate"),
    "both": ("x, gate = self.conv(x), self.gate(x)", "x = x * torch.sigmoid(gate)"),
    "sum": ("x, gate = self.conv(x), self.gate(x)", "x = x + F.relu(gate)"),
}


def write(draw: Draw) -> str:
    """Kernel, stride, padding, bias, gate; an activation or a chain; a reduction, a pool or a bias at the end."""
    end = draw.choose("end", tuple(_ENDS))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "in_channels": draw.choose("in_channels", (1, 2, 3))}
    constants["out_channels"] = draw.choose("out_channels", (4, 6))
    constants |= {name: draw.choose(name, (4, 5, 6)) for name in ("depth", "height", "width")}
    kernel = draw.choose("kernel_size", ("2", "3", "(1, 3, 3)", "(3, 1, 1)", "(2, 2, 3)"))
    padding = ", padding=1" if draw.choose("padding", (True, True, False)) or end.endswith("pool") else ""
    stride = (
        ", stride=2" if end not in ("max_pool", "avg_pool") and draw.choose("strided", (False, False, True)) else ""
    )
    bias = "" if draw.choose("bias", (True, False)) else ", bias=False"
    state = [f"self.conv = nn.Conv3d(in_channels, out_channels, {kernel}{stride}{padding}{bias})"]
    if end == "bias":
        state.append("self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))")
    first = ["x = self.conv(x)"]
    if draw.choose("gate", (False, True, False)):
        state.append(f"self.gate = nn.Conv3d(in_channels, out_channels, {kernel}{stride}{padding}{bias})")
        first = list(_GATES[draw.choose("gating", tuple(_GATES))])
    middle = [f"x = {activation(draw)}"] if draw.choose("middle", ("activation", "steps")) == "activation" else []
    return program_text(
        constants,
        "A convolution of volumes and what follows it.",
        state=state,
        forward=[*first, *(middle or steps(draw, (1, 2, 3))), f"return {_ENDS[end]}"],
        inputs=["torch.randn(batch_size, in_channels, depth, height, width)"],
    )


FAMILY = Family("conv3d", "small convolutions of volumes", write)
