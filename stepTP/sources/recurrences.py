"""Recurrences over time as a loop: moving averages, state spaces, leaky integrators.

state = torch.zeros_like(x[:, 0])
outputs = []
for t in range(x.shape[1]):
    state = self.decay * state + (1.0 - self.decay) * x[:, t]
    outputs.append(state)
return torch.stack(outputs, dim=1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_DECAY = ["self.decay = nn.Parameter(torch.sigmoid(torch.randn(features)))"]
_UPDATES = {
    "average": ("state = 0.9 * state + 0.1 * x[:, t]", []),
    "learned_average": ("state = self.decay * state + (1.0 - self.decay) * x[:, t]", _DECAY),
    "lerp": ("state = torch.lerp(state, x[:, t], 0.25)", []),
    "state_space": (
        "state = self.decay * state + self.input * x[:, t]",
        [*_DECAY, "self.input = nn.Parameter(torch.randn(features))"],
    ),
    "gated": ("state = state + torch.sigmoid(gate[:, t]) * (x[:, t] - state)", []),
    "selective": ("state = torch.exp(-F.softplus(gate[:, t])) * state + x[:, t]", []),
    "leaky_maximum": ("state = torch.maximum(0.9 * state, x[:, t])", []),
    "bounded": ("state = torch.tanh(0.5 * state + x[:, t])", []),
    "clamped": ("state = torch.clamp(state + x[:, t], min=-2.0, max=2.0)", []),
    "rotation": ("state = 0.8 * torch.roll(state, 1, dims=-1) + x[:, t]", []),
}
_READS = {"state": "state", "scaled": "state * 0.5", "skip": "state + x[:, t]", "difference": "x[:, t] - state",
          "gate": "state * torch.sigmoid(x[:, t])", "relu": "F.relu(state)"}  # fmt: skip


def write(draw: Draw) -> str:
    """The update, what is read of each state, the start, and whether all states or the last are the result."""
    update, state = _UPDATES[draw.choose("update", tuple(_UPDATES))]
    read = _READS[draw.choose("read", tuple(_READS))]
    start = draw.choose("start", ("torch.zeros_like(x[:, 0])", "x[:, 0]"))
    result = draw.choose("result", ("all", "all", "last", "sum"))
    constants = {"batch_size": draw.choose("batch", (2, 3, 4, 6)), "steps": draw.choose("steps", (5, 6, 8, 10, 12))}
    constants["features"] = draw.choose("features", (4, 8, 12, 16, 24))
    reverse = draw.choose("reverse", (False, False, True))
    steps = "x.shape[1]" if "zeros" in start else "1, x.shape[1]"
    order = f"reversed(range({steps}))" if reverse and "zeros" in start else f"range({steps})"
    body = [f"state = {start}"]
    match result:
        case "all":
            body += ["outputs = []", f"for t in {order}:", f"    {update}", f"    outputs.append({read})"]
            body.append("return torch.stack(outputs, dim=1)")
        case "sum":
            body += ["total = torch.zeros_like(state)", f"for t in {order}:", f"    {update}"]
            body += [f"    total = total + {read}", "return total"]
        case _:
            body += [f"for t in {order}:", f"    {update}", "return state"]
    gated = "gate" in update
    return program_text(
        constants,
        "A recurrence over the steps of a sequence.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, steps, features)"] * (2 if gated else 1),
        arguments="x, gate" if gated else "x",
    )


FAMILY = Family("recurrences", "moving averages and state spaces as loops over time", write)
