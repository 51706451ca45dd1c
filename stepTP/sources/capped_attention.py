"""Attention whose scores are capped smoothly or clipped before the softmax.

scores = torch.matmul(query, key.transpose(-1, -2)) * 0.25
scores = 4.0 * torch.tanh(scores / 4.0)
return torch.matmul(torch.softmax(scores, dim=-1), value)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_CAPS = ("2.0", "4.0", "5.0")
_CAPPED = ("{0} * torch.tanh(scores / {0})", "torch.clamp(scores, min=-{0}, max={0})", "{0} * torch.sigmoid(scores)")
_WEIGHTS = {
    "softmax": ["weights = torch.softmax(scores, dim=-1)"],
    "by_hand": [
        "scores = scores - scores.amax(dim=-1, keepdim=True)",
        "weights = torch.exp(scores)",
        "weights = weights / weights.sum(dim=-1, keepdim=True)",
    ],
    "sink": [
        "top = scores.amax(dim=-1, keepdim=True)",
        "weights = torch.exp(scores - top)",
        "weights = weights / (1.0 + weights.sum(dim=-1, keepdim=True))",
    ],
}
_BIASES = ("", "scores = scores + bias", "scores = scores * bias")
_ENDS = ("mixed", "mixed", "mixed + query", "mixed * query", "torch.tanh(mixed)", "mixed - query")


def write(draw: Draw) -> str:
    """Queries and keys, how scores are capped, a bias before or none, their weights, and an end."""
    bias = draw.choose("bias", _BIASES)
    capped = draw.choose("capped", _CAPPED).format(draw.choose("cap", _CAPS))
    forward = [f"scores = torch.matmul(query, key.transpose(-1, -2)) * {draw.choose('scale', ('0.25', '0.5'))}"]
    forward += [*([bias] if bias else []), f"scores = {capped}"]
    forward += _WEIGHTS[draw.choose("weights", tuple(_WEIGHTS))]
    forward += ["mixed = torch.matmul(weights, value)", f"return {draw.choose('end', _ENDS)}"]
    constants = {
        "batch_size": draw.choose("batch", (1, 2, 4)),
        "length": draw.choose("length", (8, 12, 16)),
        "features": draw.choose("features", (4, 8, 12)),
    }
    shape = "batch_size, length, features"
    return program_text(
        constants,
        "Attention with capped scores.",
        forward=forward,
        inputs=[f"torch.randn({shape})"] * 3 + (["torch.randn(length, length)"] if bias else []),
        arguments="query, key, value, bias" if bias else "query, key, value",
    )


FAMILY = Family("capped_attention", "attention with scores that are capped before the softmax", write)
