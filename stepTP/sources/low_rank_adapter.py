"""Linear layers with a low-rank update beside them (LoRA) and its relatives.

update = torch.matmul(torch.matmul(x, self.down), self.up)
return self.linear(x) + self.scale * update
"""

import re

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_UPDATES = {
    "product": ["update = torch.matmul(torch.matmul(x, self.down), self.up)"],
    "operator": ["update = x @ self.down @ self.up"],
    "merged": ["update = torch.matmul(x, torch.matmul(self.down, self.up))"],
    "layers": ["update = self.up(self.down(x))"],
    "active": ["update = torch.matmul(ACTIVATION, self.up)"],
    "vector": ["update = (x @ self.down) * self.inner", "update = (update @ self.up) * self.outer"],
    "normalised": ["update = torch.matmul(F.normalize(torch.matmul(x, self.down), dim=-1), self.up)"],
    "two": ["update = x @ self.down @ self.up", "update = update + x @ self.down2 @ self.up2"],
}
_STATE = {
    "down": "nn.Parameter(torch.randn(in_features, rank, dtype=dtype) / rank)",
    "up": "nn.Parameter(torch.randn(rank, out_features, dtype=dtype) / rank)",
    "down2": "nn.Parameter(torch.randn(in_features, rank, dtype=dtype) / rank)",
    "up2": "nn.Parameter(torch.randn(rank, out_features, dtype=dtype) / rank)",
    "inner": "nn.Parameter(torch.randn(rank, dtype=dtype))",
    "outer": "nn.Parameter(torch.randn(out_features, dtype=dtype))",
}


def write(draw: Draw) -> str:
    """The update's form, how it is scaled and joined, the base layer, and the dtype."""
    form = draw.choose("update", tuple(_UPDATES))
    base = draw.choose("base", ("linear", "linear", "weight", "no_bias"))
    join = draw.choose("join", ("scaled", "plain", "gate", "subtract"))
    dtype = draw.choose("dtype", ("f32", "f32", "f64") if form in ("active", "normalised") else ("f32", "f64", "bf16"))
    constants: dict[str, int | float] = {"batch_size": draw.choose("batch", (4, 6, 8, 12))}
    constants["in_features"] = draw.choose("in_features", (8, 12, 16, 24))
    constants["out_features"] = draw.choose("out_features", (8, 10, 16, 24))
    constants["rank"] = draw.choose("rank", (2, 4))
    body = list(_UPDATES[form])
    if form == "active":
        body[0] = body[0].replace("ACTIVATION", activation(draw, "torch.matmul(x, self.down)"))
    if form == "layers":
        state = ["self.down = nn.Linear(in_features, rank, bias=False, dtype=dtype)",
                 "self.up = nn.Linear(rank, out_features, bias=False, dtype=dtype)"]  # fmt: skip
    else:
        read = re.findall(r"self\.(\w+)", " ".join(body))
        state = [f"self.{name} = {value}" for name, value in _STATE.items() if name in read]
    if base == "weight":
        state.insert(0, "self.weight = nn.Parameter(0.2 * torch.randn(in_features, out_features, dtype=dtype))")
        first = "torch.matmul(x, self.weight)"
    else:
        bias = ", bias=False" if base == "no_bias" else ""
        state.insert(0, f"self.linear = nn.Linear(in_features, out_features{bias}, dtype=dtype)")
        first = "self.linear(x)"
    if join in ("scaled", "subtract"):
        constants["alpha"] = draw.choose("alpha", (0.5, 2.0))
        state.append("self.scale = alpha / rank")
    ends = {"scaled": f"{first} + self.scale * update", "plain": f"{first} + update",
            "gate": f"{first} * torch.sigmoid(update)", "subtract": f"{first} - self.scale * update"}  # fmt: skip
    return program_text(
        constants,
        "A linear layer with a low-rank update.",
        state=state,
        forward=[*body, f"return {ends[join]}"],
        inputs=["torch.randn(batch_size, in_features, dtype=dtype)"],
        dtype=dtype,
    )


FAMILY = Family("low_rank_adapter", "linear layers with low-rank updates", write)
