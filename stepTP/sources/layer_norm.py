"""Layer normalisation and its neighbours.

x = self.norm(x + residual)
return x.mean(dim=1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_BEFORE = {
    "residual": "x = x + residual",
    "scaled": "x = x * 0.5 + residual",
    "product": "x = x * torch.sigmoid(residual)",
    "plain": "",
}
_WRITTEN = {
    "variance": [
        "mean = x.mean(dim=-1, keepdim=True)",
        "variance = x.var(dim=-1, keepdim=True, correction=0)",
        "x = (x - mean) / torch.sqrt(variance + 1e-5)",
    ],
    "squares": [
        "centred = x - x.mean(dim=-1, keepdim=True)",
        "x = centred * torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + 1e-5)",
    ],
}
_AFTER = ("plain", "activation", "scaled", "mean", "maximum", "residual", "projection", "sum_too")


def write(draw: Draw) -> str:
    """A layer norm over the last axis, by the library or written out, with a residual before or after."""
    constants = {"batch_size": draw.choose("batch", (2, 4, 6)), "tokens": draw.choose("tokens", (4, 6, 8, 12))}
    constants["features"] = draw.choose("features", (8, 12, 16, 24, 32, 48))
    before = _BEFORE[draw.choose("before", tuple(_BEFORE))]
    norm = draw.choose("norm", ("module", "plain_module", "function", *_WRITTEN))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    state: list[str] = []
    body = [before] if before else []
    match norm:
        case "module" | "plain_module":
            options = ", elementwise_affine=False" if norm == "plain_module" else ""
            state.append(f"self.norm = nn.LayerNorm(features{options}, dtype=dtype)")
            body.append("x = self.norm(x)")
        case "function":
            body.append("x = F.layer_norm(x, x.shape[-1:])")
        case _:
            body += _WRITTEN[norm]
    if norm in _WRITTEN and draw.choose("affine", (False, True)):
        state += [f"self.{name} = nn.Parameter(torch.randn(features, dtype=dtype))" for name in ("weight", "bias")]
        body.append("x = x * self.weight + self.bias")
    match draw.choose("after", _AFTER if before else ("residual",)):
        case "activation":
            body.append(f"return {activation(draw)}")
        case "scaled":
            body.append("return x * 2.0")
        case "mean":
            body.append("return x.mean(dim=1)")
        case "maximum":
            body.append("return x.amax(dim=-1) - x.amin(dim=-1)")
        case "residual":
            body.append(f"return {activation(draw)} + residual")
        case "sum_too":  # what the next block adds to
            body.insert(1, "total = x")
            body.append("return x, total")
        case "projection":
            state.append(
                "self.projection = nn.Parameter(torch.randn(features, features, dtype=dtype) * features**-0.5)"
            )
            body.append("return torch.matmul(x, self.projection)")
        case _:
            body.append("return x")
    return program_text(
        constants,
        "Normalises every token and joins a residual branch.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, tokens, features, dtype=dtype)"] * 2,
        arguments="x, residual",
        dtype=dtype,
    )


FAMILY = Family("layer_norm", "layer normalisation with residuals and pooling", write)
