"""Transposes and permutations that feed matrix products: choices of layout.

a = a.permute(0, 2, 1, 3)
b = b.permute(0, 2, 3, 1)
return torch.matmul(a, b)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

# how each operand is stored, and the expression that brings it to [heads, rows, inner] or [heads, inner, columns]
_LEFT = {
    "rows, heads, inner": "a.transpose(0, 1)",
    "heads, inner, rows": "a.transpose(1, 2)",
    "inner, heads, rows": "a.permute(1, 2, 0)",
    "rows, inner, heads": "a.permute(2, 0, 1)",
    "heads, rows, inner": "a",
    "inner, rows, heads": "a.permute(2, 1, 0)",
}
_RIGHT = {
    "columns, heads, inner": "b.permute(1, 2, 0)",
    "heads, columns, inner": "b.transpose(1, 2)",
    "inner, heads, columns": "b.transpose(0, 1)",
    "inner, columns, heads": "b.permute(2, 0, 1)",
    "heads, inner, columns": "b",
    "columns, inner, heads": "b.permute(2, 1, 0)",
}
_RESULTS = {
    "as_is": "x",
    "turned": "x.transpose(1, 2)",
    "merged": "x.transpose(0, 1).flatten(1)",
    "back": "x.permute(1, 2, 0)",
}
_BETWEEN = ("", "", "a = a * 0.5", "b = torch.relu(b)", "a = torch.tanh(a)", "b = b - b.mean(dim=-1, keepdim=True)")


def write(draw: Draw) -> str:
    """How each operand is stored, what happens before the product, and how the result leaves."""
    stored_a, stored_b = draw.choose("left", tuple(_LEFT)), draw.choose("right", tuple(_RIGHT))
    turned = [f"{name} = {value}" for name, value in (("a", _LEFT[stored_a]), ("b", _RIGHT[stored_b])) if name != value]
    copied = draw.choose("contiguous", (False, False, True))
    turned = [f"{line}.contiguous()" for line in turned] if copied else turned
    between = draw.choose("between", _BETWEEN)
    place = draw.choose("place", ("before", "after"))
    lines = [between] if between else []
    body = [*lines, *turned] if place == "before" else [*turned, *lines]
    body.append(f"x = {draw.choose('product', ('torch.matmul(a, b)', 'torch.bmm(a, b)', 'a @ b'))}")
    if draw.choose("active", (False, True)):
        body.append(f"x = {activation(draw)}")
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    constants = {"heads": draw.choose("heads", (2, 3, 4)), "rows": draw.choose("rows", (6, 8, 12, 16))}
    constants["inner"] = draw.choose("inner", (4, 8, 10, 16))
    constants["columns"] = draw.choose("columns", (5, 8, 12, 16))
    return program_text(
        constants,
        "A batched product of operands that are stored in other orders.",
        forward=[*body, f"return {_RESULTS[draw.choose('result', tuple(_RESULTS))]}"],
        inputs=[f"torch.randn({stored}, dtype=dtype)" for stored in (stored_a, stored_b)],
        arguments="a, b",
        dtype=dtype,
    )


FAMILY = Family("transposed_operands", "transposes and permutations that feed products", write)
