import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
num_classes = 20
first_channels = 6
second_channels = 16
hidden_size = 120
second_hidden_size = 84


class Model(nn.Module):
    """LeNet-5 on images of 32 by 32 pixels."""

    def __init__(self, num_classes, first_channels, second_channels, hidden_size, second_hidden_size):
        super().__init__()
        self.conv1 = nn.Conv2d(1, first_channels, kernel_size=5)
        self.conv2 = nn.Conv2d(first_channels, second_channels, kernel_size=5)
        self.fc1 = nn.Linear(second_channels * 5 * 5, hidden_size)
        self.fc2 = nn.Linear(hidden_size, second_hidden_size)
        self.fc3 = nn.Linear(second_hidden_size, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), kernel_size=2, stride=2)
        x = F.max_pool2d(F.relu(self.conv2(x)), kernel_size=2, stride=2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def get_inputs():
    return [torch.rand(batch_size, 1, 32, 32)]


def get_init_inputs():
    return [num_classes, first_channels, second_channels, hidden_size, second_hidden_size]
