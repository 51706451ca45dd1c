"""Matrix products of every shape: square, tall, wide, batched, with either operand transposed.

x = torch.matmul(a.t(), b)
return x * 0.5
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import steps
from stepTP.sources.text import program_text

_SHAPES = {
    "square": ((16, 20, 24, 32), (16, 20, 24, 32), (16, 20, 24, 32)),
    "tall": ((48, 56, 64), (4, 6, 8), (8, 12, 16)),
    "wide": ((4, 6, 8), (8, 12, 16), (48, 56, 64)),
    "deep": ((4, 6, 8), (48, 56, 64), (4, 6, 8)),
    "irregular": ((7, 11, 13), (9, 17, 21), (5, 15, 19)),
}
_PLAIN = {"matmul": "torch.matmul({}, {})", "operator": "{} @ {}", "mm": "torch.mm({}, {})"}


def write(draw: Draw) -> str:
    """Shape, batches, transposes, the way it is written, the dtype, and an element-wise end."""
    rows, inner, columns = _SHAPES[draw.choose("shape", tuple(_SHAPES))]
    batched = draw.choose("batched", ("no", "no", "both", "left", "heads"))
    left = draw.choose("transpose_left", (False, True))
    right = draw.choose("transpose_right", (False, True))
    dtype = draw.choose("dtype", ("f32", "f32", "f64", "f16", "bf16"))
    size = {"rows": draw.choose("rows", rows), "inner": draw.choose("inner", inner)}
    size["columns"] = draw.choose("columns", columns)
    lead = {"no": {}, "heads": {"batch_size": draw.choose("batch", (2, 3)), "heads": 2}}.get(
        batched, {"batch_size": 2 if draw.knobs["shape"] == "square" else 3}
    )
    flat = "" if batched == "left" else "".join(f"{name}, " for name in lead)
    turned = ".t()" if not lead else ".transpose(-2, -1)"
    first = "a" + (turned if left else "")
    second = "b" + (turned if right and batched != "left" else ".t()" if right else "")
    written = draw.choose("written", tuple(_PLAIN) if not lead else ("matmul", "operator"))
    product = _PLAIN[written].format(first, second)
    if batched == "both" and draw.choose("bmm", (False, True)):
        product = f"torch.bmm({first}, {second})"
    end = steps(draw, (0, 0, 1, 2), ("x = x * 0.5", "x = torch.relu(x)", "x = torch.tanh(x)", "x = x + 1.0"))
    order = {False: "{}, {}", True: "{1}, {0}"}
    shapes = ["".join(f"{name}, " for name in lead) + order[left].format("rows", "inner")]
    shapes.append(flat + order[right].format("inner", "columns"))
    return program_text(
        lead | size,
        f"A product of two {'matrices' if not lead else 'batches of matrices' if flat else 'operands, one batched'}.",
        forward=[f"x = {product}", *end, "return x"] if end else [f"return {product}"],
        inputs=[f"torch.randn({shape}, dtype=dtype)" for shape in shapes],
        arguments="a, b",
        dtype=dtype,
    )


FAMILY = Family("matmul", "matrix products of every shape, batched and transposed", write)
