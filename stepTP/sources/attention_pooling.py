"""Weighted means of tokens, the weights from a softmax over learned scores.

weights = torch.softmax(torch.matmul(x, self.query), dim=1)
return (weights.unsqueeze(-1) * x).sum(dim=1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_SCORES = {
    "linear": "torch.matmul(x, self.query)",
    "active": "torch.matmul(ACTIVE, self.query)",
    "scaled": "torch.matmul(x, self.query) * x.shape[-1] ** -0.5",
    "bounded": "torch.clamp(torch.matmul(x, self.query), min=-5.0, max=5.0)",
    "distance": "-(x - self.query).pow(2).sum(dim=-1)",
    "length": "(x * self.query).pow(2).sum(dim=-1)",
}
_RESULTS = {
    "sum": ["return (weights.unsqueeze(-1) * x).sum(dim=1)"],
    "centred": ["pooled = (weights.unsqueeze(-1) * x).sum(dim=1)", "return pooled - x.mean(dim=1)"],
    "product": ["return torch.matmul(weights.unsqueeze(1), x).squeeze(1)"],
    "einsum": ['return torch.einsum("bt,btf->bf", weights, x)'],
    "entropy": ["return -(weights * torch.log(weights + 1e-6)).sum(dim=-1)"],
    "variance": [
        "mean = (weights.unsqueeze(-1) * x).sum(dim=1, keepdim=True)",
        "return (weights.unsqueeze(-1) * (x - mean).pow(2)).sum(dim=1)",
    ],
    "active": ["pooled = (weights.unsqueeze(-1) * x).sum(dim=1)", "return ACTIVE"],
    "peak": ["return x.amax(dim=1) * weights.amax(dim=1, keepdim=True)"],
}
_WEIGHTS = {
    "softmax": ["weights = torch.softmax(scores, dim=1)"],
    "sigmoid": ["weights = torch.sigmoid(scores)", "weights = weights / (weights.sum(dim=1, keepdim=True) + 1e-3)"],
    "cooled": ["weights = torch.softmax(scores / 2.0, dim=1)"],
}


def write(draw: Draw) -> str:
    """Scores of tokens, their weights, and what the weights are used for."""
    constants = {"batch_size": draw.choose("batch", (2, 4, 6, 8)), "tokens": draw.choose("tokens", (4, 8, 10, 16, 24))}
    constants["features"] = draw.choose("features", (8, 12, 16, 24, 32))
    scores = _SCORES[draw.choose("scores", tuple(_SCORES))]
    if "ACTIVE" in scores:
        scores = scores.replace("ACTIVE", activation(draw, "x"))
    results = _RESULTS[draw.choose("result", tuple(_RESULTS))]
    if "return ACTIVE" in results:
        results = [*results[:-1], f"return {activation(draw, 'pooled', 'last')}"]
    return program_text(
        constants,
        "Pools the tokens of a sequence with learned attention.",
        state=["self.query = nn.Parameter(torch.randn(features) * features**-0.5)"],
        forward=[f"scores = {scores}", *_WEIGHTS[draw.choose("weights", tuple(_WEIGHTS))], *results],
        inputs=["torch.randn(batch_size, tokens, features)"],
    )


FAMILY = Family("attention_pooling", "softmax-weighted means over tokens", write)
