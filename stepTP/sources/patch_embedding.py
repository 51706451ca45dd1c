"""Images to tokens: strided convolution, flattening, normalisation, pooling."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_AFTER = {
    "norm": ["return self.norm(x)"],
    "position": ["return x + self.position"],
    "norm_pool": ["return self.norm(x).mean(dim=1)"],
    "class_token": ["token = self.token.expand(x.shape[0], 1, x.shape[2])", "return torch.cat([token, x], dim=1)"],
}
_STATE = {
    "norm": "self.norm = nn.LayerNorm(features)",
    "position": "self.position = nn.Parameter(0.1 * torch.randn(patches, features))",
    "norm_pool": "self.norm = nn.LayerNorm(features)",
    "class_token": "self.token = nn.Parameter(torch.randn(1, 1, features))",
}


def write(draw: Draw) -> str:
    """A convolution whose stride is its kernel, then a sequence of patch vectors."""
    batch = draw.choose("batch", (1, 2, 3))
    channels = draw.choose("channels", (1, 2, 3))
    patch = draw.choose("patch", (2, 4))
    grid = draw.choose("grid", (2, 3, 4))
    features = draw.choose("features", (8, 12, 16, 24))
    after = draw.choose("after", tuple(_AFTER))
    body = "\n        ".join(_AFTER[after])
    return f'''import torch
import torch.nn as nn

batch_size = {batch}
channels = {channels}
size = {patch * grid}
patch = {patch}
features = {features}
patches = {grid * grid}


class Model(nn.Module):
    """Cuts an image into patches and embeds each."""

    def __init__(self, channels, features, patch, patches):
        super().__init__()
        self.embed = nn.Conv2d(channels, features, patch, stride=patch)
        {_STATE[after]}

    def forward(self, image):
        x = self.embed(image)
        x = x.flatten(2).transpose(1, 2)
        {body}


def get_inputs():
    return [torch.randn(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels, features, patch, patches]
'''


FAMILY = Family("patch_embedding", "images to patch tokens", write)
