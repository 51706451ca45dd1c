"""Softmax over rows in blocks: maxima of the blocks, then of the row, and sums of exponentials.

block_max = x.amax(dim=-1)
row_max = block_max.amax(dim=-1)
return torch.exp(x - row_max[:, None, None]).sum(dim=-1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_SCORES = ("x", "x * 0.5", "torch.tanh(x)", "torch.clamp(x, min=-4.0, max=4.0)", "2.0 * torch.sigmoid(x)", "x - 1.0")
_EXPONENTS = ("x - row_max[:, None, None]", "x - row_max[:, None, None]", "0.5 * (x - row_max[:, None, None])")
_ENDS = {
    "block_sums": ["return e.sum(dim=-1)"],
    "row_sum": ["return e.sum(dim=-1).sum(dim=-1)"],
    "log_sum": ["return torch.log(e.sum(dim=-1).sum(dim=-1)) + row_max"],
    "weights": ["total = e.sum(dim=-1).sum(dim=-1)", "return e / total[:, None, None]"],
    "shares": ["part = e.sum(dim=-1)", "return part / part.sum(dim=-1, keepdim=True)"],
    "pooled": ["part = (e * values).sum(dim=-1)", "return part / e.sum(dim=-1)"],
    "mixed": ["return (e * values).sum(dim=-1).sum(dim=-1) / e.sum(dim=-1).sum(dim=-1)"],
    "with_maxima": ["return e.sum(dim=-1) + block_max"],
}


def write(draw: Draw) -> str:
    """Scores, their maxima by block and by row, the exponentials relative to those, and what is made of them."""
    scores, end = draw.choose("scores", _SCORES), _ENDS[draw.choose("end", tuple(_ENDS))]
    forward = [f"x = {scores}"] if scores != "x" else []
    forward.append("block_max = x.amax(dim=-1)")
    forward.append(f"row_max = {draw.choose('row_max', ('block_max.amax(dim=-1)', 'torch.amax(block_max, dim=1)'))}")
    forward.append(f"e = torch.exp({draw.choose('exponent', _EXPONENTS)})")
    constants = {
        "rows": draw.choose("rows", (4, 8, 12, 16)),
        "count": draw.choose("count", (2, 4, 6)),
        "width": draw.choose("width", (4, 8, 12)),
    }
    two = any("values" in line for line in end)
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    return program_text(
        constants,
        "Exponentials of a row of blocks.",
        forward=[*forward, *end],
        inputs=["torch.randn(rows, count, width, dtype=dtype)"] * (2 if two else 1),
        arguments="x, values" if two else "x",
        dtype=dtype,
    )


FAMILY = Family("blockwise_softmax", "softmax and its parts over rows in blocks", write)
