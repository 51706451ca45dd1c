"""Polynomials and rational functions of tensors, written as people write them.

y = a * x * x + b * x + x
return y * 0.5
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_FORMS = {
    "quadratic": ["y = a * x * x + b * x + x"],
    "horner": ["y = ((a * x + b) * x + 1.0) * x + 0.5"],
    "powers": ["y = a * x**3 + b * x**2 - x"],
    "interaction": ["left = a * x + a * b", "right = b * x + b * a", "y = left + right - x * b"],
    "pade": ["numerator = x * (27.0 + x * x)", "y = numerator / (27.0 + 9.0 * x * x) + a * b"],
    "blend": ["weight = torch.sigmoid(a)", "y = weight * x + (1.0 - weight) * b"],
    "moments": ["centred = x - x.mean(dim=-1, keepdim=True)", "y = centred.pow(3) * a + centred.pow(2) * b"],
    "energy": ["kinetic = 0.5 * a * x * x", "potential = 0.5 * b * x * x", "y = kinetic + potential"],
    "power": ["magnitude = torch.abs(x) + 1.0", "y = magnitude**1.5 * a + torch.sqrt(magnitude) * b"],
    "product": ["y = (x - a) * (x - b) * (x + 1.0)"],
    "chebyshev": [
        "t = torch.clamp(x, min=-1.0, max=1.0)",
        "y = a * (2.0 * t * t - 1.0) + b * (4.0 * t * t * t - 3.0 * t)",
    ],
    "taylor": ["y = 1.0 + x + x**2 / 2.0 + x**3 / 6.0 + a * b"],
    "gelu_cubic": ["y = 0.5 * x * (1.0 + torch.tanh(a * (x + 0.044715 * x**3))) + b * x"],
    "distance": ["y = (x - a) ** 2 + (x - b) ** 2"],
    "smoothstep": ["t = torch.clamp(x * a + b, min=0.0, max=1.0)", "y = t * t * (3.0 - 2.0 * t)"],
}
_ENDS = (
    "y",
    "y * 0.5",
    "y.sum(dim=-1)",
    "y.mean(dim=-1, keepdim=True)",
    "y - y.mean(dim=-1, keepdim=True)",
    "y * y + y",
    "y * x",
    "active",
)


def write(draw: Draw) -> str:
    """A few lines of arithmetic over a matrix, a row vector and a column."""
    constants = {
        "rows": draw.choose("rows", (4, 8, 12, 16, 24)),
        "columns": draw.choose("columns", (8, 16, 20, 32, 48)),
    }
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    body = _FORMS[draw.choose("form", tuple(_FORMS))]
    end = draw.choose("end", _ENDS)
    coefficients = draw.choose("coefficients", ("rows, 1;columns", "columns;rows, 1", "rows, columns;columns"))
    shapes = ["rows, columns", *coefficients.split(";")]
    return program_text(
        constants,
        "Arithmetic on a matrix and its coefficients.",
        forward=[*body, f"return {activation(draw, 'y') if end == 'active' else end}"],
        inputs=[f"torch.randn({shape}, dtype=dtype)" for shape in shapes],
        arguments="x, a, b",
        dtype=dtype,
    )


FAMILY = Family("polynomial", "polynomials and rational functions", write)
