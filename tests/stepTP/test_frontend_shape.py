"""Views, pieces and gathers against PyTorch; views cost no nest."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from leir.printer import to_text
from leir.syntax import Loop, Program
from stepTP.frontend import UnsupportedOp, translate
from tests.stepTP.agreement import Calls, agree, draw

X = draw(2, 6, 4)
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda x: x.view(12, 4),
    "view minus one": lambda x: x.view(-1),
    "view across axes": lambda x: x.reshape(4, 4, 3),
    "view across all": lambda x: x.reshape(3, 16),
    "view odd": lambda x: x.reshape(8, 6),
    "view with ones": lambda x: x.view(2, 1, 6, 1, 4),
    "split an axis": lambda x: x.view(2, 3, 2, 4),
    "there and back": lambda x: x.reshape(3, 16).reshape(2, 6, 4),
    "heads": lambda x: x.view(2, 6, 2, 2).transpose(1, 2).reshape(2, 2, 12),
    "heads merged": lambda x: x.view(2, 6, 2, 2).transpose(1, 2).reshape(4, 6, 2).transpose(0, 1).reshape(6, 8),
    "permute": lambda x: x.permute(2, 0, 1),
    "permute negative": lambda x: x.permute(-1, 0, -2),
    "transpose": lambda x: x.transpose(-1, 0),
    "permute then view": lambda x: x.permute(1, 2, 0).reshape(8, 6),
    "transposed matrix": lambda x: x[0].t(),
    "mT": lambda x: x.mT,
    "expand": lambda x: x.unsqueeze(1).expand(2, 3, 6, 4),
    "expand new axis": lambda x: x.expand(3, 2, 6, 4),
    "expand minus one": lambda x: x[:, :1].expand(-1, 5, -1),
    "unsqueeze": lambda x: x.unsqueeze(0).unsqueeze(-1),
    "squeeze": lambda x: x[:, :1, :1].squeeze(),
    "squeeze an axis": lambda x: x[:, :1, :1].squeeze(1),
    "squeeze axes": lambda x: x[:, :1, :1].squeeze((1, -1)),
    "squeeze nothing": lambda x: x.squeeze(0),
    "slice": lambda x: x[:, 1:5],
    "slice step": lambda x: x[:, 1::2, ::3],
    "slice negative": lambda x: x[:, -3:-1],
    "slice beyond": lambda x: x[:, 2:100],
    "select": lambda x: x[:, 3],
    "select negative": lambda x: x.select(1, -2),
    "select all": lambda x: x[1, 2, 3],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "flatten": lambda x: x.flatten(1),
    "flatten all": lambda x: torch.flatten(x),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "flip": lambda x: x.flip(1),
    "flip two": lambda x: x.flip((0, -1)),
    "roll": lambda x: x.roll(2, 1),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat new axis": lambda x: x.repeat(2, 1, 1, 1),
    "tile": lambda x: x.tile(2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "repeat_interleave flat": lambda x: x.repeat_interleave(3),
    "movedim": lambda x: x.movedim(0, 2),
    "movedim two": lambda x: x.movedim((0, 1), (2, 0)),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "diagonal offset": lambda x: x.diagonal(-1, 1, 2) if x.dim() > 2 else x,
    "unbind": lambda x: x.unbind(1)[2] + x.unbind(-1)[3].sum(),
    "split": lambda x: x.split(4, 1)[1] + x.split([1, 5], 1)[0],
    "chunk": lambda x: x.chunk(3, -1)[1] * x.chunk(2, 0)[1][:, :, 2:],
    "contiguous": lambda x: x.transpose(1, 2).contiguous(),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.view(1, 12, 2, 2), 2),
    "unfold": lambda x: x.unfold(1, 3, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view(name: str) -> None:
    """As an output, and below an op that reads it."""
    agree(lambda x: (VIEWS[name](x), torch.exp(VIEWS[name](x.tanh()))), X)


def nests(program: Program) -> int:
    return sum(isinstance(statement, Loop) for statement in program.body)


def test_views_fold_into_the_subscripts_of_their_readers() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 3, 2, 4).permute(2, 0, 3, 1)[1, :, 1:].unsqueeze(1) * 2

    program = agree(function, X)
    assert to_text(program).splitlines()[1:] == ["L^{2,3,3}_{i,j,k}[C_{i,0,j,k}=A_{i,k*2+1,j+1}*2.0;]"]


def test_reshaping_back_leaves_no_division() -> None:
    program = agree(lambda x: x.reshape(3, 16).reshape(8, 6).reshape(2, 6, 4) * 2, X)
    assert to_text(program).splitlines()[1:] == ["L^{2,6,4}_{i,j,k}[C_{i,j,k}=A_{i,j,k}*2.0;]"]


def test_outputs_that_are_views_or_inputs_are_copies() -> None:
    assert nests(agree(lambda x: x, X)) == 1
    assert nests(agree(lambda x: (x.t(), x), X[0])) == 2
    assert nests(agree(lambda x: (y := x.exp(), y, y.t()), X[0])) == 3
    assert nests(agree(lambda x: x.exp().clone().contiguous(), X)) == 1


def test_outputs_are_named_by_their_place() -> None:
    translation = translate(Calls(lambda x: {"sum": x.sum(), "rest": [x + 1, (x,)]}), (X,))
    assert translation.names == {
        "A": "arguments_0", "C": "output.sum", "D": "output.rest.0", "E": "output.rest.1.0",
    }  # fmt: skip


CAT: dict[str, Callable[[torch.Tensor], Any]] = {
    "cat": lambda x: torch.cat([x, x * 2, x[:1]]),
    "cat an axis": lambda x: torch.cat([x, x[:, 1:3], x.flip(1)], dim=1),
    "cat negative": lambda x: torch.cat([x, x.tanh()], dim=-1),
    "cat one": lambda x: torch.cat([x]),
    "cat of axes of one": lambda x: torch.cat([x[:, :1], x[:, 5:]], 1),
    "stack": lambda x: (torch.stack([x, -x]), torch.stack([x, x], -1), torch.stack([x, x], 1)),
    "pad": lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0)), F.pad(x, (1, 1, 0, 0, 2, 0), value=-1.5)),
    "pad negative": lambda x: (F.pad(x, (-1, 2)), F.pad(x, (-1, -1, -2, 0)), F.pad(x, (0, 0))),
    "tril": lambda x: (x.tril(), x.triu(), x.tril(-2), x.triu(1), x.triu(-3), x.tril(10), x.triu(-10)),
}


@pytest.mark.parametrize("name", CAT)
def test_pieces(name: str) -> None:
    agree(CAT[name], X)


def test_cat_is_one_nest_a_piece() -> None:
    program = agree(lambda x, y: torch.cat([x, y]), draw(2, 3), draw(4, 3))
    assert to_text(program).splitlines()[1:] == [
        "L^{2,3}_{i,j}[D_{i,j}=A_{i,j};]",
        "L^{4,3}_{i,j}[D_{i+2,j}=C_{i,j};]",
    ]


def test_cat_promotes() -> None:
    agree(lambda x, y: torch.cat([x, y]), draw(2, 3), draw(2, 3, dtype=torch.int64), in_double=False)


ROWS = torch.tensor([2, 0, 1, 1])
GATHERS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "embedding": (F.embedding, (ROWS.view(2, 2), draw(3, 5))),
    "index_select": (lambda x, i: (x.index_select(0, i), x.index_select(-1, i)), (draw(3, 4), ROWS)),
    "gather": (lambda x, i: (x.gather(0, i), x.gather(1, i)), (draw(3, 4), ROWS.view(2, 2))),
    "index": (lambda x, i: (x[i], x[:, i]), (draw(3, 3, 4), ROWS)),
    "index two": (lambda x, i: (x[i, i], x[i, :, i], x[:, i, i[:, None]]), (draw(3, 3, 4), ROWS)),
    "constant positions": (lambda x: (x[:, [-1, 0, -3]], x[torch.tensor([2, 0])]), (draw(3, 4),)),
    "positions below zero": (lambda x, i: (x[i], x[:, i]), (draw(3, 4), torch.tensor([-1, 0, -3, 2]))),
    "computed position": (lambda x: x[x.argmax(-1).clamp(max=2)], (draw(3, 4),)),
    "computed below zero": (lambda x: (x[torch.arange(3) - 2], x[-torch.arange(1, 4)]), (draw(3, 4),)),
    "computed from an argument": (lambda x, i: (x[i - 1], x[:, ~i]), (draw(3, 4), ROWS)),
    "ranges": (lambda x: (x[torch.arange(-3, 0)], x[torch.arange(2, -1, -1)], x[torch.arange(2)]), (draw(3, 4),)),
    "one number": (lambda x: x[torch.full((2,), -1)], (draw(3, 4),)),
    "triangle": (lambda x: (x[tuple(torch.tril_indices(3, 4))], x[tuple(torch.triu_indices(3, 4, 1))]), (draw(3, 4),)),
    "triangle as values": (lambda x: torch.tril_indices(3, 3).sum(0) * x[0, 0], (draw(3, 4),)),
    "bags": (
        lambda x, i: (F.embedding_bag(i, x, mode="sum"), F.embedding_bag(i, x), F.embedding_bag(i, x, mode="max")),
        (draw(3, 4), ROWS.view(2, 2)),
    ),
    "weighted bags": (
        lambda x, i, w: F.embedding_bag(i, x, mode="sum", per_sample_weights=w),
        (draw(3, 4), ROWS.view(2, 2), draw(2, 2)),
    ),
    "a grid": (
        lambda x, g: (
            F.grid_sample(x, g.tanh(), align_corners=False),
            F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
        ),
        (draw(2, 3, 4, 5), draw(2, 3, 2, 2)),
    ),
}


@pytest.mark.parametrize("name", GATHERS)
def test_gather(name: str) -> None:
    function, inputs = GATHERS[name]
    agree(function, *inputs)


def test_identity_matrices_and_dropout_that_is_off() -> None:
    agree(
        lambda x: (torch.eye(3, 4), x @ torch.eye(4), torch.native_dropout(x, 0.5, False)), draw(3, 4), in_double=False
    )


def test_bags_whose_bounds_are_data_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match="bags whose bounds are data"):
        translate(Calls(lambda x, i, o: F.embedding_bag(i, x, o)), (draw(3, 4), ROWS, torch.tensor([0, 3])))


def test_memory_by_strides() -> None:
    agree(lambda x: (x.as_strided((2, 3), (1, 2), 3), (x * 2).as_strided((3, 2), (5, 1))), draw(4, 6))
    agree(lambda x: x.clone().fill_diagonal_(2.0), draw(4, 6))
    with pytest.raises(UnsupportedOp, match="strides over the memory behind a view"):
        translate(Calls(lambda x: x[1:].as_strided((2, 3), (1, 2))), (draw(4, 6),))


def test_pieces_without_elements() -> None:
    agree(lambda x: (torch.cat([x[:, :0], x], 1), torch.block_diag(x, x[:1])), draw(3, 4))
    with pytest.raises(UnsupportedOp, match=r"aten.sum.dim_IntList: a tensor without elements"):
        translate(Calls(lambda x: x[:, :0].sum(1) + x[:, 0]), (draw(3, 4),))


def test_a_boolean_index_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="depends on data"):
        translate(Calls(lambda x, m: x[m].sum()), (draw(3), torch.tensor([True, False, True])))


WHERE = torch.tensor([[0, 1], [2, 4], [3, 0]])
SCATTERS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "scatter": (lambda x, y: (x.scatter(1, WHERE, y), x.scatter(-1, WHERE[:2], y), x.scatter(0, WHERE % 3, 1.5)), ()),
    "scatter of an input": (lambda x, y, i: x.scatter(1, i, y), (WHERE,)),
    "scatter_add": (lambda x, y: (x.scatter_add(1, WHERE - WHERE, y), x.scatter(1, WHERE, 2.5, reduce="multiply")), ()),
    "scatter_reduce": (
        lambda x, y: (
            x.scatter_reduce(1, WHERE % 2, y, "amax"), x.scatter_reduce(1, WHERE % 2, y, "sum", include_self=False),
            x.scatter_reduce(1, WHERE % 2, y, "amin", include_self=False), x.scatter_reduce(1, WHERE % 2, y, "prod"),
        ),
        (),
    ),
    "index_add": (lambda x, y, i: x.index_add(1, i, y, alpha=2), (torch.tensor([2, 2]),)),
    "index_copy and index_fill": (lambda x, y, i: (x.index_copy(1, i, y), x.index_fill(0, i, -2)), (ROWS[1:3],)),
    "index_put": (
        lambda x, y, i: (x.index_put((i,), y[0, 0]), x.index_put((i,), x[:2], accumulate=True)),
        (torch.tensor([1, 1]),),
    ),
    "index_put of two": (lambda x, y, i: x.index_put((i[:, None], i), y[:2]), (torch.tensor([1, 2]),)),
    "index_put below zero": (lambda x, y, i: x.index_put((i,), y[:2, :1]), (torch.tensor([-1, 0]),)),
    "a mask": (lambda x, y, m: (x.index_put((m,), y[0, 0]), x.masked_fill(m, 2)), (draw(3, 5, dtype=torch.bool),)),
    "a mask of rows": (lambda x, y, m: x.index_put((m,), y[0, 0]), (torch.tensor([True, False, True]),)),
    "pieces": (
        lambda x, y: (
            x.select_scatter(y[:, 0], -1, -2), x.slice_scatter(y, 1, 1, None, 2), x.diagonal_scatter(y[:2, 0], -1),
        ),
        (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCATTERS)
def test_scatter(name: str) -> None:
    function, inputs = SCATTERS[name]
    agree(function, draw(3, 5), draw(3, 2), *inputs)


def test_values_that_a_mask_places_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match="depends on data"):
        translate(Calls(lambda x, m: x.index_put((m,), x[0])), (draw(3, 3), torch.eye(3).bool()))
