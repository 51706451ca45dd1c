"""Attention on given queries, keys and values: fused call or written out, causal or not.

scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale
scores = torch.where(self.allowed, scores, -1e4)
weights = torch.softmax(scores, dim=-1)
return torch.matmul(weights, value)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_SCORES = {
    "transpose": "torch.matmul(query, key.transpose(-2, -1))",
    "operator": "query @ key.transpose(-1, -2)",
    "einsum": 'torch.einsum("bhqd,bhkd->bhqk", query, key)',
}
_MASKS = {
    "where": "scores = torch.where(self.allowed, scores, -1e4)",
    "fill": "scores = scores.masked_fill(~self.allowed, -1e4)",
    "infinite": 'scores = scores.masked_fill(~self.allowed, float("-inf"))',
    "additive": "scores = scores + (self.allowed.float() - 1.0) * 1e4",
}
_WEIGHTS = {
    "softmax": ["weights = torch.softmax(scores, dim=-1)"],
    "functional": ["weights = F.softmax(scores, dim=-1)"],
    "shifted": [
        "weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))",
        "weights = weights / weights.sum(dim=-1, keepdim=True)",
    ],
    "late": [
        "weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))",
        "total = weights.sum(dim=-1, keepdim=True)",
    ],
}


def write(draw: Draw) -> str:
    """Single or several heads; the fused function, or scores, softmax and product as lines."""
    constants = {"batch_size": draw.choose("batch", (1, 2, 3)), "heads": draw.choose("heads", (1, 2, 4))}
    constants["queries"] = queries = draw.choose("queries", (4, 8, 10, 16))
    causal = draw.choose("causal", (False, True))
    form = draw.choose("form", ("fused", "written", "written", "written"))
    constants["keys"] = queries if causal else draw.choose("keys", (6, 8, 12, 16, 24))
    constants["width"] = draw.choose("width", (4, 8, 12, 16))
    dtype = draw.choose("dtype", ("f32", "f32", "f32", "f64"))
    state: list[str] = []
    if form == "fused":
        options = ", is_causal=True" if causal else ""
        body = [f"return F.scaled_dot_product_attention(query, key, value{options})"]
    else:
        state = ["self.scale = width**-0.5"]
        first = _SCORES[draw.choose("scores", tuple(_SCORES))]
        match draw.choose("scale", ("scores", "query", "quotient")):
            case "query":
                body = ["query = query * self.scale", f"scores = {first}"]
            case "quotient":
                state = ["self.root = width**0.5"]
                body = [f"scores = {first} / self.root"]
            case _:
                body = [f"scores = {first} * self.scale"]
        if draw.choose("capped", (False, False, True)):
            body.append("scores = 5.0 * torch.tanh(scores / 5.0)")
        if causal:
            state.append('self.register_buffer("allowed", torch.ones(queries, keys, dtype=torch.bool).tril())')
            masks = [mask for mask in _MASKS if mask != "additive" or dtype == "f32"]
            body.append(_MASKS[draw.choose("mask", masks)])
        weights = draw.choose("weights", tuple(_WEIGHTS))
        body += _WEIGHTS[weights]
        body.append(f"return torch.matmul(weights, value){' / total' if weights == 'late' else ''}")
    keys = "torch.randn(batch_size, heads, keys, width, dtype=dtype)"
    return program_text(
        constants,
        f"Scaled dot-product attention{' with a causal mask' if causal else ''}.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, heads, queries, width, dtype=dtype)", keys, keys],
        arguments="query, key, value",
        dtype=dtype,
    )


FAMILY = Family("attention", "scaled dot-product attention, fused or written out, causal or not", write)
