"""Gated feed-forward layers: SwiGLU, GeGLU and their variants.

gate, value = self.up(x).chunk(2, dim=-1)
return self.down(F.silu(gate) * value)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text


def write(draw: Draw) -> str:
    """Joint or separate projections, raw weights or layers, a norm before, clamps and residuals."""
    constants = {"tokens": draw.choose("tokens", (4, 6, 8, 12, 16)), "features": draw.choose("features", (8, 12, 16))}
    constants["hidden"] = draw.choose("hidden", (12, 16, 20, 24, 32))
    joint = draw.choose("projection", ("separate", "joint", "weights"))
    norm = draw.choose("norm", ("none", "none", "layer", "rms"))
    dtype = draw.choose("dtype", ("f32", "f32", "f64") if norm != "none" else ("f32", "f32", "f64", "bf16"))
    inner = draw.choose("inner", ("plain", "plain", "clamp", "square", "scale"))
    end = draw.choose("end", ("plain", "residual", "scaled_residual", "no_down"))
    state: list[str] = []
    body: list[str] = []
    read = "x"
    if norm == "layer":
        state.append("self.norm = nn.LayerNorm(features, dtype=dtype)")
        body, read = ["h = self.norm(x)"], "h"
    if norm == "rms":
        state.append("self.weight = nn.Parameter(torch.ones(features, dtype=dtype))")
        body, read = ["h = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * self.weight"], "h"
    bias = "" if draw.choose("bias", (False, True)) else ", bias=False"
    match joint:
        case "separate":
            state += [f"self.{name} = nn.Linear(features, hidden{bias}, dtype=dtype)" for name in ("gate", "up")]
            body.append(f"gate, value = self.gate({read}), self.up({read})")
        case "joint":
            state.append(f"self.up = nn.Linear(features, 2 * hidden{bias}, dtype=dtype)")
            body.append(f"gate, value = self.up({read}).chunk(2, dim=-1)")
        case _:
            state += [
                f"self.{name} = nn.Parameter(0.25 * torch.randn(features, hidden, dtype=dtype))"
                for name in ("gate", "up")
            ]
            body.append(f"gate, value = {read} @ self.gate, {read} @ self.up")
    more = {"clamp": ["value = torch.clamp(value, min=-2.0, max=2.0)"], "square": ["value = value * value"],
            "scale": ["gate = 1.5 * gate"]}  # fmt: skip
    product = f"{activation(draw, 'gate')} * value"
    body += more.get(inner, [])
    if end == "no_down":
        body.append(f"return {product}")
    else:
        state.append(f"self.down = nn.Linear(hidden, features{bias}, dtype=dtype)")
        scale = {"plain": "", "residual": "x + ", "scaled_residual": "x + 0.5 * "}[end]
        body += [f"h = {product}", f"return {scale}self.down(h)"]
    return program_text(
        constants,
        "A feed-forward layer whose hidden units are gated.",
        state=state,
        forward=body,
        inputs=["torch.randn(tokens, features, dtype=dtype)"],
        dtype=dtype,
    )


FAMILY = Family("gated_mlp", "gated feed-forward layers such as SwiGLU and GeGLU", write)
