"""Channel and spatial gates of feature maps: squeeze-and-excite and its relatives.

s = x.mean(dim=(2, 3))
s = torch.sigmoid(self.up(F.relu(self.down(s))))
return x * s.view(s.shape[0], -1, 1, 1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_SQUEEZE = {
    "mean": ["s = x.mean(dim=(2, 3))"],
    "max": ["s = x.amax(dim=(2, 3))"],
    "both": ["s = x.mean(dim=(2, 3)) + x.amax(dim=(2, 3))"],
    "deviation": ["s = torch.sqrt(x.var(dim=(2, 3), correction=0) + 1e-5)"],
    "norm": ["s = torch.sqrt((x * x).sum(dim=(2, 3)) + 1e-5)", "s = s / (s.mean(dim=1, keepdim=True) + 1e-5)"],
    "pool": ["s = F.adaptive_avg_pool2d(x, 1).flatten(1)"],
}
_GATES = {"sigmoid": "torch.sigmoid(s)", "hardsigmoid": "F.hardsigmoid(s)", "tanh": "1.0 + torch.tanh(s)",
          "softmax": "torch.softmax(s, dim=1)"}  # fmt: skip
_SPATIAL = {
    "mean": "m = x.mean(dim=1, keepdim=True)",
    "max": "m = x.amax(dim=1, keepdim=True)",
    "both": "m = torch.cat([x.mean(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)], dim=1)",
}


def write(draw: Draw) -> str:
    """What the gate sees, its layers, its function, a spatial gate, a residual."""
    constants = {"batch_size": draw.choose("batch", (1, 2, 3)), "channels": draw.choose("channels", (6, 8, 12, 16))}
    constants |= {name: draw.choose(name, (4, 6, 8)) for name in ("height", "width")}
    kind = draw.choose("kind", ("channel", "channel", "spatial"))
    state: list[str] = []
    if kind == "channel":
        body = list(_SQUEEZE[draw.choose("squeeze", tuple(_SQUEEZE))])
        match draw.choose("layers", ("bottleneck", "linear", "scale", "across")):
            case "bottleneck":
                constants["reduced"] = draw.choose("reduced", (2, 3, 4))
                state += ["self.down = nn.Linear(channels, reduced)", "self.up = nn.Linear(reduced, channels)"]
                body += [f"s = {activation(draw, 'self.down(s)')}", "s = self.up(s)"]
            case "linear":
                state.append("self.linear = nn.Linear(channels, channels)")
                body.append("s = self.linear(s)")
            case "scale":
                state += [
                    "self.scale = nn.Parameter(torch.ones(channels))",
                    "self.shift = nn.Parameter(torch.randn(channels))",
                ]
                body.append("s = s * self.scale + self.shift")
            case _:
                state.append("self.conv = nn.Conv1d(1, 1, 3, padding=1, bias=False)")
                body.append("s = self.conv(s.unsqueeze(1)).squeeze(1)")
        body.append(f"s = {_GATES[draw.choose('gate', tuple(_GATES))]}")
        gated = "x * s.unsqueeze(-1).unsqueeze(-1)"
    else:
        seen = draw.choose("seen", tuple(_SPATIAL))
        state.append(f"self.conv = nn.Conv2d({2 if seen == 'both' else 1}, 1, 3, padding=1)")
        body = [_SPATIAL[seen], f"m = {activation(draw, 'self.conv(m)')}"]
        gated = draw.choose("weigh", ("x * m", "x * torch.sigmoid(m)", "x + x * torch.tanh(m)"))
    end = draw.choose("end", ("plain", "residual", "activation", "mean"))
    ends = {"plain": gated, "residual": f"x + {gated}", "mean": f"({gated}).mean(dim=(2, 3))"}
    body.append(f"return {ends[end] if end in ends else activation(draw, gated, 'last')}")
    return program_text(
        constants,
        f"Weighs the {'channels' if kind == 'channel' else 'places'} of a feature map by a gate.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, channels, height, width)"],
    )


FAMILY = Family("squeeze_excite", "channel and spatial gates of feature maps", write)
