"""The experts' schedules: every rule applies somewhere, and what it makes computes what the plain program computes."""

from typing import Any

import pytest

from leir.analysis.kernels import kernels
from leir.canonical import state_id
from leir.check import check
from leir.parser import parse
from leir.printer import to_text
from schedules.run import trajectory
from stepTP.search.experts.plans import WHOLE, outline, plan
from stepTP.search.model import predicted_seconds
from strategies.catalog import names
from tests.strategies.meaning import why_not_same_values

ROWS = "L^{3,256}_{i,j}"
# A program, and words of the rules that must fit it, in the order of the outline.
PROGRAMS = {
    "product": (
        "in A_{36,24},C_{24,68};out D_{36,68};L^{36,68,24}_{i,j,k}[D_{i,j}+=A_{i,k}*C_{k,j};]", "product 16x32x8"),
    "transposed operands": (
        "in A_{24,36},C_{68,24};out D_{36,68};L^{36,68,24}_{i,j,k}[D_{i,j}+=A_{k,i}*C_{j,k};]", "product 16x32x8"),
    "batched product": (
        "in A_{2,3,20,12},C_{2,3,36,12};out D_{2,3,20,36};"
        "L^{2,3,20,36,12}_{i,j,k,l,m}[D_{i,j,k,l}+=A_{i,j,k,m}*C_{i,j,l,m};]", "product 16x32x8"),
    "softmax": (
        f"in A_{{3,256}};out C_{{3,256}};{ROWS}[D_i max=A_{{i,j}};]{ROWS}[E_i+=exp(A_{{i,j}}-D_i);]"
        f"{ROWS}[C_{{i,j}}=exp(A_{{i,j}}-D_i)/E_i;]", "a block a row of 256, 64 threads"),
    "rows of two loops, normalised": (
        "in A_{2,3,128},C_{2,3,128};out F_{2,3,128};L^{2,3,128}_{i,j,k}[G_{i,j,k}=A_{i,j,k}+C_{i,j,k};]"
        "L^{2,3,128}_{i,j,k}[H_{i,j}+=G_{i,j,k};]L^{2,3}_{i,j}[I_{i,j}=H_{i,j}/128.0;]"
        "L^{2,3,128}_{i,j,k}[F_{i,j,k}=G_{i,j,k}-I_{i,j};]", "a block a row of 128, 32 threads"),
    "column sum": ("in A_{64,128};out C_{128};L^{128,64}_{i,j}[C_i+=A_{j,i};]", "columns in 32 parts"),
    "transpose": ("in A_{80,96};out C_{96,80};L^{96,80}_{i,j}[C_{i,j}=A_{j,i};]", "transposed by tiles of 64"),
    "map": ("in A_{3,1024};out C_{3,1024};L^{3,1024}_{i,j}[C_{i,j}=A_{i,j}*2.0;]", "vectors of 4, 256 threads"),
    "padded convolution": (
        "in A_{1,4,6,8},C_{16,4,3,3};out D_{1,16,6,8};L^{1,4,8,10}_{i,j,k,l}[E_{i,j,k,l}="
        "if_then_else(0<=k-1&&k-1<6&&0<=l-1&&l-1<8,A_{i,j,k-1,l-1},0.0);]"
        "L^{1,16,6,8,4,3,3}_{i,j,k,l,m,n,o}[D_{i,j,k,l}+=E_{i,m,k+n,l+o}*C_{j,m,n,o};]",
        "convolution by 16 channels, 6 rows, 8 columns"),
    "window": (
        "in A_{2,3,8,8};out C_{2,3,4,4};L^{2,3,4,4,2,2}_{i,j,k,l,m,n}[C_{i,j,k,l} max=A_{i,j,k*2+m,l*2+n};]",
        "one thread a result"),
}  # fmt: skip


ATTENTION = (
    "in A_{1,40,32},C_{1,36,32},D_{1,36,32};out E_{1,40,32};L^{1,40,36,32}_{i,j,k,l}[F_{i,j,k}+=A_{i,j,l}*C_{i,k,l};]"
    "L^{1,40,36}_{i,j,k}[G_{i,j,k}=F_{i,j,k}*0.1767766952966369;]L^{1,40,36}_{i,j,k}[I_{i,j} max=G_{i,j,k};]"
    "L^{1,40,36}_{i,j,k}[J_{i,j}+=exp(G_{i,j,k}-I_{i,j});]L^{1,40,36}_{i,j,k}[H_{i,j,k}=exp(G_{i,j,k}-I_{i,j})/J_{i,j};]"
    "L^{1,40,32,36}_{i,j,k,l}[E_{i,j,k}+=H_{i,j,l}*D_{i,l,k};]"
)


def asked(text: str) -> dict[str, object]:
    return {"leir": text, "target": "cuda", "seed": 0, "source": "x", "strategies": list(names()), "wanted": 9}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gets_the_schedule_of_its_expert_and_keeps_its_meaning(name: str) -> None:
    text, wanted = PROGRAMS[name]
    rules = outline(asked(text))
    assert rules[0] == WHOLE
    assert rules[1].startswith(wanted), rules
    (move,) = plan({**asked(text), "rule": WHOLE})["moves"]
    program = parse(move["steps"][-1]["leir"])
    assert not check(program)
    assert "B^" in move["steps"][-1]["leir"]
    exact = all(step["bit_exact"] for step in move["steps"])
    problem = why_not_same_values(parse(text), program, exact, name)
    assert not problem, problem


@pytest.mark.slow
def test_attention_is_taken_in_one_pass_where_the_program_is_the_plain_one() -> None:
    first = outline(asked(ATTENTION))[0]
    assert first.startswith("attention in one pass, 32 queries by 32 keys"), first
    (move,) = plan({**asked(ATTENTION), "rule": first})["moves"]
    assert any(step["strategy"] == "flashattention_wo_tiling" for step in move["steps"])
    problem = why_not_same_values(parse(ATTENTION), parse(move["steps"][-1]["leir"]), False, "attention")
    assert not problem, problem


def test_a_padded_image_is_padded_where_it_is_staged() -> None:
    text, wanted = PROGRAMS["padded convolution"]
    out = f"{wanted}, copies written out"
    assert outline(asked(text))[1:3] == [wanted, out]
    ends = [plan({**asked(text), "rule": rule})["moves"][0]["steps"][-1]["leir"] for rule in (wanted, out)]
    for end in ends:
        assert len(parse(end).body) == 1  # the nest that padded is gone
        assert end.count("if_then_else") == 1
    assert ends[1].count("U^") > ends[0].count("U^")


# A module of `schedules`, the size at which it is measured, and the tiles that are the fastest there.
SCRIPTED: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("matmul", (2048, 2048, 2048), {"block": [64, 128, 16], "thread": [8, 8]}),
    ("softmax", (8192, 8192), {"threads": 512, "levels": [64, 8]}),
    ("layer_norm", (8192, 8192), {"threads": 512, "levels": [64, 8]}),
    ("transpose", (8192, 8192), {"tile": 64, "rows": 8}),
    ("convolution", (32, 64, 56, 56, 64), {"block": [64, 8, 28], "thread": [8, 4]}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size", "tiles"), SCRIPTED, ids=[name for name, *_ in SCRIPTED])
def test_the_first_move_is_as_good_as_the_schedule_that_was_written_by_hand(
    name: str, size: tuple[int, ...], tiles: dict[str, Any]
) -> None:
    """At real sizes: the same kernels, blocks, threads and shared memory, and no more seconds by the cost model."""
    scripted = trajectory(name, size, tiles)
    found = plan({**asked(to_text(scripted.states[0])), "rule": WHOLE})["moves"][0]["steps"][-1]
    program = parse(found["leir"])
    axes = [sorted(kernel.axes.items()) for kernel in kernels(program)]
    assert axes == [sorted(kernel.axes.items()) for kernel in kernels(scripted.program)]
    assert found["seconds"] <= 1.02 * predicted_seconds(scripted.program, "cuda")
    if name in ("matmul", "softmax", "convolution"):
        assert found["state_id"] == state_id(scripted.program)


def test_nothing_is_outlined_where_every_nest_is_scheduled() -> None:
    text = "in A_{64};out C_{64};B^{64}_{tx}[C_{tx}=A_{tx}*2.0;]"
    assert outline(asked(text)) == []


def test_temporaries_that_cost_more_to_store_are_computed_again() -> None:
    text = (
        "in A_{8,1024};out D_{8,1024};L^{8,1024}_{i,j}[C_{i,j}=A_{i,j}+1.0;]L^{8,1024}_{i,j}[D_{i,j}=C_{i,j}*C_{i,j};]"
    )
    (move,) = plan({**asked(text), "rule": WHOLE})["moves"]
    assert move["steps"][0]["strategy"] == "compute_inline"
    assert "C_" not in move["steps"][-1]["leir"].replace("D_", "")
