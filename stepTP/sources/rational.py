"""Sums, products and differences of fractions, some with a denominator in common.

p = 1.0 + x * x
return a / p - x / p + 1.0 / (2.0 * p)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_DENOMINATORS = (
    "1.0 + x * x",
    "2.0 + torch.abs(x)",
    "1.0 + x * x + a * a",
    "1.0 + torch.exp(-x * x)",
    "3.0 + torch.tanh(x)",
)
_NUMERATORS = ("1.0", "x", "a", "x * a", "x + a", "1.0 - x", "2.0 * x", "x * x", "a * a")
_OVER = ("p", "p", "q", "p * q", "(2.0 * p)", "p * p")


def write(draw: Draw) -> str:
    """Two to four fractions over one or two denominators, joined by signs, with or without names of their own."""
    first = draw.choose("first_denominator", _DENOMINATORS)
    second = draw.choose("second_denominator", [each for each in _DENOMINATORS if each != first])
    fractions: list[str] = []
    for number in range(draw.choose("fractions", (2, 2, 3, 4))):
        top = draw.choose(f"numerator{number}", _NUMERATORS)
        over = draw.choose(f"over{number}", _OVER)
        shown = f"({over})" if "*" in over and not over.startswith("(") else over
        fractions.append(f"{f'({top})' if ' ' in top else top} / {shown}")
    total = fractions[0]
    for number, fraction in enumerate(fractions[1:]):
        total += f" {draw.choose(f'sign{number}', ('+', '-'))} {fraction}"
    end = draw.choose("end", ("y", "y * x", "1.0 / (1.0 + y * y)", "y / p", "torch.sqrt(y * y + 1.0)", "y.sum(dim=-1)"))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    lines = [f"p = {first}", *([f"q = {second}"] if "q" in total.replace("sqrt", "") else [])]
    body = [*lines, f"y = {total}", f"return {end}"] if end != "y" else [*lines, f"return {total}"]
    words = " ".join(body).replace("(", " ").replace(")", " ").replace("-x", "x").split()
    names = [name for name in ("x", "a") if name in words]
    constants = {
        "rows": draw.choose("rows", (4, 8, 12, 16, 24)),
        "columns": draw.choose("columns", (8, 12, 16, 20, 32)),
    }
    return program_text(
        constants,
        "A sum of fractions.",
        forward=body,
        inputs=[
            f"torch.randn({shape}, dtype=dtype)" for _, shape in zip(names, ("rows, columns", "columns"), strict=False)
        ],
        arguments=", ".join(names),
        dtype=dtype,
    )


FAMILY = Family("rational", "sums and differences of fractions", write)
