"""Cosine similarities that are written out: dot products over products of roots.

a = (x * x).sum(dim=-1) + 1e-6
b = (y * y).sum(dim=-1) + 1e-6
return (x * y).sum(dim=-1) / (torch.sqrt(a) * torch.sqrt(b))
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_SQUARES = ("({0} * {0}).sum(dim=-1) + {1}", "{0}.pow(2).sum(dim=-1) + {1}", "torch.sum({0} * {0}, dim=-1) + {1}")
_DOTS = ("(x * y).sum(dim=-1)", "(x * y * w).sum(dim=-1)", "torch.sum(x * y, dim=-1)", "torch.sum(w * x * y, dim=-1)")
_COSINES = (
    "dot / (torch.sqrt(a) * torch.sqrt(b))",
    "dot / torch.sqrt(a * b)",
    "dot / torch.sqrt(a) / torch.sqrt(b)",
    "dot * torch.rsqrt(a) * torch.rsqrt(b)",
    "dot / (a.sqrt() * b.sqrt())",
    "2.0 * dot / (a + b)",
    "dot / (a + b - dot + 1.0)",
    "torch.sqrt(a) * torch.sqrt(b) - dot",
    "torch.sqrt(a / b)",
    "dot * torch.rsqrt(a * b)",
)
_ENDS = ("score", "score", "1.0 - score", "2.0 - 2.0 * score", "torch.exp(2.0 * score)", "score * score", "-score")


def write(draw: Draw) -> str:
    """Squared norms kept from zero, a dot product, the similarity, and a loss of it."""
    squares, dot = draw.choose("squares", _SQUARES), draw.choose("dot", _DOTS)
    cosine, eps = draw.choose("cosine", _COSINES), draw.choose("eps", ("1e-6", "1e-5", "1e-4"))
    forward = [f"a = {squares.format('x', eps)}", f"b = {squares.format('y', eps)}"]
    if "dot" in cosine:
        forward.append(f"dot = {dot}")
    forward += [f"score = {cosine}", f"return {draw.choose('end', _ENDS)}"]
    shapes = {"x": "rows, columns", "y": "rows, columns", "w": "columns"}
    return elementwise(draw, "Cosine similarity of rows.", forward, shapes)


FAMILY = Family("cosine_scores", "cosine similarities as quotients of roots", write)
