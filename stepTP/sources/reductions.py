"""One reduction of a tensor, what is reduced, and what is done with the result.

x = torch.abs(x)
x = x.amax(dim=1, keepdim=True)
return torch.sqrt(x + 1.0)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_BEFORE = {
    "nothing": (),
    "square": ("x = x * x",),
    "absolute": ("x = torch.abs(x)",),
    "scale": ("x = x * 0.5",),
    "bounded": ("x = torch.tanh(x)",),
    "positive_part": ("x = torch.clamp(x, min=0.0)",),
}
_REDUCTIONS = {
    "sum": "x.sum(dim=AXIS, keepdim=KEEP)",
    "mean": "x.mean(dim=AXIS, keepdim=KEEP)",
    "maximum": "x.amax(dim=AXIS, keepdim=KEEP)",
    "minimum": "x.amin(dim=AXIS, keepdim=KEEP)",
    "variance": "x.var(dim=AXIS, keepdim=KEEP)",
    "population_variance": "x.var(dim=AXIS, correction=0, keepdim=KEEP)",
    "log_sum_exp": "torch.logsumexp(x, dim=AXIS, keepdim=KEEP)",
    "norm": "torch.linalg.vector_norm(x, dim=AXIS, keepdim=KEEP)",
    "norm1": "torch.linalg.vector_norm(x, ord=1, dim=AXIS, keepdim=KEEP)",
    "product": "torch.prod(1.0 + 0.1 * torch.tanh(x), dim=AXIS, keepdim=KEEP)",
    "argmax": "torch.argmax(x, dim=AXIS, keepdim=KEEP)",
    "argmin": "torch.argmin(x, dim=AXIS, keepdim=KEEP)",
    "deviation": "x.std(dim=AXIS, keepdim=KEEP)",
    "norm3": "torch.linalg.vector_norm(x, ord=3, dim=AXIS, keepdim=KEEP)",
    "any": "torch.any(x > 1.5, dim=AXIS, keepdim=KEEP)",
    "all": "torch.all(x > -1.5, dim=AXIS, keepdim=KEEP)",
    "count": "(x > 0.1).sum(dim=AXIS, keepdim=KEEP)",
}
_AFTER = {
    "nothing": "x",
    "root": "torch.sqrt(torch.abs(x) + 1.0)",
    "scale": "x * 0.25",
    "logarithm": "torch.log(1.0 + torch.abs(x))",
    "inverse": "1.0 / (1.0 + x * x)",
}
_WHOLE = ("argmax", "argmin", "count", "any", "all", "product")  # take one axis
_PREDICATES = {"count": ("nothing", "square", "scale"), "any": ("nothing",), "all": ("nothing",)}  # and what suits them
_PLAIN = ("argmax", "argmin", "count", "any", "all")  # are no floats, and stay as they are


def write(draw: Draw) -> str:
    """Rank 2 to 4, one axis or two, the axis kept or not."""
    rank = draw.choose("rank", (2, 3, 3, 4))
    reduction = draw.choose("reduction", tuple(_REDUCTIONS))
    axes = ["0", "1", "-1"] if reduction in _WHOLE or rank == 2 else ["0", "1", "-1", "(0, 1)", "(1, 2)", "(0, -1)"]
    axis = draw.choose("axis", axes)
    keep = draw.choose("keepdim", (False, True))
    dtype = draw.choose("dtype", ("f32", "f32", "f64", "f16", "bf16") if reduction in ("sum", "mean", "maximum")
                        else ("f32", "f32", "f64"))  # fmt: skip
    names = ("batch_size", "rows", "columns", "depth")[:rank]
    top = {2: (8, 16, 24, 32, 48, 64), 3: (6, 8, 12, 16, 20), 4: (4, 5, 6, 8)}[rank]
    constants = {name: draw.choose(name, top) for name in names}
    body = _REDUCTIONS[reduction].replace("AXIS", axis).replace(", keepdim=KEEP", ", keepdim=True" if keep else "")
    after = "nothing" if reduction in _PLAIN else draw.choose("after", tuple(_AFTER))
    before = _BEFORE[draw.choose("before", tuple(_BEFORE) if reduction not in _PREDICATES else _PREDICATES[reduction])]
    tail = [f"return {body}"] if after == "nothing" else [f"x = {body}", f"return {_AFTER[after]}"]
    return program_text(
        constants,
        f"Reduces {'axes' if '(' in axis else 'axis'} {axis.strip('()')} of a tensor.",
        forward=[*before, *tail],
        inputs=[f"torch.randn({', '.join(names)}, dtype=dtype)"],
        dtype=dtype,
    )


FAMILY = Family("reductions", "each reduction, over one or two axes", write)
