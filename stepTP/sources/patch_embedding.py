"""Images to tokens: strided convolution or unfolding, flattening, normalisation, pooling.

x = self.embed(image).flatten(2).transpose(1, 2)
return self.norm(x) + self.position
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_CUTS = {
    "convolution": (
        ["x = self.embed(image).flatten(2).transpose(1, 2)"],
        "self.embed = nn.Conv2d(channels, features, patch, stride=patch)",
    ),
    "unfold": (
        ["x = F.unfold(image, self.patch, stride=self.patch).transpose(1, 2)", "x = self.embed(x)"],
        "self.embed = nn.Linear(channels * patch * patch, features)",
    ),
    "view": (
        [
            "b, c, size, p = image.shape[0], image.shape[1], image.shape[2], self.patch",
            "x = image.view(b, c, size // p, p, size // p, p).permute(0, 2, 4, 1, 3, 5)",
            "x = self.embed(x.flatten(3).flatten(1, 2))",
        ],
        "self.embed = nn.Linear(channels * patch * patch, features)",
    ),
}
_STEPS = {
    "norm": ("x = self.norm(x)", "self.norm = nn.LayerNorm(features)"),
    "position": ("x = x + self.position", "self.position = nn.Parameter(0.1 * torch.randn(patches, features))"),
    "scale": ("x = x * self.scale", "self.scale = nn.Parameter(torch.randn(features))"),
    "centre": ("x = x - x.mean(dim=1, keepdim=True)", ""),
    "active": ("", ""),
}
_ENDS = ("plain", "mean", "maximum", "class_token", "head", "similarity")


def write(draw: Draw) -> str:
    """How patches are cut, one or two steps on their vectors, and the end."""
    constants = {"batch_size": draw.choose("batch", (1, 2, 3)), "channels": draw.choose("channels", (1, 2, 3))}
    patch, grid = draw.choose("patch", (2, 4)), draw.choose("grid", (2, 3, 4))
    constants |= {"size": patch * grid, "patch": patch, "features": draw.choose("features", (8, 12, 16))}
    cut = draw.choose("cut", tuple(_CUTS))
    body, layer = list(_CUTS[cut][0]), _CUTS[cut][1]
    state = [layer] if cut == "convolution" else ["self.patch = patch", layer]
    chosen: list[str] = []
    for number in range(draw.choose("steps", (0, 1, 2, 2))):
        chosen.append(draw.choose(f"step{number}", [step for step in _STEPS if step not in chosen]))
    for step in chosen:
        line, own = _STEPS[step]
        body.append(line or f"x = {activation(draw)}")
        state += [own] if own else []
    if "position" in chosen:
        constants["patches"] = grid * grid
    ends = [end for end in _ENDS if chosen[-1:] != ["centre"] or end not in ("mean", "head")]  # its mean is zero
    match draw.choose("end", ends):
        case "mean":
            body.append("return x.mean(dim=1)")
        case "maximum":
            body.append("return x.amax(dim=1)")
        case "class_token":
            state.append("self.token = nn.Parameter(torch.randn(1, 1, features))")
            body += ["token = self.token.expand(x.shape[0], 1, x.shape[2])", "return torch.cat([token, x], dim=1)"]
        case "head":
            state.append("self.head = nn.Linear(features, 4)")
            body.append("return self.head(x.mean(dim=1))")
        case "similarity":
            body.append("return torch.bmm(x, x.transpose(1, 2))")
        case _:
            body.append("return x")
    return program_text(
        constants,
        "Cuts an image into patches and embeds each.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, channels, size, size)"],
        arguments="image",
    )


FAMILY = Family("patch_embedding", "images to patch tokens", write)
