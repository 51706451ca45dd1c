"""Products, quotients and powers of exponentials and powers.

x = torch.tanh(x)
return torch.exp(x) * torch.exp(-y) + torch.exp(x) ** 2
"""

import re

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import POSITIVE
from stepTP.sources.text import program_text

_EXPONENTIALS = (
    "torch.exp(x) * torch.exp(y)",
    "torch.exp(x) / torch.exp(y)",
    "torch.exp(x) ** 2",
    "torch.exp(2.0 * x) * torch.exp(-x)",
    "torch.exp(2.0 * x + y) * torch.exp(y - x)",
    "torch.exp(x) * torch.exp(0.5 * y)",
    "1.0 / torch.exp(x)",
    "torch.exp(-x) * y",
    "torch.exp(x) / (torch.exp(x) + torch.exp(y))",
    "torch.sqrt(torch.exp(x) * torch.exp(y))",
    "torch.exp(x) * torch.exp(x)",
    "torch.exp2(x) * torch.exp2(y)",
    "(torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x))",
)
_POWERS = (
    "p * torch.sqrt(p)",
    "p**2 * p**3",
    "p**1.5 / p",
    "torch.sqrt(p) * torch.sqrt(q)",
    "(p * q) ** 2",
    "p**3 / p**2",
    "torch.rsqrt(p) * p",
    "p**0.5 * q**0.5",
    "(p / q) ** 2 * q",
    "torch.sqrt(p * p)",
    "p**-1 * q",
    "torch.rsqrt(p) * torch.rsqrt(q)",
)
_ENDS = ("{}", "{}.sum(dim=-1)", "torch.log(1.0 + torch.abs({}))", "{} * y", "torch.tanh({})")


def write(draw: Draw) -> str:
    """Exponentials of bounded arguments or powers of positive ones, one to three terms, and an end."""
    kind = draw.choose("kind", ("exponentials", "powers"))
    options = _EXPONENTIALS if kind == "exponentials" else _POWERS
    if kind == "exponentials":
        bound = draw.choose("bound", ("torch.tanh({})", "torch.clamp({}, min=-3.0, max=3.0)", "torch.sin({})"))
        body = [f"x = {bound.format('x')}", f"y = {bound.format('y')}"]
    else:
        kinds = [name for name in POSITIVE if name != "exponential"]
        body = [f"{name} = {POSITIVE[draw.choose(name, kinds)].format(of)}" for name, of in (("p", "x"), ("q", "y"))]
    terms: list[str] = []
    for number in range(draw.choose("terms", (1, 2, 2, 3))):
        terms.append(draw.choose(f"term{number}", [term for term in options if term not in terms]))
    signs = [draw.choose(f"sign{number}", ("+", "-")) for number in range(1, len(terms))]
    end = draw.choose("end", _ENDS)
    sums = [f"s = {terms[0]}", *(f"s = s {sign} {term}" for sign, term in zip(signs, terms[1:], strict=True))]
    sums.append(f"return {end.format('s')}")
    text = "\n".join(sums)
    names = [name for name in ("x", "y", "p", "q") if re.search(rf"\b{name}\b", text)]
    body = [line for line in body if line[0] in names]
    two = re.search(r"\by\b", "\n".join([*body, text])) is not None
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    constants = {
        "rows": draw.choose("rows", (4, 8, 12, 16, 24)),
        "columns": draw.choose("columns", (8, 12, 16, 20, 32)),
    }
    return program_text(
        constants,
        f"Products of {kind}.",
        forward=[*body, *sums],
        inputs=["torch.randn(rows, columns, dtype=dtype)"] * (2 if two else 1),
        arguments="x, y" if two else "x",
        dtype=dtype,
    )


FAMILY = Family("exponentials", "products and powers of exponentials and powers", write)
