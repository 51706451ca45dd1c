import math

import torch
import torch.nn as nn

batch_size = 128
embed_dim = 768
num_heads = 8
max_length = 1024
tokens = 512


class Model(nn.Module):
    """Causal self-attention of several heads, as MinGPT has it."""

    def __init__(self, embed_dim, num_heads, max_length):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        mask = torch.tril(torch.ones(max_length, max_length)).view(1, 1, max_length, max_length)
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch, tokens, channels = x.size()
        q, k, v = self.qkv(x).split(channels, dim=2)
        shape = (batch, tokens, self.num_heads, channels // self.num_heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in (q, k, v))
        attention = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        attention = attention.masked_fill(self.mask[:, :, :tokens, :tokens] == 0, float("-inf"))
        attention = torch.softmax(attention, dim=-1)
        return self.proj((attention @ v).transpose(1, 2).contiguous().view(batch, tokens, channels))


def get_inputs():
    return [torch.rand(batch_size, tokens, embed_dim)]


def get_init_inputs():
    return [embed_dim, num_heads, max_length]
