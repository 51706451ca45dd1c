"""Running sums, products and maxima along an axis, forward or back, inclusive or exclusive.

x = torch.cumsum(x * mask, dim=1)
return torch.flip(x, [1])
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_SCANS = {
    "sum": "torch.cumsum(x, dim=AXIS)",
    "product": "torch.cumprod(1.0 + 0.1 * torch.tanh(x), dim=AXIS)",
    "maximum": "torch.cummax(x, dim=AXIS).values",
    "minimum": "torch.cummin(x, dim=AXIS).values",
    "log_sum_exp": "torch.logcumsumexp(x, dim=AXIS)",
}
_BEFORE = {"nothing": [], "square": ["x = x * x"], "absolute": ["x = torch.abs(x)"], "tanh": ["x = torch.tanh(x)"],
           "mask": ["x = x * mask"], "where": ["x = torch.where(mask > 0, x, 0.0)"]}  # fmt: skip
_AFTER = {
    "nothing": ["return x"],
    "running_mean": ["count = torch.arange(1, x.shape[1] + 1).unsqueeze(-1)", "return x / count"],
    "drawdown": ["return x - x.mean(dim=AXIS, keepdim=True)"],
    "share": ["return x / (1.0 + torch.abs(x))"],
    "log": ["return torch.log(1.0 + x * x)"],
    "last": ["return x + x[:, -1:]"],
    "both": ["return x, x[:, -1]"],
}


def write(draw: Draw) -> str:
    """Which scan, along which axis, forward or back, exclusive or not, before and after it."""
    scan = draw.choose("scan", tuple(_SCANS))
    reverse = draw.choose("reverse", (False, False, True))
    exclusive = scan == "sum" and draw.choose("exclusive", (False, True))
    before = draw.choose("before", tuple(_BEFORE))
    after = draw.choose("after", tuple(_AFTER))
    axis = "1" if after == "running_mean" or exclusive else draw.choose("axis", ("1", "-1"))
    constants = {"batch_size": draw.choose("batch", (2, 4, 6, 8)), "length": draw.choose("length", (8, 12, 16, 24))}
    constants["features"] = draw.choose("features", (4, 6, 8, 12, 16))
    scanned = f"x = {_SCANS[scan]}"
    body = [*_BEFORE[before], *(["x = torch.flip(x, [AXIS])"] if reverse else [])]
    if exclusive:
        body.append("x = F.pad(x, (0, 0, 1, 0))[:, :-1]")
    body += [scanned, *(["x = torch.flip(x, [AXIS])"] if reverse else []), *_AFTER[after]]
    masked = before in ("mask", "where")
    return program_text(
        constants,
        f"A running {scan.replace('_', '-')} along a sequence{', from its end' if reverse else ''}.",
        forward=[line.replace("AXIS", axis) for line in body],
        inputs=["torch.randn(batch_size, length, features)"] * (2 if masked else 1),
        arguments="x, mask" if masked else "x",
    )


FAMILY = Family("scans", "running sums, products and maxima", write)
