"""Soft mixtures of experts: a softmax gate over small linear experts.

gate = torch.softmax(self.gate(x), dim=-1)
expert = torch.tanh(torch.matmul(x.unsqueeze(0), self.weight))
return (gate.transpose(0, 1).unsqueeze(-1) * expert).sum(dim=0)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_EXPERTS = {
    "batched": ("torch.matmul(x.unsqueeze(0), self.weight)", "return (gate.t().unsqueeze(-1) * expert).sum(dim=0)"),
    "einsum": ('torch.einsum("bf,efo->ebo", x, self.weight)', "return (gate.t().unsqueeze(-1) * expert).sum(dim=0)"),
    "expanded": (
        "torch.bmm(x.expand(gate.shape[1], -1, -1), self.weight)",
        'return torch.einsum("be,ebo->bo", gate, expert)',
    ),
}
_GATES = {
    "softmax": "torch.softmax(self.gate(x), dim=-1)",
    "cooled": "torch.softmax(self.gate(x) / 2.0, dim=-1)",
    "sigmoid": "torch.sigmoid(self.gate(x))",
    "relu": "F.relu(self.gate(x)) + 0.01",
    "distance": "torch.softmax(-(x.unsqueeze(1) - self.centres).pow(2).sum(dim=-1), dim=-1)",
}


def write(draw: Draw) -> str:
    """All experts run; their results are weighted by the gate. Experts may have a bias or a second layer."""
    constants = {"batch_size": draw.choose("batch", (4, 6, 8)), "features": draw.choose("features", (8, 12, 16))}
    constants["outputs"] = draw.choose("outputs", (4, 6, 8, 12))
    constants["experts"] = draw.choose("experts", (3, 4, 5, 6))
    kind = draw.choose("gate", tuple(_GATES))
    gate_layer = "self.gate = nn.Linear(features, experts)"
    state = [gate_layer if kind != "distance" else "self.centres = nn.Parameter(0.5 * torch.randn(experts, features))"]
    state.append("self.weight = nn.Parameter(torch.randn(experts, features, outputs) * features**-0.5)")
    product, result = _EXPERTS[draw.choose("experts_as", tuple(_EXPERTS))]
    if draw.choose("bias", (False, True)):
        state.append("self.bias = nn.Parameter(torch.randn(experts, 1, outputs))")
        product += " + self.bias"
    body = [f"gate = {_GATES[kind]}", f"expert = {activation(draw, product)}"]
    if draw.choose("second", (False, False, True)):
        state.append("self.second = nn.Parameter(torch.randn(experts, outputs, outputs) * outputs**-0.5)")
        body.append("expert = torch.bmm(expert, self.second)")
    if draw.choose("normalised", (False, False, True)):
        body.insert(1, "gate = gate / (gate.sum(dim=-1, keepdim=True) + 1e-3)")
    return program_text(
        constants,
        "A dense mixture of experts.",
        state=state,
        forward=[*body, result],
        inputs=["torch.randn(batch_size, features)"],
    )


FAMILY = Family("mixture", "dense mixtures of experts with a gate", write)
