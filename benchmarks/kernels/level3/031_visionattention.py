import torch
import torch.nn as nn

batch_size = 2
embed_dim = 128
num_heads = 4
image_height = 128
image_width = 128


class Model(nn.Module):
    """Self-attention between the pixels of an image, added to it and normalised."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x):
        batch, channels, height, width = x.shape
        x = x.view(batch, channels, height * width).permute(2, 0, 1)
        attended, _ = self.attention(x, x, x)
        x = self.norm(attended + x)
        return x.permute(1, 2, 0).view(batch, channels, height, width)


def get_inputs():
    return [torch.rand(batch_size, embed_dim, image_height, image_width)]


def get_init_inputs():
    return [embed_dim, num_heads]
