"""The same expression written in several places.

left = torch.sigmoid(a + b) * x
right = torch.sigmoid(a + b) - x
return left + right
"""

import re

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_REPEATED = {
    "sum_gate": "torch.sigmoid(a + b)",
    "difference": "torch.abs(a - b)",
    "product": "torch.tanh(a * b)",
    "length": "torch.sqrt(a * a + b * b + 1.0)",
    "mean": "a.mean(dim=-1, keepdim=True)",
    "row_sum": "(a * b).sum(dim=-1, keepdim=True)",
    "exponential": "torch.exp(-torch.abs(a))",
    "scaled": "F.relu(0.5 * a + b)",
    "peak": "(a - a.amax(dim=-1, keepdim=True))",
    "product_matrix": "torch.matmul(a, self.weight)",
    "softmax": "torch.softmax(a, dim=-1)",
}
_USES = ("{} * b", "{} + b", "b - {}", "torch.relu({} - 0.1)", "{} * a", "0.5 * {} + a", "torch.tanh({})", "{0} * {0}")
_JOINS = {
    "sum": "left + right",
    "difference": "left - right",
    "product": "left * right",
    "maximum": "torch.maximum(left, right)",
    "cat": "torch.cat([left, right], dim=-1)",
    "select": "torch.where(a > 0, left, right)",
    "again": "left + right * {}",
    "quotient": "left / (1.0 + torch.abs(right))",
}


def write(draw: Draw) -> str:
    """The expression, its two uses, and how they are joined."""
    repeated = _REPEATED[draw.choose("repeated", tuple(_REPEATED))]
    first = draw.choose("first", _USES)
    second = draw.choose("second", [use for use in _USES if use != first])
    join = _JOINS[draw.choose("join", tuple(_JOINS))].format(repeated)
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    constants = {
        "rows": draw.choose("rows", (4, 8, 12, 16, 24)),
        "columns": draw.choose("columns", (8, 12, 16, 20, 32)),
    }
    own = ["self.weight = nn.Parameter(torch.randn(columns, columns, dtype=dtype) * columns**-0.5)"]
    body = [f"left = {_used(first, repeated)}", f"right = {_used(second, repeated)}"]
    if not re.search(r"\bb\b", " ".join([*body, join])):
        join = f"({join}) + b" if "cat" not in join else "torch.cat([left, right + b], dim=-1)"
    return program_text(
        constants,
        "Two branches that share an expression.",
        state=own if "self.weight" in repeated else [],
        forward=[*body, f"return {join}"],
        inputs=["torch.randn(rows, columns, dtype=dtype)"] * 2,
        arguments="a, b",
        dtype=dtype,
    )


def _used(use: str, expression: str) -> str:
    """A use of the expression, whose parentheses go where those of a call are around it."""
    enclosed = use.endswith("({})") and expression.startswith("(")
    return use.format(expression[1:-1] if enclosed else expression)


FAMILY = Family("repeated_expressions", "the same expression in several branches", write)
