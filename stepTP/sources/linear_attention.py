"""Attention without a softmax over scores: positive feature maps, retention, gated sums.

query, key = F.elu(query) + 1.0, F.elu(key) + 1.0
memory = torch.matmul(key.transpose(-2, -1), value)
norm = torch.matmul(query, key.sum(dim=-2).unsqueeze(-1))
return torch.matmul(query, memory) / (norm + 1e-6)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_MAPS = {
    "elu": "F.elu({}) + 1.0",
    "relu": "F.relu({}) + 0.1",
    "square": "{0} * {0} + 0.1",
    "exponential": "torch.exp(torch.clamp({}, min=-6.0, max=6.0))",
    "softmax": "torch.softmax({}, dim=-1)",
    "softplus": "F.softplus({})",
    "sigmoid": "torch.sigmoid({})",
}
_FORMS = {
    "memory": ["memory = torch.matmul(key.transpose(-2, -1), value)", "x = torch.matmul(query, memory)"],
    "scores": ["scores = torch.matmul(query, key.transpose(-2, -1))", "x = torch.matmul(scores, value)"],
    "causal": ["scores = torch.tril(torch.matmul(query, key.transpose(-2, -1)))", "x = torch.matmul(scores, value)"],
    "outer": [
        "memory = torch.cumsum(key.unsqueeze(-1) * value.unsqueeze(-2), dim=-3)",
        "x = (query.unsqueeze(-1) * memory).sum(dim=-2)",
    ],
}
_NORMS = {
    "none": ["return x"],
    "count": ["return x / key.shape[-2]"],
    "keys": ["total = key.sum(dim=-2, keepdim=True)", "return x / ((query * total).sum(dim=-1, keepdim=True) + 0.1)"],
    "absolute": ["return x / (x.abs().sum(dim=-1, keepdim=True) + 1.0)"],
    "gate": ["return x * torch.sigmoid(query)"],
    "residual": ["return x + value"],
}


def write(draw: Draw) -> str:
    """The feature map of each side, the order of the products, and how the sum is normalised."""
    form = _FORMS[draw.choose("form", tuple(_FORMS))]
    same = draw.choose("same_map", (True, True, False))
    first = draw.choose("map", tuple(_MAPS))
    second = first if same else draw.choose("key_map", tuple(_MAPS))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "heads": draw.choose("heads", (1, 2))}
    constants["tokens"] = draw.choose("tokens", (6, 8, 12, 16))
    constants["width"] = draw.choose("width", (4, 6, 8))
    maps = [f"query = {_MAPS[first].format('query')}", f"key = {_MAPS[second].format('key')}"]
    return program_text(
        constants,
        "Attention by feature maps of queries and keys.",
        forward=[*maps, *form, *_NORMS[draw.choose("norm", tuple(_NORMS))]],
        inputs=["torch.randn(batch_size, heads, tokens, width)"] * 3,
        arguments="query, key, value",
    )


FAMILY = Family("linear_attention", "attention by feature maps, without a softmax of scores", write)
