"""A matrix product or linear layer and a chain of two to six steps.

x = self.linear(x)
x = x / 3.0
x = F.hardtanh(x, min_val=-2.0, max_val=2.0)
return torch.logsumexp(x, dim=1, keepdim=True)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import STEPS, steps
from stepTP.sources.text import program_text

_OWN = ("x = x * self.scale", "x = x + self.shift", "x = x - x.mean(dim=1, keepdim=True)")
_ENDS = {
    "plain": "x",
    "sum": "x.sum(dim=1, keepdim=True)",
    "max": "x.amax(dim=1)",
    "softmax": "torch.softmax(x, dim=1)",
    "log_sum_exp": "torch.logsumexp(x, dim=1, keepdim=True)",
    "residual": "x + residual",
    "norm": "F.layer_norm(x, x.shape[1:])",
}


def write(draw: Draw) -> str:
    """How the product is made, the steps after it, the end and the dtype."""
    dtype = draw.choose("dtype", ("f32", "f32", "f32", "f64", "bf16"))
    product = draw.choose("product", ("linear", "linear", "weight", "weight_transposed"))
    constants = {"batch_size": draw.choose("batch", (4, 8, 12, 16))}
    constants["in_features"] = draw.choose("in_features", (8, 16, 24, 32))
    constants["out_features"] = draw.choose("out_features", (8, 12, 16, 24, 32))
    plain = tuple(line for line in STEPS if dtype != "bf16" or "F." not in line)
    body = steps(draw, (2, 3, 4, 5, 6), (*plain, *_OWN))
    end = _ENDS[draw.choose("end", tuple(_ENDS))]
    match product:
        case "linear":
            bias = "" if draw.choose("bias", (True, False)) else ", bias=False"
            first = "x = self.linear(x)"
            state = [f"self.linear = nn.Linear(in_features, out_features{bias}, dtype=dtype)"]
        case "weight":
            first = "x = torch.matmul(x, self.weight)"
            state = ["self.weight = nn.Parameter(0.2 * torch.randn(in_features, out_features, dtype=dtype))"]
        case _:
            first = "x = torch.matmul(x, self.weight.t())"
            state = ["self.weight = nn.Parameter(0.2 * torch.randn(out_features, in_features, dtype=dtype))"]
    for name, value in (("scale", "1.0 + 0.1 * torch.randn"), ("shift", "torch.randn")):
        if any(f"self.{name}" in line for line in body):
            state.append(f"self.{name} = nn.Parameter({value}(out_features, dtype=dtype))")
    residual = ", residual" if "residual" in end else ""
    shapes = ["batch_size, in_features", "batch_size, out_features"][: 2 if residual else 1]
    return program_text(
        constants,
        "A linear map with a chain of steps after it.",
        state=state,
        forward=[first, *body, f"return {end}"],
        inputs=[f"torch.randn({shape}, dtype=dtype)" for shape in shapes],
        arguments=f"x{residual}",
        dtype=dtype,
    )


FAMILY = Family("matmul_epilogue", "a linear map with a chain of two to six steps", write)
