import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2048
sequence_length = 128
heads = 8
head_size = 64
state_size = 16
block_length = 64


class Model(nn.Module):
    """Mamba-2's state space, block by block: the outputs of all steps."""

    def __init__(self, batch_size, sequence_length, heads, state_size, block_length):
        super().__init__()
        self.block_length = block_length
        self.a = nn.Parameter(torch.randn(batch_size, sequence_length, heads))
        self.b = nn.Parameter(torch.randn(batch_size, sequence_length, heads, state_size))
        self.c = nn.Parameter(torch.randn(batch_size, sequence_length, heads, state_size))

    def segment_sums(self, x):
        """For each pair of places, the sum of what stands after the one up to the other; -inf above the diagonal."""
        length = x.size(-1)
        sums = torch.cumsum(x, dim=-1)
        differences = sums[..., :, None] - sums[..., None, :]
        mask = torch.tril(torch.ones(length, length, dtype=torch.bool, device=x.device))
        return differences.masked_fill(~mask, float("-inf"))

    def blocks(self, x):
        batch, length = x.shape[:2]
        return x.reshape(batch, length // self.block_length, self.block_length, *x.shape[2:])

    def forward(self, x, initial_states=None):
        x, a, b, c = (self.blocks(part) for part in (x, self.a, self.b, self.c))
        a = a.permute(0, 3, 1, 2)
        sums = torch.cumsum(a, dim=-1)
        decay = torch.exp(self.segment_sums(a))
        within = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, decay, x)
        to_end = torch.exp(sums[:, :, :, -1:] - sums)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, to_end, x)
        if initial_states is None:
            initial_states = torch.zeros_like(states[:, :1])
        states = torch.cat([initial_states, states], dim=1)
        between = torch.exp(self.segment_sums(F.pad(sums[:, :, :, -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)
        across = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states[:, :-1], torch.exp(sums))
        return (within + across).flatten(1, 2)


def get_inputs():
    return [torch.rand(batch_size, sequence_length, heads, head_size)]


def get_init_inputs():
    return [batch_size, sequence_length, heads, state_size, block_length]
