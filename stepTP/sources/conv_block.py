"""Two-dimensional convolutions with their usual neighbours: norms, activations, pools, skips.

x = self.conv(inputs)
x = self.norm(x)
return F.relu(x + self.skip(inputs))
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, logged
from stepTP.sources.text import program_text

_ENDS = ("activation", "residual", "max_pool", "avg_pool", "global_mean", "bias", "second", "gate")

_GATES = {
    "gate_first": ("gate = torch.sigmoid(self.gate(inputs))", "x = self.conv(inputs) * gate"),
    "both": ("x, gate = self.conv(inputs), self.gate(inputs)", "x = x * torch.sigmoid(gate)"),
    "tanh": ("x, gate = self.conv(inputs), self.gate(inputs)", "x = torch.tanh(x) * torch.sigmoid(gate)"),
    "maximum": ("x, gate = self.conv(inputs), self.gate(inputs)", "x = torch.maximum(x, gate)"),
}


def write(draw: Draw) -> str:
    """One convolution (stride, padding, dilation, groups), perhaps a gate and a norm, an activation, a pool, a skip."""
    constants = {"batch_size": draw.choose("batch", (1, 2)), "in_channels": draw.choose("in_channels", (2, 4, 6))}
    constants["out_channels"] = draw.choose("out_channels", (4, 6, 8))
    constants["size"] = draw.choose("size", (8, 10, 12))
    constants["kernel_size"] = kernel = draw.choose("kernel_size", (1, 3, 3, 5))
    constants["stride"] = stride = draw.choose("stride", (1, 1, 2))
    end = draw.choose("end", _ENDS)
    dilation = draw.choose("dilation", (1, 1, 2) if kernel == 3 and end != "residual" else (1,))
    gated = draw.choose("gated", (False, True))
    padding = (
        kernel // 2 if end == "residual" or gated else draw.choose("padding", (1, 2) if stride == 2 else (0, 1, 2))
    )
    options = f", padding={padding}" if padding else ""
    options += ", dilation=2" if dilation == 2 else ""
    options += draw.choose("groups", ("", "", ", groups=2"))
    options += draw.choose("bias", ("", ", bias=False"))
    state = [f"self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride{options})"]
    body = ["x = self.conv(inputs)"]
    if gated:
        state.append(f"self.gate = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride{options})")
        body = list(_GATES[draw.choose("gating", tuple(_GATES))])
    norm = draw.choose("norm", ("none", "none", "batch", "group", "scale"))
    if norm == "scale":
        state.append("self.scale = nn.Parameter(1.0 + 0.1 * torch.randn(out_channels, 1, 1))")
        body.append("x = x * self.scale")
    elif norm != "none":
        layer = "BatchNorm2d(out_channels)" if norm == "batch" else "GroupNorm(2, out_channels)"
        state.append(f"self.norm = nn.{layer}")
        body.append("x = self.norm(x)")
    body += logged(draw, "x")
    active = activation(draw)
    match end:
        case "residual":
            state.append("self.skip = nn.Conv2d(in_channels, out_channels, 1, stride=stride)")
            body.append(f"return {active} + self.skip(inputs)")
        case "max_pool" | "avg_pool":
            body.append(f"return F.{end}2d({active}, kernel_size=2)")
        case "global_mean":
            body.append(f"return {active}.mean(dim=(2, 3))")
        case "bias":
            state.append("self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))")
            body += [f"x = {active}", "return x + self.bias"]
        case "second":
            state.append("self.pointwise = nn.Conv2d(out_channels, in_channels, 1)")
            body += [f"x = {active}", "return self.pointwise(x)"]
        case "gate":
            body += ["value, gate = torch.chunk(x, 2, dim=1)", f"return value * {activation(draw, 'gate', 'gate')}"]
        case _:
            body.append(f"return {active}")
    return program_text(
        constants,
        "A convolution and what follows it.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, in_channels, size, size)"],
        arguments="inputs",
    )


FAMILY = Family("conv_block", "a 2-d convolution with norm, activation, pooling or skip connection", write)
