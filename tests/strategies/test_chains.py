"""The trajectories of the catalog's page: each step is legal, and each state means what the one before it means."""

import runpy
from pathlib import Path

import pytest

from leir.edit import accesses, walk
from leir.syntax import Alloc
from strategies.catalog import print_step
from tests.strategies.meaning import why_not_same

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "catalog.py"))
FILES = sorted((ROOT / "tests" / "cases" / "trajectories").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_state_keeps_the_meaning(file: Path) -> None:
    _, states, steps = SCRIPT["trajectory"](file)
    for before, step in zip(states, steps, strict=False):
        problem = why_not_same(before, step, step.apply(before), file.stem)
        assert not problem, f"{print_step(step)}: {problem}"


KEPT = {
    "online_softmax": {"F": ("l", (2,)), "G": ("l", ())},
    "flash_attention": {"J": ("l", (2,)), "K": ("l", ()), "M": ("l", (4,)), "F": ("l", ())},
}


@pytest.mark.parametrize("name", KEPT)
def test_a_chain_ends_with_a_few_registers_a_row(name: str) -> None:
    _, states, _ = SCRIPT["trajectory"](ROOT / "tests" / "cases" / "trajectories" / f"{name}.txt")
    kept = {node.tensor: (node.scope, node.shape) for _, node in walk(states[-1]) if isinstance(node, Alloc)}
    assert kept == KEPT[name]
    tensors = {access.tensor for access in accesses(states[-1])}
    assert tensors - kept.keys() == {d.tensor for d in (*states[-1].inputs, *states[-1].outputs)} | (
        {"D", "E"} if name == "online_softmax" else set()
    )
