"""Mixtures of normal distributions with bounded weights and distances: responsibilities, log-likelihoods.

z = torch.clamp((x.unsqueeze(-1) - self.mean) / 2.0, -3.0, 3.0)
e = torch.tanh(self.logit) - 0.5 * z * z
return torch.logsumexp(e, dim=-1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_DISTANCES = (
    "torch.clamp((x.unsqueeze(-1) - self.mean) / 2.0, -3.0, 3.0)",
    "2.0 * torch.tanh(x.unsqueeze(-1) - self.mean)",
    "torch.clamp(x.unsqueeze(-1) * self.mean, -2.0, 2.0)",
)
_TERMS = (
    "torch.tanh({}) - 0.5 * z * z",
    "torch.clamp({}, -2.0, 2.0) - 0.5 * z * z",
    "torch.tanh({}) - torch.abs(z)",
    "torch.tanh({}) - torch.log(1.0 + z * z)",
    "torch.tanh({}) * z",
)
_SUMS = {
    "log_likelihood": ["return torch.logsumexp(e, dim=-1)"],
    "mean": ["return torch.logsumexp(e, dim=-1).mean(dim=-1)"],
    "responsibilities": ["return torch.softmax(e, dim=-1)"],
    "log_responsibilities": ["return F.log_softmax(e, dim=-1)"],
    "assigned": ["r = torch.softmax(e, dim=-1)", "return (r * self.mean).sum(dim=-1)"],
    "by_hand": ["m = e.amax(dim=-1, keepdim=True)", "return torch.log(torch.exp(e - m).sum(dim=-1)) + m.squeeze(-1)"],
    "entropy": ["r = torch.softmax(e, dim=-1)", "return -(r * torch.log(r + 1e-6)).sum(dim=-1)"],
    "density": ["return torch.exp(e).sum(dim=-1)"],
    "counts": ["r = torch.softmax(e, dim=-1)", "return r.sum(dim=0)"],
}
_STATE = {
    "mean": "self.mean = nn.Parameter(torch.randn(components, dtype=dtype))",
    "logit": "self.logit = nn.Parameter(torch.randn(components, dtype=dtype))",
}


def write(draw: Draw) -> str:
    """How far values are from the components, what a component weighs, and what the mixture gives."""
    distance, term = draw.choose("distance", _DISTANCES), draw.choose("term", _TERMS)
    weights = draw.choose("weights", ("self.logit", "0.5 * self.logit", "w"))
    kind = draw.choose("sum", tuple(_SUMS))
    constants: dict[str, int | float] = {
        "rows": draw.choose("rows", (4, 6, 8)),
        "columns": draw.choose("columns", (4, 6, 8, 12)),
        "components": draw.choose("components", (4, 5, 8)),
    }
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    given = weights == "w"
    return program_text(
        constants,
        "A mixture of bounded components.",
        forward=[f"z = {distance}", f"e = {term.format(weights)}", *_SUMS[kind]],
        inputs=["torch.randn(rows, columns, dtype=dtype)", *["torch.randn(components, dtype=dtype)"] * given],
        arguments="x, w" if given else "x",
        state=[line for name, line in _STATE.items() if name == "mean" or not given],
        dtype=dtype,
    )


FAMILY = Family("mixture_densities", "mixtures of bounded components and their log-likelihoods", write)
