"""Logarithms of products, quotients and powers, and sums of logarithms.

p = torch.abs(x) + 0.5
q = y * y + 1.0
return torch.log(p * q) - 2.0 * torch.log(q)
"""

import re
from collections.abc import Sequence

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import positive
from stepTP.sources.text import program_text

# of each term, how often it holds the logarithms of p and of q; None where it holds other values too
_TERMS = {
    "torch.log(p * q)": (1, 1),
    "torch.log(p / q)": (1, -1),
    "torch.log(p**3)": (3, 0),
    "torch.log(torch.sqrt(p))": (0.5, 0),
    "torch.log(p) + torch.log(q)": (1, 1),
    "torch.log(p * p)": (2, 0),
    "3.0 * torch.log(q)": (0, 3),
    "torch.log(1.0 / p)": (-1, 0),
    "torch.log(q) - torch.log(p)": (-1, 1),
    "torch.log(p**2 * q)": (2, 1),
    "torch.log(torch.exp(y) * p)": None,
    "torch.log(2.0 * p)": (1, 0),
    "torch.log2(p * q)": None,
    "torch.log1p(p)": None,
    "torch.log(torch.sqrt(p * q))": (0.5, 0.5),
    "y * torch.log(p)": None,
    "0.5 * torch.log(p) + 0.5 * torch.log(q)": (0.5, 0.5),
}
_ENDS = ("{}", "{}.sum(dim=-1)", "{}.mean(dim=-1, keepdim=True)", "torch.exp(0.25 * {})", "-{}", "{} * y")


def write(draw: Draw) -> str:
    """What is positive and why, one to three logarithms, and an end."""
    first, second = positive(draw, "x", "p"), positive(draw, "y", "q")
    terms: list[str] = []
    for number in range(draw.choose("terms", (1, 2, 2, 3))):
        terms.append(draw.choose(f"term{number}", [term for term in _TERMS if term not in terms]))
    signs = [draw.choose(f"sign{number}", ("+", "-")) for number in range(1, len(terms))]
    if len(terms) > 1 and _cancels(terms, signs):
        signs[-1] = "-" if signs[-1] == "+" else "+"
    end = draw.choose("end", _ENDS)
    sums = [f"s = {terms[0]}"]
    for sign, term in zip(signs, terms[1:], strict=True):
        sums.append(f"s = s {sign} {f'({term})' if (sign == '-' and ' + ' in term) or ' - ' in term else term}")
    sums.append(f"return {end.format('s')}")
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    body = [*(f"{name} = {value}" for name, value in (("p", first), ("q", second)) if _reads(sums, name)), *sums]
    arguments = [name for name in ("x", "y") if _reads(body, name)]
    constants = {
        "rows": draw.choose("rows", (4, 8, 12, 16, 24)),
        "columns": draw.choose("columns", (8, 12, 16, 20, 32)),
    }
    return program_text(
        constants,
        "Logarithms of positive quantities.",
        forward=body,
        inputs=["torch.randn(rows, columns, dtype=dtype)"] * len(arguments),
        arguments=", ".join(arguments),
        dtype=dtype,
    )


def _cancels(terms: Sequence[str], signs: Sequence[str]) -> bool:
    """Whether the logarithms of p or of q add up to nothing."""
    held = [_TERMS[term] for term in terms]
    for of in (0, 1):
        parts = [weights[of] if sign == "+" else -weights[of]
                 for weights, sign in zip(held, ("+", *signs), strict=True) if weights is not None]  # fmt: skip
        if any(parts) and sum(parts) == 0:
            return True
    return False


def _reads(lines: Sequence[str], name: str) -> bool:
    return re.search(rf"\b{name}\b", "\n".join(lines)) is not None


FAMILY = Family("logarithms", "logarithms of products, quotients and powers", write)
