"""RNN, LSTM and GRU: cells, short sequences, cells written out.

outputs, _ = self.rnn(x)
return self.head(outputs[:, -1])
"""

import re

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_WRITTEN = {
    "rnn": ["return torch.tanh(self.update(torch.cat([x, hidden], dim=-1)))"],
    "minimal_gate": [
        "both = torch.cat([x, hidden], dim=-1)",
        "gate = torch.sigmoid(self.gate(both))",
        "return (1.0 - gate) * hidden + gate * torch.tanh(self.update(both))",
    ],
    "reset_gate": [
        "gate = torch.sigmoid(self.gate(torch.cat([x, hidden], dim=-1)))",
        "return torch.tanh(self.update(torch.cat([x, gate * hidden], dim=-1)))",
    ],
    "highway": [
        "both = torch.cat([x, hidden], dim=-1)",
        "carry = torch.sigmoid(self.gate(both))",
        "return carry * hidden + (1.0 - carry) * F.relu(self.update(both))",
    ],
}


_READS = {
    "all": ["return x"],
    "last": ["return x[:, -1]"],
    "mean": ["return x.mean(dim=1)"],
    "maximum": ["return x.amax(dim=1)"],
    "head": ["return self.head(x[:, -1])"],
    "every_head": ["return self.head(x)"],
    "log_softmax": ["return F.log_softmax(self.head(x), dim=-1)"],
    "scored": [
        "weights = torch.softmax(self.head(x), dim=1)",
        "return (weights.unsqueeze(-1) * x.unsqueeze(2)).sum(dim=1)",
    ],
    "hidden": ["return hidden"],
    "both": ["return x, hidden"],
    "summed": ["return x + hidden[-1].unsqueeze(1)"],
}
_BEFORE = {
    "nothing": ([], []),
    "norm": (["self.norm = nn.LayerNorm(inputs)"], ["x = self.norm(x)"]),
    "projection": (["self.project = nn.Linear(inputs, inputs)"], ["x = torch.tanh(self.project(x))"]),
    "differences": ([], ["x = x - F.pad(x, (0, 0, 1, 0))[:, :-1]"]),
    "scaled": (["self.scale = inputs**0.5"], ["x = x * self.scale"]),
}


def write(draw: Draw) -> str:
    """The kind of cell, by the library over a sequence, as one cell, or written out; what is before it and after."""
    form = draw.choose("form", ("sequence", "sequence", "cell", "written"))
    constants = {"batch_size": draw.choose("batch", (1, 2, 3)), "inputs": draw.choose("inputs", (3, 4, 6, 8))}
    constants["units"] = draw.choose("units", (4, 6, 8))
    if form == "written":
        body = _WRITTEN[draw.choose("cell", tuple(_WRITTEN))]
        layers = [name for name in ("update", "gate") if any(f"self.{name}" in line for line in body)]
        return program_text(
            constants,
            "One step of a recurrent cell, written out.",
            state=[f"self.{name} = nn.Linear(inputs + units, units)" for name in layers],
            forward=body,
            inputs=["torch.randn(batch_size, inputs)", "torch.randn(batch_size, units)"],
            arguments="x, hidden",
        )
    kind = draw.choose("kind", ("RNN", "LSTM", "GRU"))
    bias = "" if draw.choose("bias", (True, True, False)) else ", bias=False"
    if form == "cell":
        state, shapes = [f"self.cell = nn.{kind}Cell(inputs, units{bias})"], ["inputs", "units"]
        if kind == "LSTM":
            result = draw.choose("result", ("hidden", "cell", "gated"))
            end = {"hidden": "hidden", "cell": "cell", "gated": "hidden * torch.sigmoid(cell)"}[result]
            body, shapes = ["hidden, cell = self.cell(x, (hidden, cell))", f"return {end}"], [*shapes, "units"]
        else:
            body = [f"return {activation(draw, 'self.cell(x, hidden)')}"]
        return program_text(
            constants,
            f"One step of an {kind} cell." if kind != "GRU" else "One step of a GRU cell.",
            state=state,
            forward=body,
            inputs=[f"torch.randn(batch_size, {shape})" for shape in shapes],
            arguments="x, hidden, cell" if kind == "LSTM" else "x, hidden",
        )
    constants["steps"] = draw.choose("steps", (3, 4, 5, 6))
    options = bias + ", batch_first=True"
    if draw.choose("bidirectional", (False, False, True)):
        options += ", bidirectional=True"
    if draw.choose("layers", (1, 1, 2)) == 2:
        options += ", num_layers=2"
    width = "2 * units" if "bidirectional" in options else "units"
    state = [f"self.rnn = nn.{kind}(inputs, units{options})"]
    reads = [name for name in _READS if name != "summed" or width == "units"]
    end = _READS[draw.choose("read", reads)]
    if any("self.head" in line for line in end):
        constants["outputs"] = draw.choose("outputs", (2, 4, 5))
        state.append(f"self.head = nn.Linear({width}, outputs)")
    own, before = _BEFORE[draw.choose("before", tuple(_BEFORE))]
    state = [*own, *state]
    x = "x" if any(re.search(r"\bx\b", line) for line in end) else "_"
    hidden = "hidden" if any("hidden" in line for line in end) else "_"
    last = f"({hidden}, _)" if kind == "LSTM" and hidden == "hidden" else hidden
    body = [*before, f"{x}, {last} = self.rnn(x)", *end]
    return program_text(
        constants,
        f"{kind} over a short sequence.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, steps, inputs)"],
    )


FAMILY = Family("recurrent", "RNN, LSTM and GRU cells and short sequences", write)
