"""Attention whose heads share keys and values: grouped-query and multi-query.

key = key.repeat_interleave(self.group, dim=1)
value = value.repeat_interleave(self.group, dim=1)
weights = torch.softmax(torch.matmul(query, key.transpose(-2, -1)) * self.scale, dim=-1)
return torch.matmul(weights, value)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_SHARE = {
    "repeat": ["key = key.repeat_interleave(self.group, dim=1)", "value = value.repeat_interleave(self.group, dim=1)"],
    "expand": [
        "key = key.unsqueeze(2).expand(-1, -1, self.group, -1, -1).flatten(1, 2)",
        "value = value.unsqueeze(2).expand(-1, -1, self.group, -1, -1).flatten(1, 2)",
    ],
    "group_query": [
        "query = query.unflatten(1, (-1, self.group))",
        "key, value = key.unsqueeze(2), value.unsqueeze(2)",
    ],
}
_SCALES = {
    "scores": ("self.scale = width**-0.5", [], "torch.matmul(query, key.transpose(-2, -1)) * self.scale"),
    "query": ("self.scale = width**-0.5", ["query = query * self.scale"], "torch.matmul(query, key.transpose(-2, -1))"),
    "quotient": ("self.root = width**0.5", [], "query @ key.transpose(-2, -1) / self.root"),
}
_WEIGHTS = {
    "softmax": ["weights = torch.softmax(scores, dim=-1)", "x = torch.matmul(weights, value)"],
    "shifted": [
        "weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))",
        "x = torch.matmul(weights, value) / weights.sum(dim=-1, keepdim=True)",
    ],
    "sink": [
        "top = torch.clamp(scores.amax(dim=-1, keepdim=True), min=0.0)",
        "weights = torch.exp(scores - top)",
        "x = torch.matmul(weights / (weights.sum(dim=-1, keepdim=True) + torch.exp(-top)), value)",
    ],
}
_MASKS = {
    "causal": 'self.register_buffer("hidden", torch.ones(tokens, tokens, dtype=torch.bool).triu(1))',
    "window": 'self.register_buffer("hidden", (place - place.unsqueeze(1)).abs() > 2)',
}


def write(draw: Draw) -> str:
    """How heads share, masks, caps, what is projected, how weights are computed, and the form of the result."""
    shared = draw.choose("key_heads", (1, 1, 2))
    group = draw.choose("group", (2, 4))
    share = draw.choose("share", tuple(_SHARE))
    mask = draw.choose("mask", ("none", "causal", "window"))
    form = draw.choose("form", ("written", "written", "fused"))
    cap = draw.choose("cap", (False, False, True)) and form == "written"
    norm = draw.choose("query_norm", (False, False, True))
    merge = draw.choose("merge", (False, True))
    projected = draw.choose("projected", (False, True))
    output = draw.choose("output_projection", (False, False, True))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "heads": group * shared, "key_heads": shared}
    constants["tokens"] = draw.choose("tokens", (4, 6, 8, 12))
    constants["width"] = draw.choose("width", (4, 8))
    state, body = ["self.group = heads // key_heads"], []
    if projected:
        state.append("self.project = nn.Linear(width, width, bias=False)")
        body.append("query = self.project(query)")
    if norm:
        body.append("query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)")
    body += _SHARE[share]
    if mask != "none" and not (form == "fused" and mask == "causal"):
        state += ["place = torch.arange(tokens)"] if mask == "window" else []
        state.append(_MASKS[mask])
    if form == "fused":
        options = {"none": "", "causal": ", is_causal=True", "window": ", attn_mask=~self.hidden"}[mask]
        body.append(f"x = F.scaled_dot_product_attention(query, key, value{options})")
    else:
        scale, before, scores = _SCALES[draw.choose("scale", tuple(_SCALES))]
        state.append(scale)
        body += [*before, f"scores = {scores}"]
        if cap:
            body.append("scores = 10.0 * torch.tanh(scores / 10.0)")
        if mask != "none":
            body.append("scores = scores.masked_fill(self.hidden, -1e4)")
        body += _WEIGHTS[draw.choose("weights", tuple(_WEIGHTS))]
    if share == "group_query":
        body.append("x = x.flatten(1, 2)")
    if merge:
        body.append("x = x.transpose(1, 2).flatten(2)")
    if output:
        size = "heads * width" if merge else "width"
        state.append(f"self.output = nn.Linear({size}, {size}, bias=False)")
    body.append("return self.output(x)" if output else "return x")
    keys = "torch.randn(batch_size, key_heads, tokens, width)"
    return program_text(
        constants,
        f"{'Multi-query' if shared == 1 else 'Grouped-query'} attention{', causal' if mask == 'causal' else ''}.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, heads, tokens, width)", keys, keys],
        arguments="query, key, value",
    )


FAMILY = Family("grouped_query_attention", "attention whose heads share keys and values", write)
