import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 10
image_size = 224
patch_size = 4
embed_dim = 96
window_size = 7
num_classes = 1000


def windows_of(x, size):
    """(batch, height, width, channels) to (batch * windows, size * size, channels)."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // size, size, width // size, size, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, channels)


def image_of(windows, size, height, width):
    """What `windows_of` took apart."""
    batch = windows.shape[0] // ((height // size) * (width // size))
    x = windows.view(batch, height // size, width // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, -1)


class WindowAttention(nn.Module):
    """Cosine attention within windows, its bias a function of the distance between tokens."""

    def __init__(self, dim, window_size, heads):
        super().__init__()
        self.heads = heads
        self.window_size = window_size
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.bias_mlp = nn.Sequential(nn.Linear(2, 512), nn.ReLU(inplace=True), nn.Linear(512, heads, bias=False))
        steps = torch.arange(-(window_size - 1), window_size, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), dim=-1)
        table = 8 * table / max(window_size - 1, 1)
        self.register_buffer("table", torch.sign(table) * torch.log2(table.abs() + 1) / 3)
        places = torch.stack(torch.meshgrid(torch.arange(window_size), torch.arange(window_size), indexing="ij"))
        places = places.flatten(1)
        between = (places[:, :, None] - places[:, None, :]) + window_size - 1
        self.register_buffer("between", (between[0] * (2 * window_size - 1) + between[1]).flatten())
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask):
        windows, tokens, channels = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        qkv = F.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.view(windows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attention = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attention = attention * torch.clamp(self.logit_scale, max=4.6052).exp()
        table = self.bias_mlp(self.table).view(-1, self.heads)
        relative = table[self.between].view(tokens, tokens, self.heads).permute(2, 0, 1)
        attention = attention + 16 * torch.sigmoid(relative).unsqueeze(0)
        if mask is not None:
            count = mask.shape[0]
            attention = attention.view(-1, count, self.heads, tokens, tokens) + mask[None, :, None]
            attention = attention.view(-1, self.heads, tokens, tokens)
        attention = torch.softmax(attention, dim=-1)
        return self.proj((attention @ v).transpose(1, 2).reshape(windows, tokens, channels))


class SwinBlock(nn.Module):
    """Attention within windows and an MLP, each normalised before it is added."""

    def __init__(self, dim, resolution, heads, window_size, shift):
        super().__init__()
        self.size = min(window_size, resolution)
        self.shift = shift if resolution > window_size else 0
        self.attention = WindowAttention(dim, self.size, heads)
        self.norm1 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.norm2 = nn.LayerNorm(dim)
        mask = None
        if self.shift:
            regions = torch.zeros(1, resolution, resolution, 1)
            parts = (slice(0, -self.size), slice(-self.size, -self.shift), slice(-self.shift, None))
            for row, rows in enumerate(parts):
                for column, columns in enumerate(parts):
                    regions[:, rows, columns, :] = 3 * row + column
            regions = windows_of(regions, self.size).squeeze(-1)
            mask = (regions[:, None, :] != regions[:, :, None]) * -100.0
        self.register_buffer("mask", mask)

    def forward(self, x):
        _, height, width, _ = x.shape
        y = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2)) if self.shift else x
        y = self.attention(windows_of(y, self.size), self.mask)
        y = image_of(y, self.size, height, width)
        y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2)) if self.shift else y
        x = x + self.norm1(y)
        return x + self.norm2(self.mlp(x))


class PatchMerging(nn.Module):
    """Four neighbours become one token of twice their channels."""

    def __init__(self, dim):
        super().__init__()
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = nn.LayerNorm(2 * dim)

    def forward(self, x):
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
        return self.norm(self.reduction(x))


class Model(nn.Module):
    """Swin transformer V2: four stages of windows, the second of each pair of blocks shifted."""

    def __init__(self, image_size, patch_size, embed_dim, window_size, num_classes):
        super().__init__()
        self.embed = nn.Conv2d(3, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.norm = nn.LayerNorm(embed_dim)
        resolution, dim = image_size // patch_size, embed_dim
        stages = []
        for number, (count, heads) in enumerate(zip((2, 2, 6, 2), (3, 6, 12, 24), strict=True)):
            if number:
                stages.append(PatchMerging(dim))
                resolution, dim = resolution // 2, 2 * dim
            for block in range(count):
                shift = window_size // 2 if block % 2 else 0
                stages.append(SwinBlock(dim, resolution, heads, window_size, shift))
        self.stages = nn.Sequential(*stages)
        self.last_norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x):
        x = self.norm(self.embed(x).permute(0, 2, 3, 1))
        x = self.last_norm(self.stages(x))
        return self.head(x.mean(dim=(1, 2)))


def get_inputs():
    return [torch.rand(batch_size, 3, image_size, image_size)]


def get_init_inputs():
    return [image_size, patch_size, embed_dim, window_size, num_classes]
