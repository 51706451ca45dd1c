"""Depthwise convolutions with a pointwise one after them, plain or as an inverted bottleneck.

x = F.hardswish(self.depthwise(x))
return self.pointwise(x) + inputs
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text


def write(draw: Draw) -> str:
    """Kernel, expansion, a gate, activations in between, a norm, a skip."""
    constants = {"batch_size": draw.choose("batch", (1, 2)), "channels": draw.choose("channels", (4, 6, 8))}
    expand = draw.choose("expand", (False, True))
    skip = draw.choose("skip", (False, True))
    norm = draw.choose("norm", ("none", "batch", "group", "scale"))
    hidden = "channels"
    if expand:
        constants["hidden"], hidden = draw.choose("hidden", (8, 12, 16)), "hidden"
    if not skip:
        constants["out_channels"] = draw.choose("out_channels", (4, 6, 10))
    constants |= {name: draw.choose(name, (6, 8, 10)) for name in ("height", "width")}
    out = "channels" if skip else "out_channels"
    stride = "" if skip or draw.choose("stride", (1, 1, 2)) == 1 else ", stride=2"
    kernel = draw.choose(
        "kernel", ("3, padding=1", "5, padding=2", "(1, 3), padding=(0, 1)", "3, padding=2, dilation=2")
    )
    state = [f"self.expand = nn.Conv2d(channels, {hidden}, 1)"] if expand else []
    body = [f"x = {activation(draw, 'self.expand(inputs)', 'expand_activation')}"] if expand else []
    read = "x" if expand else "inputs"
    state.append(f"self.depthwise = nn.Conv2d({hidden}, {hidden}, {kernel}{stride}, groups={hidden}, bias=False)")
    if draw.choose("gated", (False, False, True)):
        state.append(state[-1].replace("self.depthwise", "self.gate"))
        body.append(f"x = self.depthwise({read}) * torch.sigmoid(self.gate({read}))")
    else:
        body.append(f"x = self.depthwise({read})")
    if norm != "none":
        layer = {
            "batch": f"nn.BatchNorm2d({hidden})",
            "group": f"nn.GroupNorm(2, {hidden})",
            "scale": f"nn.Parameter(1.0 + 0.1 * torch.randn({hidden}, 1, 1))",
        }[norm]
        state.append(f"self.{'scale' if norm == 'scale' else 'norm'} = {layer}")
        body.append("x = x * self.scale" if norm == "scale" else "x = self.norm(x)")
    if draw.choose("activate", (True, True, False)):
        body.append(f"x = {activation(draw)}")
    state.append(f"self.pointwise = nn.Conv2d({hidden}, {out}, 1)")
    body.append("return self.pointwise(x) + inputs" if skip else "return self.pointwise(x)")
    return program_text(
        constants,
        f"A depthwise separable block{' with an expansion' if expand else ''}{' and a skip' if skip else ''}.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, channels, height, width)"],
        arguments="inputs",
    )


FAMILY = Family("depthwise_separable", "depthwise separable blocks and inverted bottlenecks", write)
