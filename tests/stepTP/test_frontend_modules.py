"""Softmax, normalisations, attention and whole modules against PyTorch; the text of the pinned ones."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leir.edit import walk
from leir.printer import to_text
from leir.syntax import Loop
from stepTP.frontend import translate
from tests.stepTP.agreement import agree, draw, module_agrees

X = draw(3, 4, 5)
SOFTMAX: dict[str, Callable[[torch.Tensor], Any]] = {
    "softmax": lambda x: (x.softmax(0), x.softmax(1), x.softmax(-1)),
    "log_softmax": lambda x: (x.log_softmax(0), x.log_softmax(-1)),
    "softmin": lambda x: F.softmin(x, -1),
    "softmax of one": lambda x: x[:, :1].softmax(1) + x,
    "log_softmax of rank 1": lambda x: x[0, 0].log_softmax(0),
    "large": lambda x: ((x * 1e4).softmax(-1), (x * 1e4).log_softmax(-1)),
    "masked": lambda x: x.masked_fill(torch.ones(4, 5, dtype=torch.bool).triu(1), -torch.inf).softmax(-1),
}


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax(name: str) -> None:
    agree(SOFTMAX[name], X)


def test_softmax_of_dtypes() -> None:
    agree(lambda x: (x.softmax(-1), x.log_softmax(-1)), X.double())
    agree(lambda x: (x.softmax(-1), x.log_softmax(-1)), X.half(), in_double=False)
    agree(lambda x: x.softmax(-1, dtype=torch.float32), draw(3, 4, dtype=torch.int64), in_double=False)


def test_softmax_reads_as_in_the_language_page() -> None:
    assert to_text(agree(lambda x: x.softmax(-1), draw(16, 51))) == (
        "in A_{16,51};out C_{16,51};\n"
        "L^{16,51}_{i,j}[D_i max=A_{i,j};]\n"
        "L^{16,51}_{i,j}[E_i+=exp(A_{i,j}-D_i);]\n"
        "L^{16,51}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]\n"
    )


def randomised(module: nn.Module) -> nn.Module:
    """The module in evaluation mode, with parameters and statistics that are not zero and one."""
    for number, tensor in enumerate([*module.parameters(), *module.buffers()]):
        if tensor.is_floating_point():
            tensor.data = draw(*tensor.shape, dtype=tensor.dtype, seed=number).abs() * 0.5 + 0.25
    return module.eval()


NORMS: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "layer_norm": (nn.LayerNorm(5), X),
    "layer_norm of two axes": (nn.LayerNorm((4, 5)), X),
    "layer_norm without bias": (nn.LayerNorm(5, bias=False), X),
    "layer_norm without parameters": (nn.LayerNorm(5, elementwise_affine=False, eps=0.1), X),
    "layer_norm far from zero": (nn.LayerNorm(5), X + 10),
    "rms_norm": (nn.RMSNorm(5, eps=1e-3), X),
    "rms_norm without parameters": (nn.RMSNorm((4, 5), elementwise_affine=False, eps=0.1), X),
    "group_norm": (nn.GroupNorm(2, 6), draw(2, 6, 3, 4)),
    "group_norm of one group": (nn.GroupNorm(1, 6, affine=False), draw(2, 6, 3)),
    "group_norm of one channel each": (nn.GroupNorm(6, 6), draw(2, 6, 3)),
    "batch_norm": (nn.BatchNorm2d(4), draw(2, 4, 3, 5)),
    "batch_norm of rank 2": (nn.BatchNorm1d(4, affine=False), draw(3, 4)),
    "batch_norm of the batch": (nn.BatchNorm2d(4, track_running_stats=False), draw(2, 4, 3, 5)),
    "instance_norm": (nn.InstanceNorm2d(4, affine=True), draw(2, 4, 3, 5)),
}


@pytest.mark.parametrize("name", NORMS)
def test_normalisation(name: str) -> None:
    module, x = NORMS[name]
    program = module_agrees(randomised(module), x)
    assert len(program.inputs) == 1 + sum(1 for p in module.parameters()) + sum(1 for b in module.buffers() if b.dim())


def test_an_epsilon_of_the_dtype() -> None:
    module_agrees(randomised(nn.RMSNorm(5)), X, in_double=False)
    module_agrees(randomised(nn.RMSNorm(5).double()), X.double())


QUERY, KEY, VALUE = draw(2, 3, 4, 6), draw(2, 3, 5, 6, seed=1), draw(2, 3, 5, 7, seed=2)
OPEN = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0]]).bool()
CLOSED = OPEN & torch.tensor([[True], [False], [True], [True]])
ATTENTION: dict[str, tuple[tuple[torch.Tensor, ...], dict[str, Any]]] = {
    "plain": ((QUERY, KEY, VALUE), {}),
    "causal": ((QUERY, KEY[:, :, :4], VALUE[:, :, :4]), {"is_causal": True}),
    "causal with more keys": ((QUERY, KEY, VALUE), {"is_causal": True}),
    "causal with fewer keys": ((QUERY, KEY[:, :, :3], VALUE[:, :, :3]), {"is_causal": True}),
    "scale": ((QUERY, KEY, VALUE), {"scale": 0.3}),
    "scale and causal": ((QUERY, KEY, VALUE), {"scale": 2, "is_causal": True}),
    "mask of booleans": ((QUERY, KEY, VALUE, OPEN), {}),
    "mask with a closed row": ((QUERY, KEY, VALUE, CLOSED), {}),
    "mask of floats": ((QUERY, KEY, VALUE, draw(4, 5)), {}),
    "mask of floats with a closed row": ((QUERY, KEY, VALUE, torch.zeros(4, 5).masked_fill(~CLOSED, -torch.inf)), {}),
    "mask by head": ((QUERY, KEY, VALUE, draw(2, 3, 4, 5)), {}),
    "mask that broadcasts": ((QUERY, KEY, VALUE, draw(2, 1, 1, 5)), {"scale": 0.5}),
    "rank 3": ((QUERY[0], KEY[0], VALUE[0]), {}),
    "rank 2": ((QUERY[0, 0], KEY[0, 0], VALUE[0, 0]), {}),
    "one query": ((QUERY[:, :, :1], KEY, VALUE), {}),
    "one key": ((QUERY, KEY[:, :, :1], VALUE[:, :, :1]), {"is_causal": True}),
    "grouped": ((draw(2, 6, 4, 6), KEY, VALUE), {"enable_gqa": True}),
    "one head of keys": ((QUERY, KEY[:, :1], VALUE[:, :1]), {"enable_gqa": True, "is_causal": True}),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    inputs, options = ATTENTION[name]
    program = agree(lambda *tensors: F.scaled_dot_product_attention(*tensors, **options), *inputs)
    assert len([s for s in program.body if isinstance(s, Loop)]) == 6


def test_attention_reads_plainly() -> None:
    program = agree(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), draw(8, 4), draw(8, 4), draw(8, 4)
    )
    assert to_text(program) == (
        "in A_{8,4},C_{8,4},D_{8,4};out E_{8,4};\n"
        "L^{8,8,4}_{i,j,k}[F_{i,j}+=A_{i,k}*C_{j,k};]\n"
        "L^{8,8}_{i,j}[G_{i,j}=if_then_else(j<=i,F_{i,j}*0.5,-inf);]\n"
        "L^{8,8}_{i,j}[I_i max=G_{i,j};]\n"
        "L^{8,8}_{i,j}[J_i+=exp(G_{i,j}-I_i);]\n"
        "L^{8,8}_{i,j}[H_{i,j}=exp(G_{i,j}-I_i)/J_i;]\n"
        "L^{8,4,8}_{i,j,k}[E_{i,j}+=H_{i,k}*D_{k,j};]\n"
    )


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        mask = torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Written(nn.Module):
    """Causal attention written out."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("allowed", torch.ones(length, length).tril().view(1, 1, length, length))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (part.view(b, t, 2, c // 2).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (c // 2) ** -0.5
        scores = scores.masked_fill(self.allowed[:, :, :t, :t] == 0, float("-inf"))
        return (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c)


def encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4), nn.Softmax(-1)), (draw(5, 6),)),
    "block": (lambda: Block(8, 2), (draw(2, 5, 8),)),
    "written attention": (lambda: Written(5, 8), (draw(2, 5, 8),)),
    "encoder layer": (encoder_layer, (draw(2, 5, 8),)),
    "conv block": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(6, 4, 3, groups=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
        ),
        (draw(2, 3, 8, 9),),
    ),
    "embedding": (lambda: nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm(4)), (torch.tensor([[1, 6, 0], [2, 2, 5]]),)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    build, inputs = MODULES[name]
    torch.manual_seed(0)
    module_agrees(build().eval(), *inputs)


LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "kl": lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
    "bce with logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "cross entropy of probabilities": lambda x, y: F.cross_entropy(x, y.softmax(-1)),
    "cosine": lambda x, y: F.cosine_similarity(x, y, dim=-1),
    "hinge": lambda x, y: torch.mean(torch.clamp(1 - x * y.sign(), min=0)),
    "normalize": lambda x, y: F.normalize(x, dim=-1) + y,
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str) -> None:
    agree(LOSSES[name], draw(4, 5), draw(4, 5, seed=9))


def test_cross_entropy() -> None:
    agree(F.cross_entropy, draw(4, 5), torch.tensor([1, 0, 4, 2]))


def test_in_place_ops_on_temporaries() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y += 1
        y.relu_()
        y[:, 0] = 0.5
        return y.mul_(3)

    agree(function, draw(3, 4))


def test_writing_into_parts() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x.clone()
        z[1:, ::2] = y
        z[-1] = y[0].sum()
        z[:, 1:3] += 1
        return z

    agree(function, draw(3, 4), draw(2, 2))


def test_names_of_parameters_and_their_values() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()
    translation = translate(module, (draw(4, 3),))
    assert translation.names == {
        "A": "input", "C": "0.weight", "D": "0.bias", "E": "1.weight", "F": "1.bias", "G": "1.running_mean",
        "H": "1.running_var", "I": "output",
    }  # fmt: skip
    assert translation.user_inputs == ("A",)
    assert translation.outputs == ("I",)
    state = module.state_dict()
    assert sorted(translation.constants) == list("CDEFGH")
    assert all((state[translation.names[n]].numpy() == v).all() for n, v in translation.constants.items())
    assert translation.ops == {"aten.batch_norm.default": 1, "aten.linear.default": 1}


def test_loops_are_named_by_depth() -> None:
    program = translate(nn.Conv2d(2, 2, 2), (draw(2, 2, 4, 4),)).program
    names = [[s.variable for _, s in walk(nest) if isinstance(s, Loop)] for nest in program.body]
    assert [["i", *rest] for rest in names] == [list("ijklmno"), list("ijkl")]
