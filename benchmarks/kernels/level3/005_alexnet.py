import torch
import torch.nn as nn

batch_size = 1024
in_channels = 3
image_size = 224
width = 96
hidden_size = 4096
num_classes = 1000


class Model(nn.Module):
    """AlexNet, its first layer of `width` channels and the others in its proportions."""

    def __init__(self, in_channels, width, hidden_size, num_classes, dropout=0.0):
        super().__init__()
        wide, middle = width * 8 // 3, width * 4
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, width, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(width, wide, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(wide, middle, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, middle, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, wide, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.pool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Linear(wide * 6 * 6, hidden_size),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, hidden_size),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, num_classes),
        )

    def forward(self, x):
        x = self.pool(self.features(x))
        return self.classifier(torch.flatten(x, 1))


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, width, hidden_size, num_classes]
