import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2048
num_features = 100
cluster_size = 32
feature_size = 512
ghost_clusters = 0


class Model(nn.Module):
    """NetVLAD: features summed relative to the centres of soft clusters."""

    def __init__(self, cluster_size, feature_size, ghost_clusters):
        super().__init__()
        self.cluster_size = cluster_size
        self.feature_size = feature_size
        clusters = cluster_size + ghost_clusters
        scale = feature_size**-0.5
        self.clusters = nn.Parameter(scale * torch.randn(feature_size, clusters))
        self.norm = nn.BatchNorm1d(clusters)
        self.centres = nn.Parameter(scale * torch.randn(1, feature_size, cluster_size))

    def forward(self, x):
        batch, features, _ = x.shape
        flat = x.view(-1, self.feature_size)
        assignment = torch.softmax(self.norm(torch.matmul(flat, self.clusters)), dim=1)
        assignment = assignment[:, : self.cluster_size].view(batch, features, self.cluster_size)
        offset = torch.sum(assignment, dim=1, keepdim=True) * self.centres
        vlad = torch.matmul(assignment.transpose(1, 2), x).transpose(1, 2) - offset
        vlad = F.normalize(vlad).reshape(-1, self.cluster_size * self.feature_size)
        return F.normalize(vlad)


def get_inputs():
    return [torch.rand(batch_size, num_features, feature_size)]


def get_init_inputs():
    return [cluster_size, feature_size, ghost_clusters]
