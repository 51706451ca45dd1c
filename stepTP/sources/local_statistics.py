"""Statistics of the neighbourhoods of images: local variances, structural similarity, guided filters, edges, diffusion.

mean_x, mean_y = self.blur(x), self.blur(y)
covariance = self.blur(x * y) - mean_x * mean_y
return covariance / (self.blur(x * x) - mean_x * mean_x + 0.1)
"""

import re

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_BLURS = {
    "average": "nn.AvgPool2d(window, stride=1, padding=window // 2)",
    "inside": "nn.AvgPool2d(window, stride=1, padding=window // 2, count_include_pad=False)",
    "weights": "nn.Conv2d(channels, channels, window, padding=window // 2, groups=channels, bias=False)",
    "highest": "nn.MaxPool2d(window, stride=1, padding=window // 2)",
}
_EDGES = "nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)"
_MOMENTS = ["mean_x, mean_y = self.blur(x), self.blur(y)", "covariance = self.blur(x * y) - mean_x * mean_y"]
_VARIANCES = ["square_x = self.blur(x * x) - mean_x * mean_x", "square_y = self.blur(y * y) - mean_y * mean_y"]
_GRADIENTS = ["across, down = self.across(x), self.down(x)"]
_FORMS = {
    "covariance": [*_MOMENTS, "z = covariance"],
    "similarity": [
        *_MOMENTS,
        *_VARIANCES,
        "z = (2.0 * mean_x * mean_y + 0.1) * (2.0 * covariance + 0.1)",
        "z = z / ((mean_x * mean_x + mean_y * mean_y + 0.1) * (torch.abs(square_x + square_y) + 0.1))",
    ],
    "guided": [
        *_MOMENTS,
        _VARIANCES[0],
        "slope = covariance / (torch.abs(square_x) + 0.5)",
        "z = self.blur(slope) * x + self.blur(mean_y - slope * mean_x)",
    ],
    "contrast": ["z = (x - self.blur(x)) * (y - self.blur(y))"],
    "variance": [
        "mean, square = self.blur(x), self.blur(x * x)",
        "z = (x - mean) / (torch.abs(square - mean * mean) + 0.2)",
    ],
    "differences": ["z = torch.abs(self.blur(x) - self.blur(y)) * (x - y)"],
    "edges": [*_GRADIENTS, "z = torch.sqrt(across * across + down * down + 1e-3)"],
    "orientation": [
        *_GRADIENTS,
        "z = (self.blur(across * across) - self.blur(down * down)) * self.blur(across * down)",
    ],
    "reaction": [
        "growth = x * y * y",
        "z = x + 0.2 * (self.blur(x) - x) - 0.1 * growth + 0.04 * (1.0 - x)",
        "y = y + 0.1 * (self.blur(y) - y) + 0.1 * growth - 0.1 * y",
    ],
}
_BEFORE = ("", "", "x = torch.sigmoid(x)", "x = torch.tanh(x)", "x = x - x.mean()", "x = x * 0.5")
_ENDS = ("z", "z", "z.mean(dim=(2, 3))", "1.0 - z", "z * 0.5 + x", "active", "z.amax(dim=1)")


def write(draw: Draw) -> str:
    """What is computed of each neighbourhood, how neighbourhoods are averaged, and what is returned."""
    form = draw.choose("form", tuple(_FORMS))
    before = draw.choose("before", _BEFORE)
    body = [*([before] if before else []), *_FORMS[form]]
    constants = {"batch_size": draw.choose("batch", (1, 2)), "channels": draw.choose("channels", (1, 2, 3))}
    state: list[str] = []
    if "self.blur" in "".join(body):
        constants["window"] = draw.choose("window", (3, 3, 5))
        kinds = [kind for kind in _BLURS if kind != "highest" or form in ("contrast", "differences", "reaction")]
        state.append(f"self.blur = {_BLURS[draw.choose('blur', kinds)]}")
    if form in ("edges", "orientation"):
        state += [f"self.{name} = {_EDGES}" for name in ("across", "down")]
    constants |= {name: draw.choose(name, (6, 8, 10, 12)) for name in ("height", "width")}
    end = draw.choose("end", _ENDS)
    result = activation(draw, "z") if end == "active" else end
    two = re.search(r"\by\b", " ".join(body)) is not None
    return program_text(
        constants,
        "Combines statistics of the neighbourhoods of every point.",
        state=state,
        forward=[*body, f"return {result}, y" if form == "reaction" else f"return {result}"],
        inputs=["torch.randn(batch_size, channels, height, width)"] * (2 if two else 1),
        arguments="x, y" if two else "x",
    )


FAMILY = Family("local_statistics", "statistics of neighbourhoods of images: similarity, filters, edges", write)
