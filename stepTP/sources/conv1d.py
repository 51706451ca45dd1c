"""One-dimensional convolutions of sequences: strided, dilated, grouped, causal.

x = F.pad(x, (self.left, 0))
x = self.conv(x)
return F.silu(x)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, steps
from stepTP.sources.text import program_text

_ENDS = ("activation", "steps", "gate", "residual_mean", "max_pool", "global")


def write(draw: Draw) -> str:
    """The convolution's options, whether it looks back only, whether a second one gates it, and what follows."""
    constants = {"batch_size": draw.choose("batch", (1, 2, 3)), "in_channels": draw.choose("in_channels", (2, 4, 6))}
    end = draw.choose("end", _ENDS)
    constants["out_channels"] = draw.choose("out_channels", (4, 6, 8))
    constants["length"] = draw.choose("length", (16, 20, 24, 32, 48))
    constants["kernel_size"] = kernel = draw.choose("kernel_size", (2, 3, 3, 4, 5))
    causal = draw.choose("causal", (False, True))
    dilation = draw.choose("dilation", (1, 1, 2))
    options = f", dilation={dilation}" if dilation > 1 else ""
    if draw.choose("grouped", (False, False, True)):
        options += ", groups=2"
    join = draw.choose("join", ("none", "none", "gated", "sum"))
    if not causal and join != "none":
        around = dilation * (kernel - 1) // 2
        options += f", padding={around}" if around else ""
    elif not causal:
        options += {1: "", 2: ", stride=2"}[draw.choose("stride", (1, 1, 2))]
        options += {0: "", 1: ", padding=1"}[draw.choose("padding", (0, 1))]
    if not draw.choose("bias", (True, True, False)):
        options += ", bias=False"
    state = [f"self.conv = nn.Conv1d(in_channels, out_channels, kernel_size{options})"]
    body = [f"x = F.pad(x, ({dilation * (kernel - 1)}, 0))"] if causal else []
    if join == "none":
        body.append("x = self.conv(x)")
    else:
        state.append(f"self.gate = nn.Conv1d(in_channels, out_channels, kernel_size{options})")
        joined = "torch.tanh(signal) * torch.sigmoid(gate)" if join == "gated" else "signal + torch.relu(gate)"
        body += ["signal = self.conv(x)", "gate = self.gate(x)", f"x = {joined}"]
    match end:
        case "activation":
            body.append(f"return {activation(draw)}")
        case "steps":
            body += [*steps(draw, (2, 3)), "return x"]
        case "gate":
            body += ["value, gate = torch.chunk(x, 2, dim=1)", f"return value * {activation(draw, 'gate')}"]
        case "residual_mean":
            body.append(f"return {activation(draw)} - x.mean(dim=-1, keepdim=True)")
        case "max_pool":
            body += [f"x = {activation(draw)}", "return F.max_pool1d(x, kernel_size=2)"]
        case _:
            body += [f"x = {activation(draw)}", f"return x.{draw.choose('pool', ('mean', 'amax', 'sum'))}(dim=-1)"]
    return program_text(
        constants,
        f"A {'causal ' if causal else ''}convolution along a sequence.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, in_channels, length)"],
    )


FAMILY = Family("conv1d", "convolutions along a sequence, causal or not", write)
