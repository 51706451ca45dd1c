"""Group and instance normalisation of feature maps, by the library or written out.

groups = x.view(x.shape[0], self.groups, -1)
mean = groups.mean(dim=-1, keepdim=True)
variance = groups.var(dim=-1, correction=0, keepdim=True)
return ((groups - mean) / torch.sqrt(variance + 1e-5)).view(x.shape)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, steps
from stepTP.sources.text import program_text

_AFFINE = [
    "self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(channels, 1, 1))",
    "self.bias = nn.Parameter(0.1 * torch.randn(channels, 1, 1))",
]
_WRITTEN = [
    "mean = groups.mean(dim=-1, keepdim=True)",
    "variance = groups.var(dim=-1, correction=0, keepdim=True)",
    "x = ((groups - mean) * torch.rsqrt(variance + 1e-5)).view(x.shape)",
]


def write(draw: Draw) -> str:
    """The form, the groups, an affine end, and what follows."""
    form = draw.choose("form", ("group_module", "group_written", "instance_module", "instance_written"))
    affine = draw.choose("affine", (True, False))
    sizes = {"batch_size": draw.choose("batch", (2, 3, 4)), "channels": draw.choose("channels", (4, 8, 12, 16))}
    spatial = {"height": draw.choose("height", (4, 5, 6)), "width": draw.choose("width", (4, 5, 6))}
    groups = {"groups": draw.choose("groups", (2, 4))} if form.startswith("group") else {}
    match form:
        case "group_module":
            state = [f"self.norm = nn.GroupNorm(groups, channels{'' if affine else ', affine=False'})"]
            body = ["x = self.norm(x)"]
        case "group_written":
            state = ["self.groups = groups", *(_AFFINE if affine else [])]
            body = ["groups = x.view(x.shape[0], self.groups, -1)", *_WRITTEN]
        case "instance_module":
            state = [f"self.norm = nn.InstanceNorm2d(channels{', affine=True' if affine else ''})"]
            body = ["x = self.norm(x)"]
        case _:
            state = _AFFINE if affine else []
            body = ["groups = x.flatten(2)", *_WRITTEN]
    if affine and form.endswith("written"):
        body.append("x = x * self.weight + self.bias")
    inputs, arguments = [f"torch.randn({', '.join(['batch_size', 'channels', 'height', 'width'])})"], "x"
    match draw.choose("after", ("nothing", "activation", "steps", "gate")):
        case "activation":
            body.append(f"return {activation(draw)}")
        case "steps":
            body += [*steps(draw, (1, 2, 3)), "return x"]
        case "gate":
            arguments, inputs = "x, gate", inputs * 2
            body.append("return x * torch.sigmoid(gate)")
        case _:
            body.append("return x")
    summary = f"{'Group' if groups else 'Instance'} normalisation of a feature map."
    constants = sizes | spatial | groups
    return program_text(constants, summary, state=state, forward=body, inputs=inputs, arguments=arguments)


FAMILY = Family("group_norm", "group and instance normalisation", write)
