"""Pooling of neighbourhoods, in one to three dimensions, strided or of the input's size.

near = F.avg_pool2d(x, 3, stride=1, padding=1)
return x - near
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_POOLS = {
    "average": "F.avg_pool{d}d({x}, {k}, stride=1, padding={p})",
    "uncounted": "F.avg_pool{d}d({x}, {k}, stride=1, padding={p}, count_include_pad=False)",
    "maximum": "F.max_pool{d}d({x}, {k}, stride=1, padding={p})",
    "minimum": "-F.max_pool{d}d(-{x}, {k}, stride=1, padding={p})",
}
_SAME = {
    "contrast": "return x - near",
    "sharpen": "return 2.0 * x - near",
    "blend": "return torch.sigmoid(near) * x",
    "normalised": "return x / (torch.abs(near) + 1.0)",
    "peaks": "return torch.where(x == near, x, 0.1 * x)",
    "plain": "return near",
    "channel_mean": "return near.mean(dim=1)",
    "twice": "return TWICE",
    "active": "return ACTIVE",
    "sum": "return near + TWICE",
}
_PAIRS = {
    "variance": ("average", ("x", "x * x"), "return second - first * first"),
    "deviation": ("average", ("x", "x * x"), "return torch.sqrt(torch.relu(second - first * first) + 1e-5)"),
    "gradient": ("maximum", ("x", "-x"), "return first + second"),
    "middle": ("maximum", ("x", "-x"), "return x - 0.5 * (first - second)"),
    "moments": ("average", ("x", "torch.abs(x)"), "return x * second - first"),
}
_STRIDED = {
    "average": "F.avg_pool{d}d(x, 2)",
    "maximum": "F.max_pool{d}d(x, 2)",
    "overlapping": "F.max_pool{d}d(x, 3, stride=2, padding=1)",
    "adaptive": "F.adaptive_avg_pool{d}d(x, 2)",
    "ceil": "F.avg_pool{d}d(x, 3, stride=2, ceil_mode=True)",
    "lp": "F.avg_pool{d}d(x * x, 2)",
    "mixed": "F.avg_pool{d}d(x, 2) + F.max_pool{d}d(x, 2)",
    "span": "F.max_pool{d}d(x, 2) + F.max_pool{d}d(-x, 2)",
}
_ENDS = ("x", "x.mean(dim=1)", "x.amax(dim=-1)", "x.flatten(1)", "x * 0.5 + 1.0", "active", "torch.softmax(x, dim=1)")


def write(draw: Draw) -> str:
    """Pools of stride 1 against their input or each other, or strided pools with what comes before and after."""
    rank = draw.choose("rank", (1, 2, 2, 2, 3))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "channels": draw.choose("channels", (2, 3, 4, 6))}
    spatial = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}[rank]
    extents = {1: (16, 24, 32, 48), 2: (8, 10, 12, 16), 3: (4, 5, 6)}[rank]
    constants |= {name: draw.choose(name, extents) for name in spatial}
    kind = draw.choose("kind", ("same", "strided"))
    if kind == "same":
        window = draw.choose("window", (3, 3, 5) if rank < 3 else (3,))
        pair = draw.choose("pair", ("none", "none", *_PAIRS))
        pooled = draw.choose("pool", tuple(_POOLS))
        pool = _POOLS[pooled].format(d=rank, x="{x}", k=window, p=window // 2)
        line = _SAME[draw.choose("use", [use for use in _SAME if use != "peaks" or pooled == "maximum"])]
        if "ACTIVE" in line:
            line = line.replace("ACTIVE", activation(draw, "x - near"))
        before = draw.choose("before", ("", "", "x = torch.abs(x)", "x = x * x", "x = torch.tanh(x)"))
        body = [*([before] if before else []), f"near = {pool.format(x='x')}"]
        body.append(line.replace("TWICE", pool.format(x="near")))
        if pair != "none":
            pooled, operands, line = _PAIRS[pair]
            pools = [_POOLS[pooled].format(d=rank, x=of, k=window, p=window // 2) for of in operands]
            body = [*body[:-2], *(f"{name} = {p}" for name, p in zip(("first", "second"), pools, strict=True)), line]
    else:
        body = [f"x = {activation(draw, 'x', 'first')}"] if draw.choose("before", (False, True)) else []
        body.append(f"x = {_STRIDED[draw.choose('pool', tuple(_STRIDED))].format(d=rank)}")
        end = draw.choose("end", _ENDS)
        body.append(f"return {activation(draw) if end == 'active' else end}")
    return program_text(
        constants,
        "Pools the neighbourhood of every place." if kind == "same" else "Pools and goes on.",
        forward=body,
        inputs=[f"torch.randn(batch_size, channels, {', '.join(spatial)})"],
    )


FAMILY = Family("pooling", "average and maximum pooling of neighbourhoods", write)
