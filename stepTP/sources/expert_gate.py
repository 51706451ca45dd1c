"""Gates of mixtures of experts: router scores, thresholds, the best expert of a token, balance losses.

weights = torch.softmax(self.router(x), dim=-1)
best = weights.amax(dim=-1, keepdim=True)
return torch.where(weights > 0.95 * best, weights, 0.0)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_SCORES = {
    "softmax": ["weights = torch.softmax(self.router(x), dim=-1)"],
    "sigmoid": ["weights = torch.sigmoid(self.router(x))"],
    "cosine": ["scores = F.normalize(x, dim=-1) @ F.normalize(self.router.weight, dim=-1).t()",
               "weights = torch.softmax(scores * 4.0, dim=-1)"],
    "biased": ["weights = torch.softmax(self.router(x) + self.offset, dim=-1)"],
    "noisy_free": ["scores = self.router(x)", "scores = scores - scores.mean(dim=-1, keepdim=True)",
                   "weights = torch.softmax(scores, dim=-1)"],
}  # fmt: skip
_CHOICES = {
    "all": [],
    "best": ["best = weights.amax(dim=-1, keepdim=True)", "weights = torch.where(weights > 0.95 * best, weights, 0.0)"],
    "above_mean": ["weights = torch.where(weights > weights.mean(dim=-1, keepdim=True), weights, 0.0)"],
    "above_half": ["weights = F.relu(weights - 0.5 * weights.amax(dim=-1, keepdim=True))"],
    "renormalised": ["weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-6)"],
}
_AUXILIARY = {
    "none": [],
    "balance": ["load = weights.mean(dim=0)", "balance = (load * load).sum() * load.shape[0]"],
    "confidence": ["confidence = weights.amax(dim=-1).mean()"],
    "spread": ["load = weights.sum(dim=0)", "spread = load.var() / (load.mean() ** 2 + 1e-6)"],
}
_ENDS = ("weights", "mix", "balance", "vectors", "entropy")


def write(draw: Draw) -> str:
    """How tokens are scored, which experts stay, a loss that is not returned, and what the weights are used for."""
    constants = {"tokens": draw.choose("tokens", (6, 8, 12, 16)), "features": draw.choose("features", (8, 12, 16))}
    constants["experts"] = draw.choose("experts", (3, 4, 6, 8))
    scores = draw.choose("scores", tuple(_SCORES))
    bias = ", bias=False" if scores == "cosine" or draw.choose("bias", (False, True)) else ""
    state = [f"self.router = nn.Linear(features, experts{bias})"]
    if scores == "biased":
        state.append("self.offset = nn.Parameter(0.1 * torch.randn(experts))")
    body = [*_SCORES[scores], *_CHOICES[draw.choose("choice", tuple(_CHOICES))]]
    body += _AUXILIARY[draw.choose("auxiliary", ("none", "none", "none", *_AUXILIARY))]
    match draw.choose("end", _ENDS):
        case "weights":
            body.append("return weights")
        case "mix":
            constants["outputs"] = draw.choose("outputs", (4, 6, 8))
            state.append("self.experts = nn.Parameter(0.3 * torch.randn(experts, features, outputs))")
            product = draw.choose(
                "product", ('torch.einsum("tf,efo->teo", x, self.experts)', "torch.matmul(x, self.experts)")
            )
            body.append(f"results = {activation(draw, product)}")
            body.append("return (weights.unsqueeze(-1) * results).sum(dim=1)" if "einsum" in product else
                        "return (weights.t().unsqueeze(-1) * results).sum(dim=0)")  # fmt: skip
        case "balance":
            body += [
                "share = weights.mean(dim=0)",
                "return share * share.shape[0] - (weights > 0.2).float().mean(dim=0)",
            ]
        case "vectors":
            state.append("self.vectors = nn.Parameter(torch.randn(experts, features))")
            body.append(f"return x + weights @ {activation(draw, 'self.vectors')}")
        case _:
            body.append("return -(weights * torch.log(weights + 1e-6)).sum(dim=-1)")
    return program_text(
        constants,
        "Decides which experts see a token.",
        state=state,
        forward=body,
        inputs=["torch.randn(tokens, features)"],
    )


FAMILY = Family("expert_gate", "router gates of mixtures of experts", write)
