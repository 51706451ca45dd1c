import torch
import torch.nn as nn

batch_size = 10
num_layers = 6
in_channels = 32
growth_rate = 32
image_size = 224


class Model(nn.Module):
    """Layers that each see the results of all before them."""

    def __init__(self, num_layers, in_channels, growth_rate):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(in_channels + number * growth_rate),
                nn.ReLU(inplace=True),
                nn.Conv2d(in_channels + number * growth_rate, growth_rate, kernel_size=3, padding=1, bias=False),
                nn.Dropout(0.0),
            )
            for number in range(num_layers)
        )

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(x))
            x = torch.cat(features, dim=1)
        return x


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [num_layers, in_channels, growth_rate]
