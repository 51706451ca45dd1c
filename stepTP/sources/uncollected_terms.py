"""Polynomials whose terms are not collected, as derived formulas are first typed in.

y = a * x + b * x + 2.0 * x
return y + x * x * a + x * x
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_TERMS = (
    "a * x", "b * x", "x * a", "2.0 * x", "0.5 * x", "x * x", "a * x * x", "x * x * b", "a * b", "3.0 * a", "x",
    "a * b * x", "x * x * x", "b * b * x", "b * a * x", "a * a", "1.5 * a * x",
)  # fmt: skip
_ENDS = (
    "y",
    "y * x",
    "y - x * a",
    "(y + a) * (y - a)",
    "y * y + 2.0 * y + 1.0",
    "0.25 * y + 0.75 * y * a",
    "(x + a) * y - x * y",
)


def write(draw: Draw) -> str:
    """Three to five terms in the order of their drawing, with signs, perhaps a second line, and an end."""
    terms: list[str] = []
    for number in range(draw.choose("terms", (3, 4, 4, 5))):
        terms.append(draw.choose(f"term{number}", [term for term in _TERMS if term not in terms]))
    first = terms[0]
    for number, term in enumerate(terms[1:]):
        again = sorted(term.split()) in [sorted(other.split()) for other in terms[: number + 1]]
        first += f" {draw.choose(f'sign{number}', ('+',) if again else ('+', '+', '-'))} {term}"
    end = draw.choose("end", _ENDS)
    value = activation(draw, end) if draw.choose("active", (False, False, True)) else end
    body = [f"y = {first}", f"return {value}"]
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    constants = {
        "rows": draw.choose("rows", (4, 6, 8, 12, 16, 24)),
        "columns": draw.choose("columns", (8, 10, 16, 20, 32)),
    }
    shapes = [
        "rows, columns",
        *draw.choose("coefficients", ("rows, 1;columns", "columns;rows, 1", "rows, columns;columns")).split(";"),
    ]
    names = [
        name
        for name in ("x", "a", "b")
        if name in f"{first} {end}".replace("*", " ").replace("(", " ").replace(")", " ").split()
    ]
    return program_text(
        constants,
        "A polynomial with its terms as they were derived.",
        forward=body,
        inputs=[
            f"torch.randn({shape}, dtype=dtype)" for name, shape in zip("xab", shapes, strict=True) if name in names
        ],
        arguments=", ".join(names),
        dtype=dtype,
    )


FAMILY = Family("uncollected_terms", "polynomials whose terms are not collected", write)
