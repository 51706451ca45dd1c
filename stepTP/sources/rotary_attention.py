"""Rotary position embedding, alone or before attention.

first, second = x.chunk(2, dim=-1)
return x * self.cos + torch.cat([-second, first], dim=-1) * self.sin
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_TABLES = [
    "inverse = 10000.0 ** (-torch.arange(0, width, 2) / width)",
    "angles = torch.outer(torch.arange(tokens), inverse)",
]
_ROTATIONS = {
    "half": (
        ['self.register_buffer("cos", torch.cat([angles.cos(), angles.cos()], dim=-1))',
         'self.register_buffer("sin", torch.cat([angles.sin(), angles.sin()], dim=-1))'],
        ["first, second = {0}.chunk(2, dim=-1)",
         "{0} = {0} * self.cos + torch.cat([-second, first], dim=-1) * self.sin"],
    ),
    "pairs": (
        ['self.register_buffer("cos", angles.cos())', 'self.register_buffer("sin", angles.sin())'],
        ["even, odd = {0}[..., 0::2], {0}[..., 1::2]",
         "turned = (even * self.cos - odd * self.sin, even * self.sin + odd * self.cos)",
         "{0} = torch.stack(turned, dim=-1).flatten(-2)"],
    ),
    "blocks": (
        ['self.register_buffer("cos", angles.cos())', 'self.register_buffer("sin", angles.sin())'],
        ["first, second = {0}.chunk(2, dim=-1)",
         "{0} = torch.cat([first * self.cos - second * self.sin, second * self.cos + first * self.sin], dim=-1)"],
    ),
}  # fmt: skip
_ENDS = {
    "query": ["return query"],
    "scores": ["return torch.matmul(query, key.transpose(-2, -1))"],
    "scaled_scores": ["return torch.matmul(query, key.transpose(-2, -1)) * self.scale"],
    "weights": ["return torch.softmax(torch.matmul(query, key.transpose(-2, -1)) * self.scale, dim=-1)"],
    "attention": ["scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale",
                  "return torch.matmul(torch.softmax(scores, dim=-1), value)"],
    "fused": ["return F.scaled_dot_product_attention(query, key, value)"],
    "causal": ["return F.scaled_dot_product_attention(query, key, value, is_causal=True)"],
}  # fmt: skip


def write(draw: Draw) -> str:
    """How pairs are laid out, what is normalised before, and how far the attention goes."""
    tables, rotation = _ROTATIONS[draw.choose("layout", tuple(_ROTATIONS))]
    body_end = _ENDS[draw.choose("end", tuple(_ENDS))]
    norm = draw.choose("norm", ("none", "none", "unit", "rms"))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "heads": draw.choose("heads", (1, 2))}
    constants["tokens"] = draw.choose("tokens", (4, 6, 8, 10, 12))
    constants["width"] = draw.choose("width", (4, 8, 12))
    names = [name for name in ("query", "key", "value") if any(name in line for line in body_end)]
    body: list[str] = []
    for name in [name for name in names if name != "value"]:
        if norm == "unit":
            body.append(f"{name} = F.normalize({name}, dim=-1)")
        if norm == "rms":
            body.append(f"{name} = {name} * torch.rsqrt({name}.pow(2).mean(dim=-1, keepdim=True) + 1e-6)")
        body += [line.format(name) for line in rotation]
    scale = ["self.scale = width**-0.5"] if any("self.scale" in line for line in body_end) else []
    return program_text(
        constants,
        "Turns pairs of features by angles that grow with the position.",
        state=[*_TABLES, *tables, *scale],
        forward=[*body, *body_end],
        inputs=["torch.randn(batch_size, heads, tokens, width)"] * len(names),
        arguments=", ".join(names),
    )


FAMILY = Family("rotary_attention", "rotary position embedding, alone or before attention", write)
