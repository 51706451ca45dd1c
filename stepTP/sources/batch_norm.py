"""Batch normalisation, by running statistics or by those of the batch, and what follows it.

x = F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, training=False)
return F.relu(x)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, logged, steps
from stepTP.sources.text import program_text

_RUNNING = [
    'self.register_buffer("mean", 0.1 * torch.randn(channels))',
    'self.register_buffer("variance", 0.5 + torch.rand(channels))',
]
_AFFINE = [
    "self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(channels))",
    "self.bias = nn.Parameter(0.1 * torch.randn(channels))",
]


def write(draw: Draw) -> str:
    """By the library's function, by its module, or written out; over vectors, sequences or images.

    Running statistics that are computed and not stored, and what is logged, are values that nothing uses.
    """
    rank = draw.choose("rank", (2, 3, 4))
    statistics = draw.choose("statistics", ("running", "running_written", "batch_module", "batch_written"))
    sizes = {"batch_size": draw.choose("batch", (4, 6, 8)), "channels": draw.choose("channels", (4, 6, 8, 12, 16))}
    spatial = ("height", "width")[: rank - 2] if rank == 4 else ("length",)[: rank - 2]
    sizes |= {name: draw.choose(name, (4, 6, 8, 10)) for name in spatial}
    ones = ", 1" * len(spatial)
    axes = "0" if rank == 2 else f"({', '.join(map(str, (0, *range(2, rank))))})"
    per_channel = "{}" if rank == 2 else f"{{}}.view(-1{ones})"
    match statistics:
        case "running":
            state = [*_RUNNING, *_AFFINE]
            body = ["x = F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, training=False)"]
        case "running_written":
            state = [*_RUNNING, *_AFFINE]
            mean, scale, bias = (per_channel.format(name) for name in ("self.mean", "scale", "self.bias"))
            body = ["scale = self.weight * torch.rsqrt(self.variance + 1e-5)", f"x = (x - {mean}) * {scale} + {bias}"]
        case "batch_module":
            affine = draw.choose("affine", (True, False))
            state = [f"self.norm = nn.BatchNorm{max(rank - 2, 1)}d(channels{'' if affine else ', affine=False'})"]
            body = ["x = self.norm(x)"]
        case _:
            state = _AFFINE
            weight, bias = (per_channel.format(name) for name in ("self.weight", "self.bias"))
            body = [
                f"mean = x.mean(dim={axes}, keepdim=True)",
                f"variance = (x - mean).pow(2).mean(dim={axes}, keepdim=True)",
                f"x = (x - mean) * torch.rsqrt(variance + 1e-5) * {weight} + {bias}",
            ]
    inputs, arguments = [f"torch.randn({', '.join(sizes)})"], "x"
    if statistics == "batch_written" and draw.choose("running_statistics", (False, False, True)):
        state = [*_RUNNING, *state]
        body += [
            "running_mean = 0.9 * self.mean + 0.1 * mean.view(-1)",
            "running_variance = 0.9 * self.variance + 0.1 * variance.view(-1)",
        ]
    else:
        body += logged(draw, "x")
    match draw.choose("after", ("nothing", "activation", "steps", "residual")):
        case "activation":
            body.append(f"return {activation(draw)}")
        case "steps":
            body += [*steps(draw, (1, 2)), "return x"]
        case "residual":
            arguments, inputs = "x, residual", inputs * 2
            body.append(f"return {activation(draw, 'x + residual')}")
        case _:
            body.append("return x")
    summary = "Batch normalisation by " + ("running statistics." if "running" in statistics else "the batch's own.")
    return program_text(sizes, summary, state=state, forward=body, inputs=inputs, arguments=arguments)


FAMILY = Family("batch_norm", "batch normalisation by running statistics or the batch's", write)
