"""A self-attention layer with its projections.

query, key, value = self.qkv(x).chunk(3, dim=-1)
x = F.scaled_dot_product_attention(query, key, value, is_causal=True)
return self.output(x)
"""

from collections.abc import Sequence

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_HEADS = ".view(batch, tokens, self.heads, self.width).transpose(1, 2)"
_NAMES = ("query", "key", "value")


def _library(
    draw: Draw, constants: dict[str, int], norms: Sequence[str], body: Sequence[str], read: str, causal: bool
) -> str:
    """By `nn.MultiheadAttention`, which averages its weights over the heads unless it is told not to."""
    state = [*norms, "self.attention = nn.MultiheadAttention(features, heads, batch_first=True)"]
    mask = ""
    if causal:
        state.append('self.register_buffer("future", torch.ones(tokens, tokens, dtype=torch.bool).triu(1))')
        mask = ", attn_mask=self.future"
    need = draw.choose("need_weights", ("", "", ", need_weights=False"))
    ends = ("return h", "return x + h", *(("return h, weights",) if not need else ()))
    end = draw.choose("library_end", ends)
    weights = "weights" if "weights" in end else "_"
    return program_text(
        constants,
        f"Multi-head self-attention by the library{', looking back only' if causal else ''}.",
        state=state,
        forward=[*body, f"h, {weights} = self.attention({read}, {read}, {read}{mask}{need})", end],
        inputs=["torch.randn(batch_size, tokens, features)"],
    )


def write(draw: Draw) -> str:
    """Projections, heads, norms of queries and keys, attention, and perhaps an output projection and a residual."""
    constants = {"batch_size": draw.choose("batch", (1, 2)), "tokens": draw.choose("tokens", (4, 6, 8, 12))}
    heads = draw.choose("heads", (1, 2, 2, 4))
    constants |= {"heads": heads, "features": heads * draw.choose("head_width", (4, 8))}
    causal = draw.choose("causal", (False, True))
    norm = draw.choose("norm", ("none", "none", "input", "heads"))
    attention = draw.choose("attention", ("fused", "written", "scaled_query"))
    bias = draw.choose("bias", ("", ", bias=False"))
    state = ["self.heads = heads", "self.width = features // heads"]
    body = ["batch, tokens, features = x.shape"]
    read = "x"
    if norm == "input":
        state.append("self.norm = nn.LayerNorm(features)")
        body, read = [*body, "h = self.norm(x)"], "h"
    if draw.choose("library", (False, False, False, True)):
        return _library(draw, constants, state[2:], body[1:], read, causal)
    match draw.choose("projection", ("joint", "chunks", "separate")):
        case "joint":
            state.append(f"self.qkv = nn.Linear(features, 3 * features{bias})")
            body.append(f"qkv = self.qkv({read}).view(batch, tokens, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)")
            body.append("query, key, value = qkv[0], qkv[1], qkv[2]")
        case "chunks":
            state.append(f"self.qkv = nn.Linear(features, 3 * features{bias})")
            body.append(f"query, key, value = self.qkv({read}).chunk(3, dim=-1)")
            body += [f"{name} = {name}{_HEADS}" for name in _NAMES]
        case _:
            state += [f"self.{name} = nn.Linear(features, features{bias})" for name in _NAMES]
            body += [f"{name} = self.{name}({read}){_HEADS}" for name in _NAMES]
    if norm == "heads":
        body.append("query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)")
    if attention == "fused":
        options = ", is_causal=True" if causal else ""
        body.append(f"h = F.scaled_dot_product_attention(query, key, value{options})")
    else:
        state.append("self.scale = (features // heads) ** -0.5")
        if attention == "written":
            body.append("scores = query @ key.transpose(-2, -1) * self.scale")
        else:
            body.append("scores = (query * self.scale) @ key.transpose(-2, -1)")
        if draw.choose("capped", (False, False, True)):
            body.append("scores = 5.0 * torch.tanh(scores / 5.0)")
        if causal:
            state.append('self.register_buffer("future", torch.ones(tokens, tokens, dtype=torch.bool).triu(1))')
            body.append("scores = scores.masked_fill(self.future, -1e4)")
        body.append("h = torch.softmax(scores, dim=-1) @ value")
    body.append("h = h.transpose(1, 2).reshape(batch, tokens, features)")
    if draw.choose("output_projection", (True, False)):
        state.append("self.output = nn.Linear(features, features)")
        body.append("h = self.output(h)")
    body.append("return x + h" if draw.choose("residual", (False, True)) else "return h")
    return program_text(
        constants,
        f"Multi-head self-attention{' that looks back only' if causal else ''}.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, tokens, features)"],
    )


FAMILY = Family("self_attention", "a self-attention layer with its projections", write)
