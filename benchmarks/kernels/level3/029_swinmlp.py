import torch
import torch.nn as nn

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


class SwinMlpBlock(nn.Module):
    """Tokens of a window mixed by one linear map a head, then an MLP over the channels."""

    def __init__(self, dim, resolution, heads, window_size, shift):
        super().__init__()
        self.window_size = min(window_size, resolution)
        self.shift = shift if resolution > window_size else 0
        self.heads = heads
        tokens = self.window_size**2
        self.norm1 = nn.LayerNorm(dim)
        self.mix = nn.Conv1d(heads * tokens, heads * tokens, kernel_size=1, groups=heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        _, height, width, channels = x.shape
        size, shift = self.window_size, self.shift
        y = self.norm1(x)
        if shift:
            before = size - shift
            y = nn.functional.pad(y, (0, 0, before, shift, before, shift))
        padded_height, padded_width = y.shape[1], y.shape[2]
        windows = windows_of(y, size)
        windows = windows.view(-1, size * size, self.heads, channels // self.heads).transpose(1, 2)
        mixed = self.mix(windows.reshape(-1, self.heads * size * size, channels // self.heads))
        mixed = mixed.view(-1, self.heads, size * size, channels // self.heads).transpose(1, 2)
        y = image_of(mixed.reshape(-1, size * size, channels), size, padded_height, padded_width)
        if shift:
            y = y[:, before : before + height, before : before + width, :]
        x = x + y
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    """Four neighbours become one token of twice their channels."""

    def __init__(self, dim):
        super().__init__()
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = nn.LayerNorm(4 * dim)

    def forward(self, x):
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
        return self.reduction(self.norm(x))


class Model(nn.Module):
    """Swin MLP: four stages of windows, the second of each pair of blocks shifted."""

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
                stages.append(SwinMlpBlock(dim, resolution, heads, window_size, shift))
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
