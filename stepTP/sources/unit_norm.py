"""Normalisation by lengths and sums: L1, L2, maximum, weight norm, cosine products.

x = x / (x.abs().sum(dim=-1, keepdim=True) + 1e-6)
return torch.matmul(x, F.normalize(self.weight, dim=0))
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_NORMS = {
    "l1": ["x = x / (x.abs().sum(dim=AXIS, keepdim=True) + 1e-6)"],
    "l2": ["x = x / torch.sqrt((x * x).sum(dim=AXIS, keepdim=True) + 1e-6)"],
    "library": ["x = F.normalize(x, dim=AXIS)"],
    "library_l1": ["x = F.normalize(x, p=1.0, dim=AXIS)"],
    "maximum": ["x = x / (x.abs().amax(dim=AXIS, keepdim=True) + 1e-6)"],
    "frobenius": ["x = x / torch.sqrt((x * x).sum() + 1e-6)"],
    "vector_norm": ["x = x / (torch.linalg.vector_norm(x, dim=AXIS, keepdim=True) + 1e-6)"],
    "rsqrt": ["x = x * torch.rsqrt((x * x).sum(dim=AXIS, keepdim=True) + 1e-6)"],
    "squash": ["s = (x * x).sum(dim=AXIS, keepdim=True)", "x = x * s / ((1.0 + s) * torch.sqrt(s + 1e-6))"],
    "clipped": [
        "length = torch.sqrt((x * x).sum(dim=AXIS, keepdim=True) + 1e-6)",
        "x = x / torch.clamp(length, min=1.0)",
    ],
    "response": ["x = x / (1.0 + x.abs() / (1.0 + x.abs().mean(dim=AXIS, keepdim=True)))"],
}
_ENDS = ("plain", "scale", "activation", "project", "cosine_weight", "similarity", "residual")


def write(draw: Draw) -> str:
    """What the tensor is divided by, along which axis, and what follows."""
    norm = draw.choose("norm", tuple(_NORMS))
    axis = draw.choose("axis", ("-1", "-1", "1"))
    end = draw.choose("end", _ENDS)
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    constants = {"batch_size": draw.choose("batch", (2, 3, 4)), "tokens": draw.choose("tokens", (4, 6, 8, 12))}
    constants["features"] = draw.choose("features", (6, 8, 12, 16, 24))
    body, state = [line.replace("AXIS", axis) for line in _NORMS[norm]], []
    match end:
        case "scale":
            state = ["self.scale = nn.Parameter(torch.randn(features, dtype=dtype))"]
            body.append("return x * self.scale")
        case "activation":
            body.append(f"return {activation(draw)}")
        case "project" | "cosine_weight":
            constants["outputs"] = draw.choose("outputs", (4, 8, 10))
            state = ["self.weight = nn.Parameter(torch.randn(features, outputs, dtype=dtype))"]
            weight = "self.weight" if end == "project" else "F.normalize(self.weight, dim=0)"
            body.append(f"return torch.matmul(x, {weight})")
        case "similarity":
            body.append("return torch.bmm(x, x.transpose(1, 2))")
        case "residual":
            body = [line.replace("x = ", "h = ") for line in body]
            body.append(f"return x + {activation(draw, 'h')}")
        case _:
            body.append("return x")
    return program_text(
        constants,
        f"Normalises a tensor {'along axis ' + axis if norm != 'frobenius' else 'as a whole'}.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, tokens, features, dtype=dtype)"],
        dtype=dtype,
    )


FAMILY = Family("unit_norm", "normalisation by L1, L2 and other lengths", write)
