"""Chains of matrix products: bilinear forms, low-rank updates, Gram matrices.

scores = torch.bmm(torch.matmul(a, self.weight), b.transpose(1, 2))
return torch.tanh(scores)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_SQUARE = ["self.weight = nn.Parameter(torch.randn(features, features) * features**-0.5)"]
_FORMS = {
    "bilinear": (["x = torch.bmm(torch.matmul(a, self.weight), b.transpose(1, 2))"], _SQUARE),
    "low_rank": (
        ["x = b + 0.5 * torch.matmul(torch.matmul(a, self.down), self.up)"],
        ["self.down = nn.Parameter(torch.randn(features, rank) * features**-0.5)",
         "self.up = nn.Parameter(torch.randn(rank, features) * rank**-0.5)"],
    ),
    "grams": (["x = torch.bmm(a, a.transpose(1, 2)) + torch.bmm(b, b.transpose(1, 2))"], []),
    "gram_product": (["x = torch.bmm(torch.bmm(a, a.transpose(1, 2)), b)"], []),
    "projected_product": (["x = torch.matmul(a, self.weight) * b"], _SQUARE),
    "affinity": (["scores = torch.bmm(a, b.transpose(1, 2))",
                  "x = scores / (scores.abs().sum(dim=-1, keepdim=True) + 1.0)"], []),
    "covariance": (["a, b = a - a.mean(dim=1, keepdim=True), b - b.mean(dim=1, keepdim=True)",
                    "x = torch.bmm(a.transpose(1, 2), b) / a.shape[1]"], []),
    "two_sided": (["x = torch.matmul(self.weight, torch.bmm(a.transpose(1, 2), b))"], _SQUARE),
    "chain": (["x = torch.matmul(torch.matmul(a + b, self.weight), self.weight.t())"], _SQUARE),
    "commutator": (["left = torch.bmm(a, b.transpose(1, 2))", "x = left - torch.bmm(b, a.transpose(1, 2))"], []),
}  # fmt: skip
_BEFORE = ("", "", "a = a * 0.5", "b = torch.relu(b)", "a = torch.tanh(a)", "b = b + a")
_ENDS = ("x", "x / a.shape[-1]", "x.sum(dim=-1)", "torch.softmax(x, dim=-1)", "x.amax(dim=1)", "active")


def write(draw: Draw) -> str:
    """Two batched operands, one or two products, and an end."""
    constants = {"batch_size": draw.choose("batch", (2, 3, 4)), "rows": draw.choose("rows", (4, 6, 8, 12))}
    constants["features"] = draw.choose("features", (8, 12, 16, 24))
    form = draw.choose("form", tuple(_FORMS))
    body, state = _FORMS[form]
    if form == "low_rank":
        constants["rank"] = draw.choose("rank", (2, 4, 6))
    before, end = draw.choose("before", _BEFORE), draw.choose("end", _ENDS)
    result = activation(draw) if end == "active" else end
    return program_text(
        constants,
        "Products of batched matrices.",
        state=state,
        forward=[*([before] if before else []), *body, f"return {result}"],
        inputs=["torch.randn(batch_size, rows, features)"] * 2,
        arguments="a, b",
    )


FAMILY = Family("batched_matmul", "chains of batched matrix products", write)
