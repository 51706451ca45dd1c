"""Products with structured matrices: triangular, diagonal, symmetric, banded, block-diagonal.

lower = torch.tril(a)
return torch.matmul(lower, b)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import steps
from stepTP.sources.text import program_text

_STRUCTURES = {
    "lower": ["a = torch.tril(a)"],
    "upper": ["a = torch.triu(a)"],
    "strictly_lower": ["a = torch.tril(a, diagonal=-1)"],
    "symmetric": ["a = 0.5 * (a + a.t())"],
    "antisymmetric": ["a = a - a.t()"],
    "banded": ["a = torch.triu(torch.tril(a, diagonal=2), diagonal=-2)"],
    "normal": ["a = torch.matmul(a, a.t())"],
    "shifted": ["a = a + 2.0 * torch.eye(a.shape[0])"],
    "diagonal": ["a = torch.diag(torch.diagonal(a))"],
}
_PRODUCTS = {
    "left": "torch.matmul(a, b)",
    "right": "torch.matmul(b.t(), a)",
    "both_sides": "torch.matmul(torch.matmul(b.t(), a), b)",
    "twice": "torch.matmul(a, torch.matmul(a, b))",
    "triangle": "torch.tril(torch.matmul(a, torch.matmul(b, b.t())))",
}
_SCALED = {
    "scaled_rows": "d.unsqueeze(1) * b",
    "scaled_columns": "b.t() * d",
    "diagonal_product": "torch.matmul(torch.diag(d), b)",
    "congruence": "torch.matmul(b.t() * d, b)",
    "normalised": "torch.matmul(b.t(), b * torch.rsqrt(d * d + 1.0).unsqueeze(1))",
}


def write(draw: Draw) -> str:
    """The structure of one operand, where it stands, and an element-wise end."""
    size = {"size": draw.choose("size", (8, 12, 16, 24)), "columns": draw.choose("columns", (4, 8, 12, 16))}
    end = steps(draw, (0, 1, 2), ("x = x * 0.5", "x = torch.relu(x)", "x = torch.abs(x)", "x = x - 1.0"))
    if draw.choose("kind", ("matrix", "matrix", "vector")) == "matrix":
        structure = draw.choose("structure", tuple(_STRUCTURES))
        body = [*_STRUCTURES[structure], f"x = {_PRODUCTS[draw.choose('product', tuple(_PRODUCTS))]}"]
        summary, arguments, first = f"A product with a matrix made {structure.replace('_', ' ')}.", "a, b", "size, size"
    else:
        body = [f"x = {_SCALED[draw.choose('scaled', tuple(_SCALED))]}"]
        summary, arguments, first = "A product with a diagonal matrix.", "d, b", "size"
    return program_text(
        size,
        summary,
        forward=[*body, *end, "return x"],
        inputs=[f"torch.randn({first})", "torch.randn(size, columns)"],
        arguments=arguments,
    )


FAMILY = Family("structured_matmul", "triangular, diagonal, symmetric and banded operands", write)
