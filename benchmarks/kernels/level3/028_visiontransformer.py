import torch
import torch.nn as nn

batch_size = 2
image_size = 224
patch_size = 16
num_classes = 10
dim = 512
depth = 6
heads = 8
mlp_dim = 2048
dropout = 0.1


class Model(nn.Module):
    """A vision transformer, with dropout as it is trained."""

    def __init__(self, image_size, patch_size, num_classes, dim, depth, heads, mlp_dim, dropout):
        super().__init__()
        patches = (image_size // patch_size) ** 2
        self.patch_size = patch_size
        self.embed = nn.Linear(3 * patch_size**2, dim)
        self.positions = nn.Parameter(torch.randn(1, patches + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(dim, heads, mlp_dim, dropout=dropout, batch_first=True)
        self.transformer = nn.TransformerEncoder(layer, num_layers=depth)
        self.head = nn.Sequential(nn.Linear(dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, num_classes))

    def forward(self, images):
        batch, channels, _, _ = images.shape
        size = self.patch_size
        patches = images.unfold(2, size, size).unfold(3, size, size)
        patches = patches.permute(0, 2, 3, 1, 4, 5).reshape(batch, -1, channels * size * size)
        x = self.embed(patches)
        x = torch.cat((self.cls_token.expand(batch, -1, -1), x), dim=1) + self.positions
        x = self.transformer(self.dropout(x))
        return self.head(x[:, 0])


def get_inputs():
    return [torch.rand(batch_size, 3, image_size, image_size)]


def get_init_inputs():
    return [image_size, patch_size, num_classes, dim, depth, heads, mlp_dim, dropout]
