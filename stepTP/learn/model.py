"""A decoder in plain torch: RMS norms, rotary positions, gated MLPs, tied embeddings; and a cache for decoding."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder."""

    vocabulary: int
    width: int = 512
    layers: int = 8
    heads: int = 8
    longest: int = 2048  # tokens of a sequence
    dropout: float = 0.1

    @property
    def hidden(self) -> int:
        """The width inside an MLP: 8/3 of the model's, rounded up to a multiple of 64."""
        return -(-self.width * 8 // 3 // 64) * 64


# Without embeddings: 0.1, 25 and 59 million parameters.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"width": 64, "layers": 2, "heads": 2, "dropout": 0.0},
    "small": {"width": 512, "layers": 8, "heads": 8},
    "medium": {"width": 704, "layers": 10, "heads": 11},
}


BLOCK = 64  # places of a cache that are looked at together: few shapes, each aligned


class Cache:
    """Keys and values of the tokens so far, of a batch whose prompts end together: shorter ones begin later.

    What is looked at grows by whole blocks, so a mask has to hide the places of the last one that are not used yet.
    """

    def __init__(self, shape: Shape, batch: int, length: int, device: torch.device, dtype: torch.dtype) -> None:
        size = (shape.layers, 2, batch, shape.heads, in_blocks(length), shape.width // shape.heads)
        self.kept = torch.zeros(size, device=device, dtype=dtype)
        self.used = 0

    def put(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, with new ones (batch, heads, new, width); zeros up to the block's end."""
        end = self.used + keys.shape[2]
        self.kept[layer, 0, :, :, self.used : end] = keys
        self.kept[layer, 1, :, :, self.used : end] = values
        shown = in_blocks(end)
        return self.kept[layer, 0, :, :, :shown], self.kept[layer, 1, :, :, :shown]

    def take(self, rows: Tensor, length: int | None = None) -> None:
        """Keeps these rows of the batch, in this order; `length`: with room for so many tokens."""
        if length is None:
            self.kept = self.kept.index_select(2, rows)
            return
        before = self.kept
        size = (*before.shape[:2], len(rows), before.shape[3], in_blocks(length), before.shape[5])
        self.kept = before.new_zeros(size)
        self.kept[:, :, :, :, : self.used] = before[:, :, :, :, : self.used].index_select(2, rows)


def in_blocks(length: int) -> int:
    """The length, rounded up to whole blocks."""
    return -(-length // BLOCK) * BLOCK


class Norm(nn.Module):
    """Root-mean-square norm, in the dtype of what comes in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), eps=1e-6)


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, hidden = shape.width, shape.hidden
        self.heads, self.dropout = shape.heads, shape.dropout
        self.attention_norm = Norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.query_norm = Norm(width // shape.heads)
        self.key_norm = Norm(width // shape.heads)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = Norm(width)
        self.up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(
        self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor | None, cache: Cache | None, number: int
    ) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = (part.transpose(1, 2) for part in qkv.unbind(2))
        queries = rotated(self.query_norm(queries), rotation)
        keys = rotated(self.key_norm(keys), rotation)
        if cache is not None:
            keys, values = cache.put(number, keys, values)
        mixed = F.scaled_dot_product_attention(
            queries.to(values.dtype), keys.to(values.dtype), values, attn_mask=mask, is_causal=mask is None
        )
        x = x + self._dropped(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        gate, value = self.up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self._dropped(self.down(F.silu(gate) * value))

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class Decoder(nn.Module):
    """Hidden states of tokens; `logits` are over the vocabulary."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * shape.layers) if residual else 1.0))

    def forward(
        self, ids: Tensor, positions: Tensor | None = None, mask: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Hidden states (batch, length, width) of ids (batch, length). Without a mask a token sees those before it."""
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)[None]
        rotation = rotations(positions, self.shape.width // self.shape.heads)
        x = self.embedding(ids)
        for number, layer in enumerate(self.layers):
            x = layer(x, rotation, mask, cache, number)
        if cache is not None:
            cache.used += ids.shape[1]
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embedding.weight)

    def parameters_count(self) -> int:
        return sum(weight.numel() for weight in self.parameters())


def rotations(positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (batch, 1, length, width / 2) by which a head's halves turn (Su et al. 2021)."""
    rates = 10000.0 ** (-torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width)
    angles = positions[:, None, :, None].float() * rates
    return angles.cos(), angles.sin()


def rotated(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    cosine, sine = (part.to(x.dtype) for part in rotation)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), dim=-1)
