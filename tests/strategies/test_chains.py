"""The trajectories of the catalog's page: each step is legal, and each state means what the one before it means."""

import runpy
from pathlib import Path

import pytest

from leir.edit import walk
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


def test_the_softmax_ends_with_a_few_registers_a_row() -> None:
    _, states, _ = SCRIPT["trajectory"](ROOT / "tests" / "cases" / "trajectories" / "online_softmax.txt")
    kept = {node.tensor: (node.scope, node.shape) for _, node in walk(states[-1]) if isinstance(node, Alloc)}
    assert kept == {"F": ("l", (2,)), "G": ("l", ())}
