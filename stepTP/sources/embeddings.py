"""Embeddings of indices, with positions, norms and heads.

x = self.embedding(tokens) * self.scale
x = x + self.position
return torch.matmul(x, self.embedding.weight.t())
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_SINES = [
    "place = torch.arange(length).unsqueeze(1)",
    "rate = torch.exp(-torch.arange(0, features, 2) * 0.5)",
    "table = torch.cat([torch.sin(place * rate), torch.cos(place * rate)], dim=1)",
    'self.register_buffer("position", table)',
]
_LOOKUPS = {
    "layer": "self.embedding(tokens)",
    "index": "self.table[tokens]",
    "function": "F.embedding(tokens, self.table)",
}


def write(draw: Draw) -> str:
    """How rows are looked up, which positions are added, and what is made of the vectors."""
    constants = {
        "vocabulary": draw.choose("vocabulary", (10, 16, 24, 32, 50)),
        "batch_size": draw.choose("batch", (2, 3, 4)),
    }
    constants["length"] = draw.choose("length", (4, 6, 8, 12))
    constants["features"] = draw.choose("features", (8, 12, 16))
    lookup = draw.choose("lookup", tuple(_LOOKUPS))
    table = "self.embedding.weight" if lookup == "layer" else "self.table"
    state = ["self.embedding = nn.Embedding(vocabulary, features)" if lookup == "layer" else
             "self.table = nn.Parameter(torch.randn(vocabulary, features))"]  # fmt: skip
    body = [f"x = {_LOOKUPS[lookup]}"]
    if draw.choose("scaled", (False, True)):
        state.append("self.scale = features**0.5")
        body.append("x = x * self.scale")
    match draw.choose("positions", ("none", "learned", "sines", "segments")):
        case "learned":
            state.append("self.position = nn.Parameter(0.1 * torch.randn(length, features))")
            body.append("x = x + self.position")
        case "sines":
            state += _SINES
            body.append("x = x + self.position")
        case "segments":
            state.append("self.segment = nn.Embedding(2, features)")
            body.append("x = x + self.segment(tokens % 2)")
        case _:
            pass
    match draw.choose("end", ("plain", "norm", "rms", "mean", "maximum", "logits", "linear", "similarity")):
        case "norm":
            state.append("self.norm = nn.LayerNorm(features)")
            body.append("return self.norm(x)")
        case "rms":
            body.append("return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)")
        case "mean":
            body.append(f"return {activation(draw, 'x.mean(dim=1)')}")
        case "maximum":
            body.append("return x.amax(dim=1)")
        case "logits":
            body.append(f"return torch.matmul(x, {table}.t())")
        case "linear":
            state.append("self.linear = nn.Linear(features, features)")
            body.append(f"return {activation(draw, 'self.linear(x)')}")
        case "similarity":
            body.append("return torch.bmm(x, x.transpose(1, 2)) / x.shape[-1]")
        case _:
            body.append("return x")
    return program_text(
        constants,
        "Looks up a vector for each token.",
        state=state,
        forward=body,
        inputs=["torch.randint(0, vocabulary, (batch_size, length))"],
        arguments="tokens",
    )


FAMILY = Family("embeddings", "embeddings of indices with positions and heads", write)
