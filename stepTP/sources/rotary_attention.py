"""Rotary position embedding, alone or before attention.

first, second = x.chunk(2, dim=-1)
return x * self.cos + torch.cat([-second, first], dim=-1) * self.sin
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

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
    "in_forward": (
        ['self.register_buffer("angles", torch.cat([angles, angles], dim=-1))'],
        ["first, second = {0}.chunk(2, dim=-1)",
         "{0} = {0} * self.angles.cos() + torch.cat([-second, first], dim=-1) * self.angles.sin()"],
    ),
}  # fmt: skip
_PLACES = {
    "from_zero": "torch.arange(tokens)",
    "later": "torch.arange(tokens) + 16",
    "stretched": "torch.arange(tokens) / 4.0",
}
_ENDS = {
    "query": ["return query"],
    "both": ["return query, key"],
    "scores": ["return torch.matmul(query, key.transpose(-2, -1))"],
    "scaled_scores": ["return torch.matmul(query, key.transpose(-2, -1)) * self.scale"],
    "weights": ["return torch.softmax(torch.matmul(query, key.transpose(-2, -1)) * self.scale, dim=-1)"],
    "attention": ["scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale",
                  "return torch.matmul(torch.softmax(scores, dim=-1), value)"],
    "windowed": ["scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale",
                 "scores = scores.masked_fill(self.hidden, -1e4)",
                 "return torch.matmul(torch.softmax(scores, dim=-1), value)"],
    "fused": ["return F.scaled_dot_product_attention(query, key, value)"],
    "causal": ["return F.scaled_dot_product_attention(query, key, value, is_causal=True)"],
    "linear": ["query, key = F.elu(query) + 1.0, F.elu(key) + 1.0",
               "return torch.matmul(query, torch.matmul(key.transpose(-2, -1), value)) * self.scale"],
}  # fmt: skip
_WINDOW = 'self.register_buffer("hidden", (place - place.unsqueeze(1)).abs() > 2)'


def write(draw: Draw) -> str:
    """How pairs are laid out, where positions begin, what is normalised or projected before, and how far it goes."""
    tables, rotation = _ROTATIONS[draw.choose("layout", tuple(_ROTATIONS))]
    body_end = _ENDS[draw.choose("end", tuple(_ENDS))]
    norm = draw.choose("norm", ("none", "none", "unit", "rms"))
    places = draw.choose("places", tuple(_PLACES))
    projected = draw.choose("projected", (False, False, True))
    part = draw.choose("rotated_part", ("all", "all", "half"))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "heads": draw.choose("heads", (1, 2))}
    constants["tokens"] = draw.choose("tokens", (4, 6, 8, 10, 12))
    constants["width"] = draw.choose("width", (4, 8, 12) if part == "all" else (8, 16))
    names = [name for name in ("query", "key", "value") if any(name in line for line in body_end)]
    turned = "width" if part == "all" else "width // 2"
    state = [f"inverse = 10000.0 ** (-torch.arange(0, {turned}, 2) / ({turned}))".replace("(width)", "width")]
    state += ["place = torch.arange(tokens)"] if "self.hidden" in "".join(body_end) else []
    state += [f"angles = torch.outer({_PLACES[places]}, inverse)", *tables]
    state += [_WINDOW] if "self.hidden" in "".join(body_end) else []
    body: list[str] = []
    for name in [name for name in names if name != "value"]:
        if projected:
            state.append(f"self.{name} = nn.Linear(width, width, bias=False)")
            body.append(f"{name} = self.{name}({name})")
        if norm == "unit":
            body.append(f"{name} = F.normalize({name}, dim=-1)")
        if norm == "rms":
            body.append(f"{name} = {name} * torch.rsqrt({name}.pow(2).mean(dim=-1, keepdim=True) + 1e-6)")
        if part == "all":
            body += [line.format(name) for line in rotation]
        else:
            body += [f"turning, rest = {name}.chunk(2, dim=-1)", *(line.format("turning") for line in rotation)]
            body.append(f"{name} = torch.cat([turning, rest], dim=-1)")
    state += ["self.scale = width**-0.5"] if any("self.scale" in line for line in body_end) else []
    return program_text(
        constants,
        "Turns pairs of features by angles that grow with the position.",
        state=state,
        forward=[*body, *body_end],
        inputs=["torch.randn(batch_size, heads, tokens, width)"] * len(names),
        arguments=", ".join(names),
    )


FAMILY = Family("rotary_attention", "rotary position embedding, alone or before attention", write)
