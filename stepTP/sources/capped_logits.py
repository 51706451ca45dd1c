"""Classifier and policy heads whose logits are capped: probabilities, entropies, losses.

logits = 4.0 * torch.tanh(x @ self.weight)
return torch.softmax(logits, dim=-1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_LOGITS = (
    "torch.matmul(x, self.weight)",
    "x * self.scale",
    "x + self.scale",
    "torch.matmul(x, self.weight) + self.shift",
)
_STATE = {
    "weight": "self.weight = nn.Parameter(torch.randn(features, classes))",
    "scale": "self.scale = nn.Parameter(torch.randn(features))",
    "shift": "self.shift = nn.Parameter(torch.randn(classes))",
}
_CAPPED = (
    "{0} * torch.tanh(z)",
    "torch.clamp(z, min=-{0}, max={0})",
    "{0} * torch.sigmoid(z)",
    "{0} * torch.tanh(z / {0})",
)
_CAPS = ("1.0", "2.0", "4.0", "5.0")
_HEADS = {
    "probabilities": ["return torch.softmax(z, dim=-1)"],
    "log_probabilities": ["return F.log_softmax(z, dim=-1)"],
    "energy": ["return -torch.logsumexp(z, dim=-1)"],
    "expectation": ["p = torch.softmax(z, dim=-1)", "return (p * z).sum(dim=-1)"],
    "entropy": ["p = torch.softmax(z, dim=-1)", "return -(p * F.log_softmax(z, dim=-1)).sum(dim=-1)"],
    "gini": ["p = torch.softmax(z, dim=-1)", "return 1.0 - (p * p).sum(dim=-1)"],
    "by_hand": ["e = torch.exp(z - z.amax(dim=-1, keepdim=True))", "return e / e.sum(dim=-1, keepdim=True)"],
    "batch": ["return torch.softmax(z, dim=0)"],
}


def write(draw: Draw) -> str:
    """Logits, their cap, and what the head gives."""
    logits = draw.choose("logits", _LOGITS)
    capped = draw.choose("capped", _CAPPED).format(draw.choose("cap", _CAPS))
    constants: dict[str, int | float] = {
        "batch_size": draw.choose("batch", (4, 8, 12, 16)),
        "features": draw.choose("features", (8, 12, 16, 24)),
    }
    if "weight" in logits:
        constants["classes"] = draw.choose("classes", (6, 10, 16, 20))
    return program_text(
        constants,
        "A head with capped logits.",
        forward=[f"z = {logits}", f"z = {capped}", *_HEADS[draw.choose("head", tuple(_HEADS))]],
        inputs=["torch.randn(batch_size, features)"],
        state=[line for name, line in _STATE.items() if f"self.{name}" in logits],
    )


FAMILY = Family("capped_logits", "heads of classifiers and policies with capped logits", write)
