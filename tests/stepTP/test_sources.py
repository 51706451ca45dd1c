"""The source families: distinct, keyed, runnable, of the sizes that verification can afford."""

import ast
import re

import pytest
import torch

from stepTP.sources import FamilyTooSmall, SourceProgram, families, generate
from stepTP.sources.draw import Draw

NAMES = [family.name for family in families()]


def run(program: SourceProgram) -> tuple[torch.nn.Module, list[torch.Tensor], torch.Tensor]:
    space: dict = {}
    exec(compile(program.torch_code, program.id, "exec"), space)
    torch.manual_seed(0)
    model = space["Model"](*space["get_init_inputs"]())
    inputs = space["get_inputs"]()
    return model, inputs, model(*inputs)


def test_there_are_at_least_twelve_families() -> None:
    assert len(NAMES) >= 12
    assert sorted(set(NAMES)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_programs_run_and_vary(name: str) -> None:
    programs = generate([name], seed=0, per_family=8)
    assert len({program.torch_sha for program in programs}) == 8
    for program in programs:
        model, inputs, output = run(program)
        assert torch.isfinite(output).all()
        assert output.numel() > 1 and output.std() > 0
        sizes = [size for tensor in inputs for size in tensor.shape]
        assert all(size <= 64 for size in sizes), program.id
        for number, tensor in enumerate(inputs):
            changed = [*inputs[:number], torch.flip(tensor, [-1]) + 1.0, *inputs[number + 1 :]]
            assert not torch.equal(model(*changed), output), f"{program.id} does not use input {number}"


@pytest.mark.parametrize("name", NAMES)
def test_knobs_are_those_of_the_text(name: str) -> None:
    """A knob that two programs share everywhere they differ would be a knob without effect."""
    programs = generate([name], seed=3, per_family=12)
    by_knobs = {tuple(sorted(program.knobs.items())) for program in programs}
    assert len(by_knobs) == len(programs)


def test_text_is_tidy() -> None:
    for program in generate(NAMES, seed=1, per_family=6):
        tree = ast.parse(program.torch_code)
        assert max(len(line) for line in program.torch_code.splitlines()) <= 120
        assert ("F" in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}) == bool(
            re.search(r"functional as F", program.torch_code)
        )


def test_a_program_depends_on_its_own_key_only() -> None:
    alone = generate(["softmax"], seed=5, per_family=4)
    together = generate(NAMES, seed=5, per_family=4)
    assert [p for p in together if p.family == "softmax"] == alone
    assert generate(["softmax"], seed=5, per_family=8)[:4] == alone
    assert generate(["softmax"], seed=6, per_family=4) != alone


def test_a_new_knob_moves_no_other() -> None:
    first, second = Draw(0, "f", 0), Draw(0, "f", 0)
    second.choose("new", (1, 2, 3))
    options = tuple(range(100))
    assert first.choose("size", options) == second.choose("size", options)


def test_bad_requests_are_refused() -> None:
    with pytest.raises(KeyError, match="no family nothing"):
        generate(["nothing"], seed=0, per_family=1)
    with pytest.raises(FamilyTooSmall, match="distinct programs"):
        generate(["patch_embedding"], seed=0, per_family=2_000)
    with pytest.raises(ValueError, match="twice"):
        draw = Draw(0, "f", 0)
        draw.choose("size", (1, 2))
        draw.choose("size", (1, 2))
