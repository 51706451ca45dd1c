"""Arithmetic on integers: remainders, comparisons, one-hot codes, counts, masks.

bucket = (x * 7 + 3) % 11
return torch.where(bucket > 5, bucket - 5, bucket)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_STEPS = (
    "x = (x * 7 + 3) % 11",
    "x = x // 2",
    "x = torch.abs(x - 8)",
    "x = torch.clamp(x, min=2, max=12)",
    "x = x * x - x",
    "x = torch.where(x > 6, x - 6, x)",
    "x = torch.maximum(x, 5 - x)",
    "x = x % 4 + x // 4",
    "x = torch.minimum(x, x % 5 + 3)",
)
_ENDS = {
    "as_is": ("x", ""),
    "sum": ("x.sum(dim=-1)", ""),
    "maximum": ("x.amax(dim=-1)", ""),
    "running": ("torch.cumsum(x, dim=-1)", ""),
    "count": ("(x > 3).sum(dim=-1)", ""),
    "scale": ("x * self.scale", "self.scale = nn.Parameter(torch.randn(columns))"),
    "float_mean": ("x.float().mean(dim=-1)", ""),
    "pairs": ("x.unsqueeze(-1) - x.unsqueeze(-2)", ""),
    "equal": ("(x.unsqueeze(-1) == x.unsqueeze(-2)).float()", ""),
    "one_hot": ("(x.unsqueeze(-1) == torch.arange(6)).float()", ""),
    "histogram": ("(x.unsqueeze(-1) == torch.arange(8)).sum(dim=1)", ""),
    "gather": ("self.table[x % 8]", "self.table = nn.Parameter(torch.randn(8))"),
    "difference": ("x[:, 1:] - x[:, :-1]", ""),
}


def write(draw: Draw) -> str:
    """One to three integer steps and what is made of the result."""
    body: list[str] = []
    for number in range(draw.choose("steps", (1, 2, 3))):
        body.append(draw.choose(f"step{number}", [line for line in _STEPS if line not in body]))
    result, state = _ENDS[draw.choose("end", tuple(_ENDS))]
    kind = draw.choose("dtype", ("i64", "i64", "i32"))
    constants = {"rows": draw.choose("rows", (4, 6, 8, 12)), "columns": draw.choose("columns", (8, 12, 16))}
    constants["high"] = draw.choose("high", (16, 20, 32))
    dtype = ", dtype=torch.int32" if kind == "i32" else ""
    return program_text(
        constants,
        "Integer features of a table of codes.",
        state=[state] if state else [],
        forward=[*body, f"return {result}"],
        inputs=[f"torch.randint(0, high, (rows, columns){dtype})"],
    )


FAMILY = Family("integer_features", "arithmetic on integers, counts and one-hot codes", write)
