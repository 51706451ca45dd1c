import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32
heads = 32
tokens = 512
head_size = 1024


class Model(nn.Module):
    """Scaled dot-product attention."""

    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value)


def get_inputs():
    return [
        torch.rand(batch_size, heads, tokens, head_size),
        torch.rand(batch_size, heads, tokens, head_size),
        torch.rand(batch_size, heads, tokens, head_size),
    ]


def get_init_inputs():
    return []
