"""Pairwise distances, radial kernels and regressions weighted by them.

squared = (x.unsqueeze(1) - points.unsqueeze(0)).pow(2).sum(dim=-1)
weights = torch.softmax(-squared, dim=-1)
return torch.matmul(weights, values)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_DISTANCES = {
    "broadcast": ["squared = (x.unsqueeze(1) - points.unsqueeze(0)).pow(2).sum(dim=-1)"],
    "expanded": ["lengths = (x * x).sum(dim=1, keepdim=True) + (points * points).sum(dim=1)",
                 "squared = torch.clamp(lengths - 2.0 * torch.matmul(x, points.t()), min=0.0)"],
    "absolute": ["squared = torch.abs(x.unsqueeze(1) - points).sum(dim=-1)"],
    "maximum": ["squared = torch.abs(x.unsqueeze(1) - points).amax(dim=-1)"],
    "scaled": ["squared = ((x.unsqueeze(1) - points) * self.scale).pow(2).sum(dim=-1)"],
}  # fmt: skip
_KERNELS = {
    "plain": "",
    "radial": "squared = torch.exp(-0.5 * squared)",
    "rational": "squared = 1.0 / (1.0 + squared)",
    "root": "squared = torch.sqrt(squared + 1e-4)",
    "logarithm": "squared = torch.log(1.0 + squared)",
    "multiquadric": "squared = torch.sqrt(1.0 + 0.5 * squared)",
    "compact": "squared = F.relu(1.0 - 0.05 * squared).pow(2)",
}
_ENDS = {
    "matrix": ["return kernel"],
    "regression": ["weights = torch.softmax(-kernel, dim=-1)", "return torch.matmul(weights, values)"],
    "average": ["weights = kernel / (kernel.sum(dim=-1, keepdim=True) + 1e-2)", "return torch.matmul(weights, values)"],
    "sum": ["return torch.matmul(kernel, values)"],
    "nearest": ["return kernel.amin(dim=-1)"],
    "density": ["return torch.logsumexp(-kernel, dim=-1)"],
    "assignment": ["return torch.softmax(-kernel, dim=0).sum(dim=1) + kernel.mean(dim=1)"],
    "centred": ["return kernel - kernel.mean(dim=0) - kernel.mean(dim=1, keepdim=True)"],
}


def write(draw: Draw) -> str:
    """All pairs of points, the kernel of their distances, and what is done with it."""
    constants = {"queries": draw.choose("queries", (4, 8, 12, 16)), "points": draw.choose("points", (6, 8, 10, 16))}
    constants["dimensions"] = draw.choose("dimensions", (3, 4, 6, 8))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    distance = draw.choose("distance", tuple(_DISTANCES))
    kernel = _KERNELS[draw.choose("kernel", tuple(_KERNELS))]
    end = _ENDS[draw.choose("end", tuple(_ENDS))]
    body = [*_DISTANCES[distance], f"kernel = {kernel.removeprefix('squared = ')}" if kernel else ""]
    body += end if kernel else [line.replace("kernel", "squared") for line in end]
    names = ["x", "points", *(["values"] if any("values" in line for line in end) else [])]
    return program_text(
        constants,
        "Compares every query with every point.",
        state=["self.scale = nn.Parameter(0.5 + torch.rand(dimensions, dtype=dtype))"] if distance == "scaled" else [],
        forward=[line for line in body if line],
        inputs=[
            f"torch.randn({rows}, dimensions, dtype=dtype)" for rows in ("queries", "points", "points")[: len(names)]
        ],
        arguments=", ".join(names),
        dtype=dtype,
    )


FAMILY = Family("kernel_regression", "pairwise distances and kernels", write)
