"""Attention with something added to its scores: relative positions, slopes by distance, windows, given biases.

scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale
scores = scores - self.slopes * self.distance
return torch.matmul(torch.softmax(scores, dim=-1), value)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_DISTANCE = [
    "place = torch.arange(tokens)",
    'self.register_buffer("distance", (place.unsqueeze(1) - place).abs().float())',
]
_BIASES = {
    "given": ([], "scores = scores + bias"),
    "learned": (["self.bias = nn.Parameter(torch.randn(heads, tokens, tokens))"], "scores = scores + self.bias"),
    "slopes": (
        [*_DISTANCE, "self.slopes = nn.Parameter(0.5 ** torch.arange(1, heads + 1).view(heads, 1, 1))"],
        "scores = scores - self.slopes * self.distance",
    ),
    "window": ([*_DISTANCE], "scores = scores.masked_fill(self.distance > 2, -1e4)"),
    "decay": ([*_DISTANCE], "scores = scores * torch.exp(-0.1 * self.distance)"),
    "relative": (
        ["place = torch.arange(tokens)", 'self.register_buffer("offset", place.unsqueeze(1) - place + tokens - 1)',
         "self.table = nn.Parameter(torch.randn(2 * tokens - 1))"],
        "scores = scores + self.table[self.offset]",
    ),
    "causal_window": (
        ["place = torch.arange(tokens)", "ahead = place - place.unsqueeze(1)",
         'self.register_buffer("hidden", (ahead > 0) | (ahead < -3))'],
        "scores = scores.masked_fill(self.hidden, -1e4)",
    ),
}  # fmt: skip
_WEIGHTS = {
    "softmax": ["weights = torch.softmax(scores, dim=-1)"],
    "shifted": [
        "scores = scores - scores.amax(dim=-1, keepdim=True)",
        "weights = torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True)",
    ],
    "sigmoid": ["weights = torch.sigmoid(scores) / scores.shape[-1]"],
    "squared_relu": ["weights = F.relu(scores).pow(2) / scores.shape[-1]"],
}


def write(draw: Draw) -> str:
    """What is added to the scores, in which order with the scale, and how the scores become weights."""
    bias = draw.choose("bias", tuple(_BIASES))
    own, line = _BIASES[bias]
    constants = {"batch_size": draw.choose("batch", (1, 2)), "heads": draw.choose("heads", (1, 2, 4))}
    constants["tokens"] = draw.choose("tokens", (6, 8, 10, 12))
    constants["width"] = draw.choose("width", (4, 8))
    product = draw.choose("product", ("matmul", "einsum"))
    scores = {
        "matmul": "torch.matmul(query, key.transpose(-2, -1))",
        "einsum": 'torch.einsum("bhqd,bhkd->bhqk", query, key)',
    }[product]
    first = draw.choose("scale", ("scores", "query", "none"))
    body = ["query = query * self.scale"] if first == "query" else []
    body.append(f"scores = {scores}{' * self.scale' if first == 'scores' else ''}")
    body += [line, *_WEIGHTS[draw.choose("weights", tuple(_WEIGHTS))]]
    body.append(
        draw.choose("result", ("return torch.matmul(weights, value)", "return torch.matmul(weights, value) + value"))
    )
    shape = "torch.randn(batch_size, heads, tokens, width)"
    return program_text(
        constants,
        "Attention with a bias, a window or a decay by position.",
        state=["self.scale = width**-0.5", *own] if first != "none" else own,
        forward=body,
        inputs=[shape, shape, shape, *(["torch.randn(heads, tokens, tokens)"] if bias == "given" else [])],
        arguments="query, key, value, bias" if bias == "given" else "query, key, value",
    )


FAMILY = Family("biased_attention", "attention with biases, windows and decays by position", write)
