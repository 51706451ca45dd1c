import torch
import torch.nn as nn

batch_size = 8
in_channels = 8
out_channels = 4
features = 64
height = 64
width = 512


def double_conv(in_channels, out_channels):
    """Two convolutions, each with batch normalisation and a softmax over the columns."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1),
        nn.BatchNorm2d(out_channels),
        nn.Softmax(dim=-1),
        nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1),
        nn.BatchNorm2d(out_channels),
        nn.Softmax(dim=-1),
    )


class Model(nn.Module):
    """A U-Net of four levels with softmax for its activations."""

    def __init__(self, in_channels, out_channels, features):
        super().__init__()
        widths = [features * 2**level for level in range(5)]
        self.down = nn.ModuleList(
            double_conv(a, b) for a, b in zip([in_channels, *widths[:3]], widths[:4], strict=True)
        )
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.bottom = double_conv(widths[3], widths[4])
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * width, width, kernel_size=2, stride=2) for width in reversed(widths[:4])
        )
        self.merge = nn.ModuleList(double_conv(2 * width, width) for width in reversed(widths[:4]))
        self.last = nn.Conv2d(features, out_channels, kernel_size=1)

    def forward(self, x):
        skipped = []
        for down in self.down:
            x = down(x)
            skipped.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skipped), strict=True):
            x = merge(torch.cat([up(x), skip], dim=1))
        return self.last(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, features]
