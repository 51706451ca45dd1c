"""Strided rearrangements: pixel shuffles, unfolding, channel shuffles, interleaving, space to depth.

x = F.pixel_shuffle(x, 2)
x = x * self.scale
return F.relu(x)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_MOVES = {
    "pixel_shuffle": ["x = F.pixel_shuffle(x, 2)"],
    "pixel_unshuffle": ["x = F.pixel_unshuffle(x, 2)"],
    "channel_shuffle": ["b, c, h, w = x.shape", "x = x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)"],
    "shuffle4": ["b, c, h, w = x.shape", "x = x.view(b, c // 4, 4, h, w).transpose(1, 2).reshape(b, c, h, w)"],
    "unfold": ["x = F.unfold(x, kernel_size=3, padding=1)"],
    "blocks": ["b, c, h, w = x.shape", "x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).flatten(3)"],
    "strided": ["x = x[:, :, ::2, 1::2]"],
    "phases": ["x = torch.cat([x[:, :, ::2, ::2], x[:, :, 1::2, ::2], x[:, :, ::2, 1::2]], dim=1)"],
    "windows": ["x = x.unfold(2, 4, 2).unfold(3, 4, 2).flatten(4)"],
    "upsample": ["x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)"],
    "roll": ["x = torch.roll(x, (2, 1), dims=(2, 3))"],
    "transpose": ["x = x.permute(0, 2, 3, 1).flatten(1, 2)"],
    "flip": ["x = torch.flip(x, [3])[:, :, 1::2]"],
}
_BEFORE = {"nothing": "", "scale": "x = x * 0.5", "absolute": "x = torch.abs(x)", "conv": "x = self.conv(x)"}
_AFTER = {
    "nothing": "x",
    "last_mean": "x.mean(dim=-1)",
    "last_max": "x.amax(dim=-1)",
    "square": "x * x",
    "centred": "x - x.mean(dim=-1, keepdim=True)",
    "softmax": "torch.softmax(x, dim=-1)",
    "channel_sum": "x.sum(dim=1)",
    "sums": "torch.cumsum(x, dim=-1)",
}


def write(draw: Draw) -> str:
    """The rearrangement, what is computed before it, and what after."""
    move = _MOVES[draw.choose("move", tuple(_MOVES))]
    before = draw.choose("before", tuple(_BEFORE))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "channels": draw.choose("channels", (4, 8))}
    constants |= {name: draw.choose(name, (4, 6, 8)) for name in ("height", "width")}
    state = ["self.conv = nn.Conv2d(channels, channels, 1)"] if before == "conv" else []
    body = [_BEFORE[before], *move] if before != "nothing" else list(move)
    if draw.choose("active", (False, True)):
        body.append(f"x = {activation(draw)}")
    return program_text(
        constants,
        "Rearranges the elements of a feature map.",
        state=state,
        forward=[*body, f"return {_AFTER[draw.choose('after', tuple(_AFTER))]}"],
        inputs=["torch.randn(batch_size, channels, height, width)"],
    )


FAMILY = Family("index_arithmetic", "pixel shuffles, unfolding and other strided rearrangements", write)
