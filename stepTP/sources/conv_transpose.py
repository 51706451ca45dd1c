"""Transposed convolutions of one, two and three dimensions.

x = self.deconv(x)
x = torch.clamp(x, min=-4.0, max=4.0)
return x + self.bias
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation, steps
from stepTP.sources.text import program_text


def write(draw: Draw) -> str:
    """Rank, stride, padding, output padding, dilation, groups; then a chain, a bias or a reduction."""
    rank = draw.choose("rank", (1, 2, 2, 3))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "in_channels": draw.choose("in_channels", (2, 4))}
    constants["out_channels"] = draw.choose("out_channels", (4, 6))
    spatial = ("height", "width") if rank == 2 else ("depth", "height", "width") if rank == 3 else ("length",)
    extents = {1: (8, 12, 16, 24), 2: (4, 5, 6, 8), 3: (3, 4)}[rank]
    constants |= {name: draw.choose(name, extents) for name in spatial}
    kernel = draw.choose("kernel_size", (2, 3, 3, 4) if rank < 3 else (2, 3))
    stride = draw.choose("stride", (1, 2, 2))
    options = f", stride={stride}" if stride > 1 else ""
    if draw.choose("padded", (False, True)):
        options += ", padding=1"
        if stride > 1 and draw.choose("output_padded", (False, True)):
            options += ", output_padding=1"
    if rank < 3 and draw.choose("dilated", (False, False, True)):
        options += ", dilation=2"
    if draw.choose("grouped", (False, False, True)):
        options += ", groups=2"
    if not draw.choose("bias", (True, False)):
        options += ", bias=False"
    state = [f"self.deconv = nn.ConvTranspose{rank}d(in_channels, out_channels, {kernel}{options})"]
    axes = ", ".join(map(str, range(2, 2 + rank)))
    body = ["x = self.deconv(x)"]
    match draw.choose("end", ("activation", "steps", "bias", "mean", "softmax")):
        case "activation":
            body.append(f"return {activation(draw)}")
        case "steps":
            body += [*steps(draw, (2, 3)), "return x"]
        case "bias":
            state.append(f"self.bias = nn.Parameter(torch.randn(out_channels{', 1' * rank}))")
            body.append(f"return {activation(draw, 'x + self.bias')}")
        case "mean":
            body.append(f"return {activation(draw)}.mean(dim=({axes},))" if rank == 1 else
                        f"return {activation(draw)}.mean(dim=({axes}))")  # fmt: skip
        case _:
            body += [*steps(draw, (0, 1)), "return torch.softmax(x, dim=1)"]
    return program_text(
        constants,
        f"A transposed convolution of {rank} dimension{'s' * (rank > 1)}.",
        state=state,
        forward=body,
        inputs=[f"torch.randn(batch_size, in_channels, {', '.join(spatial)})"],
    )


FAMILY = Family("conv_transpose", "transposed convolutions of one to three dimensions", write)
