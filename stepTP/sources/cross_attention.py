"""Cross-attention with projections: a sequence looks at another, perhaps through learned queries.

query = self.query(x)
key, value = self.key_value(context).chunk(2, dim=-1)
weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)) * self.scale, dim=-1)
return x + torch.bmm(weights, value)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text


def write(draw: Draw) -> str:
    """Projections, a norm before, the weights, a gate or a residual after."""
    constants = {"batch_size": draw.choose("batch", (1, 2)), "tokens": draw.choose("tokens", (4, 6, 8, 12))}
    constants["context_tokens"] = draw.choose("context_tokens", (5, 8, 10, 16))
    constants["features"] = draw.choose("features", (8, 12, 16))
    learned = draw.choose("learned_queries", (False, False, True))
    joint = draw.choose("joint_projection", (True, False))
    norm = draw.choose("norm", ("none", "context", "query"))
    weights = draw.choose("weights", ("softmax", "softmax", "capped", "slots"))
    end = draw.choose("end", ("plain", "residual", "output", "gate"))
    state, body = ["self.scale = features**-0.5"], []
    if norm == "context":
        state.append("self.norm = nn.LayerNorm(features)")
        body.append("context = self.norm(context)")
    if learned:
        state.append("self.latents = nn.Parameter(torch.randn(tokens, features))")
        body.append("x = self.latents.expand(context.shape[0], -1, -1)")
    state.append("self.query = nn.Linear(features, features, bias=False)")
    body.append(f"query = {'F.normalize(self.query(x), dim=-1)' if norm == 'query' else 'self.query(x)'}")
    if joint:
        state.append("self.key_value = nn.Linear(features, 2 * features)")
        body.append("key, value = self.key_value(context).chunk(2, dim=-1)")
    else:
        state += [f"self.{name} = nn.Linear(features, features)" for name in ("key", "value")]
        body.append("key, value = self.key(context), self.value(context)")
    body.append("scores = torch.bmm(query, key.transpose(1, 2)) * self.scale")
    if weights == "capped":
        body.append("scores = 5.0 * torch.tanh(scores / 5.0)")
    if weights == "slots":
        body += [
            "weights = torch.softmax(scores, dim=1)",
            "weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-3)",
        ]
    else:
        body.append("weights = torch.softmax(scores, dim=-1)")
    body.append("attended = torch.bmm(weights, value)")
    match end:
        case "output":
            state.append("self.output = nn.Linear(features, features)")
            body.append("return self.output(attended)")
        case "gate":
            state.append("self.gate = nn.Parameter(torch.randn(features))")
            body.append(f"return x + {activation(draw, 'self.gate')} * attended")
        case _:
            body.append("return x + attended" if end == "residual" else "return attended")
    context = "torch.randn(batch_size, context_tokens, features)"
    return program_text(
        constants,
        "A sequence attends to another.",
        state=state,
        forward=body,
        inputs=[context] if learned else ["torch.randn(batch_size, tokens, features)", context],
        arguments="context" if learned else "x, context",
    )


FAMILY = Family("cross_attention", "cross-attention with projections", write)
