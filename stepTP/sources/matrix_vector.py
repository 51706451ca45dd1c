"""Matrix-vector and outer products, quadratic forms, updates of rank one.

y = torch.mv(matrix, u)
return matrix + 0.1 * torch.outer(y, v)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import steps
from stepTP.sources.text import program_text

_FIRST = {
    "mv": "y = torch.mv(matrix, u)",
    "matmul": "y = torch.matmul(matrix, u)",
    "sum": "y = (matrix * u).sum(dim=1)",
    "outer": "y = (matrix * torch.outer(v, u)).sum(dim=1)",
    "shifted": "y = torch.mv(matrix + 1.0, u) - u.sum()",
    "affine": "y = torch.addmv(v, matrix, u)",
}
_THEN = {
    "sum": ["return y + v"],
    "product": ["return y * v"],
    "rank_one": ["return matrix + 0.1 * torch.outer(v * y, u)"],
    "outer": ["return torch.outer(y, v)"],
    "back": ["return torch.mv(matrix.t(), y * v)"],
    "residual": ["residual = v - y", "return u + 0.01 * torch.mv(matrix.t(), residual)"],
    "angle": ["length = torch.sqrt((y * y).sum() + (v * v).sum() + 1e-6)", "return y * v / length"],
    "projection": ["share = (y * v).sum() / ((v * v).sum() + 1.0)", "return y - share * v"],
    "power_step": ["return torch.mv(matrix.t(), y + v) / (torch.sqrt((y * y).sum()) + 1.0)"],
}


def write(draw: Draw) -> str:
    """How the product is written, what is done to it, and what comes of it."""
    first, then = (draw.choose("first", tuple(_FIRST)), draw.choose("then", tuple(_THEN)))
    middle = steps(draw, (0, 0, 1), ("y = torch.tanh(y)", "y = F.relu(y)", "y = 0.5 * y", "y = torch.sigmoid(y)"))
    dtype = draw.choose("dtype", ("f32", "f64"))
    constants = {"rows": draw.choose("rows", (8, 12, 16, 32, 48, 64))}
    constants["columns"] = draw.choose("columns", (8, 10, 16, 24, 32, 64))
    return program_text(
        constants,
        "A matrix, a vector on either side of it, and their products.",
        forward=[_FIRST[first], *middle, *_THEN[then]],
        inputs=[f"torch.randn({shape}, dtype=dtype)" for shape in ("rows, columns", "columns", "rows")],
        arguments="matrix, u, v",
        dtype=dtype,
    )


FAMILY = Family("matrix_vector", "matrix-vector and outer products, rank-one updates", write)
