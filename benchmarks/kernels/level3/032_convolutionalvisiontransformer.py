import torch
import torch.nn as nn

batch_size = 10
in_channels = 3
image_size = 32
patch_size = 4
embed_dim = 128
num_heads = 4
num_layers = 6
mlp_ratio = 4
num_classes = 1000


class Model(nn.Module):
    """A transformer over the whole of a convolution's result, as one token beside a class token."""

    def __init__(self, num_classes, embed_dim, num_heads, num_layers, mlp_ratio, patch_size, in_channels, image_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.project = nn.Linear(embed_dim * (image_size // patch_size) ** 2, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(embed_dim, num_heads, int(embed_dim * mlp_ratio), dropout=0.0, batch_first=True)
            for _ in range(num_layers)
        )
        self.head = nn.Linear(embed_dim, num_classes)

    def forward(self, x):
        x = self.project(self.conv(x).flatten(start_dim=1))
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x.unsqueeze(1)), dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [num_classes, embed_dim, num_heads, num_layers, mlp_ratio, patch_size, in_channels, image_size]
