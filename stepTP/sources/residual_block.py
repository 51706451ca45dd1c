"""Residual blocks with a norm before or after: feed-forward, mixing of tokens, convolution over time.

h = self.norm(x)
h = self.down(F.gelu(self.up(h)))
return x + h
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, logged
from stepTP.sources.text import program_text

_NORMS = {
    "layer": (["self.norm = nn.LayerNorm(features)"], "self.norm({})"),
    "plain_layer": ([], "F.layer_norm({0}, {0}.shape[-1:])"),
    "rms": (["self.weight = nn.Parameter(torch.ones(features))"], "F.rms_norm({0}, {0}.shape[-1:], self.weight, 1e-6)"),
    "unit": ([], "F.normalize({}, dim=-1)"),
}
_BRANCHES = ("feed_forward", "linear", "token_mixing", "convolution", "attention", "scale_shift")


def write(draw: Draw) -> str:
    """The norm and its place, the branch, something logged, and how the branch joins."""
    constants = {"batch_size": draw.choose("batch", (1, 2, 3)), "tokens": draw.choose("tokens", (4, 6, 8, 12))}
    constants["features"] = draw.choose("features", (8, 12, 16))
    state, norm = _NORMS[draw.choose("norm", tuple(_NORMS))]
    place = draw.choose("place", ("before", "after", "branch_end"))
    state, body, read = list(state), [], "x"
    if place == "before":
        body, read = [f"h = {norm.format('x')}"], "h"
    match draw.choose("branch", _BRANCHES):
        case "feed_forward":
            constants["hidden"] = draw.choose("hidden", (12, 16, 24))
            state += ["self.up = nn.Linear(features, hidden)", "self.down = nn.Linear(hidden, features)"]
            body += [f"h = {activation(draw, f'self.up({read})')}", "h = self.down(h)"]
        case "linear":
            state.append("self.linear = nn.Linear(features, features)")
            body.append(f"h = {activation(draw, f'self.linear({read})')}")
        case "token_mixing":
            state.append("self.mix = nn.Linear(tokens, tokens)")
            body.append(f"h = {activation(draw, f'self.mix({read}.transpose(1, 2))')}.transpose(1, 2)")
        case "convolution":
            state.append("self.conv = nn.Conv1d(features, features, 3, padding=1, groups=features)")
            body.append(f"h = {activation(draw, f'self.conv({read}.transpose(1, 2))')}.transpose(1, 2)")
        case "attention":
            body += [
                f"scores = torch.bmm({read}, {read}.transpose(1, 2)) / {read}.shape[-1]",
                f"h = torch.bmm(torch.softmax(scores, dim=-1), {read})",
            ]
        case _:
            state += [
                "self.scale = nn.Parameter(torch.randn(features))",
                "self.shift = nn.Parameter(torch.randn(features))",
            ]
            body.append(f"h = {activation(draw, f'{read} * self.scale + self.shift')}")
    if place == "branch_end":
        body.append(f"h = {norm.format('h')}")
    body += logged(draw, "h")
    match draw.choose("join", ("add", "scale", "gate", "average")):
        case "add":
            body.append("x = x + h")
        case "scale":
            state.append("self.gamma = nn.Parameter(0.1 * torch.ones(features))")
            body.append("x = x + self.gamma * h")
        case "gate":
            body.append("x = x + torch.sigmoid(h) * h")
        case _:
            body.append("x = 0.5 * (x + h)")
    body.append(f"return {norm.format('x')}" if place == "after" else "return x")
    return program_text(
        constants,
        "A residual block with a normalisation.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, tokens, features)"],
    )


FAMILY = Family("residual_block", "residual branches with a norm before or after", write)
