"""The source families: distinct, keyed, runnable, of the sizes that verification can afford."""

import ast
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from stepTP import sources
from stepTP.intake import translate
from stepTP.sources import Family, FamilyTooSmall, SourceProgram, families, generate
from stepTP.sources.draw import Draw

ROOT = Path(__file__).parents[2]
NAMES = [family.name for family in families()]


def run(program: SourceProgram) -> tuple[torch.nn.Module, list[torch.Tensor], torch.Tensor]:
    """The module, its inputs, and all its outputs in one vector."""
    space: dict = {}
    exec(compile(program.torch_code, program.id, "exec"), space)
    torch.manual_seed(0)
    model = space["Model"](*space["get_init_inputs"]())
    inputs = space["get_inputs"]()
    return model, inputs, outputs(model, inputs)


def outputs(model: torch.nn.Module, inputs: list[torch.Tensor]) -> torch.Tensor:
    given = model(*inputs)
    return torch.cat([each.detach().double().flatten() for each in (given if isinstance(given, tuple) else (given,))])


def changed(tensor: torch.Tensor) -> torch.Tensor:
    """Another tensor of its kind; integers stay among those that are there."""
    turned = torch.flip(tensor, list(range(tensor.dim())))
    return turned + 1.0 if tensor.is_floating_point() else turned


def test_there_are_at_least_forty_four_families() -> None:
    assert len(NAMES) >= 44
    assert sorted(set(NAMES)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_programs_run_and_vary(name: str) -> None:
    programs = generate([name], seed=0, per_family=8)
    assert len({program.torch_sha for program in programs}) == 8
    for program in programs:
        model, inputs, output = run(program)
        assert torch.isfinite(output).all(), program.id
        assert output.numel() > 1 and output.std() > 0, program.id
        assert sum(tensor.numel() for tensor in inputs) <= 20_000, program.id
        assert all(size <= 64 for tensor in inputs for size in tensor.shape), program.id
        for number, tensor in enumerate(inputs):
            others = [*inputs[:number], changed(tensor), *inputs[number + 1 :]]
            assert not torch.equal(outputs(model, others), output), f"{program.id} does not use input {number}"


@pytest.mark.parametrize("name", NAMES)
def test_every_constant_and_argument_is_used(name: str) -> None:
    for program in generate([name], seed=2, per_family=20):
        tree = ast.parse(program.torch_code)
        nodes = list(ast.walk(tree))
        read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        constants = [target.id for node in tree.body if isinstance(node, ast.Assign)
                     for target in node.targets if isinstance(target, ast.Name)]  # fmt: skip
        arguments = [node.arg for node in nodes if isinstance(node, ast.arg) and node.arg != "self"]
        assert not sorted(set(constants + arguments) - read), program.torch_code
        state = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
        loaded = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
        assert not sorted(state - loaded), program.torch_code


@pytest.mark.parametrize("name", NAMES)
def test_knobs_are_those_of_the_text(name: str) -> None:
    """A knob that two programs share everywhere they differ would be a knob without effect."""
    programs = generate([name], seed=3, per_family=12)
    by_knobs = {tuple(sorted(program.knobs.items())) for program in programs}
    assert len(by_knobs) == len(programs)


def test_text_is_tidy(tmp_path: Path) -> None:
    """As `ruff format` leaves it, with no import that nothing uses."""
    for program in generate(NAMES, seed=1, per_family=6):
        tree = ast.parse(program.torch_code)
        assert max(len(line) for line in program.torch_code.splitlines()) <= 120
        assert ("F" in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}) == bool(
            re.search(r"functional as F", program.torch_code)
        )
        (tmp_path / f"{program.id}.py").write_text(program.torch_code)
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    command = [ruff, "format", "--check", "--no-cache", "--isolated", "--line-length", "120", str(tmp_path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_table_of_families() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "families.py"))
    here = SimpleNamespace(submit=lambda _, payload: SimpleNamespace(result=lambda: translate(payload)))
    found = script["figures"]("rational", 0, 40, 2, here)
    assert (found.drawn, found.checked, found.verified, found.problems) == (40, 2, 2, ())
    assert 30 < found.structures <= found.texts <= 40
    assert f"| rational | {found.per_second:,.0f} | 40 |" in "\n".join(script["table"]([found]))


def test_structure_leaves_out_names_sizes_and_docstrings() -> None:
    structure = runpy.run_path(str(ROOT / "scripts" / "families.py"))["structure"]
    program = generate(["rational"], seed=0, per_family=1)[0].torch_code
    other = re.sub(r"\bp\b", "denominator", re.sub(r"rows = \d+", "rows = 99", program))
    assert other != program and structure(other) == structure(program)
    assert structure(program.replace('"""A sum', '"""Some')) == structure(program)
    assert structure(program.replace(" / ", " * ")) != structure(program)
    assert structure(program.replace("columns)", "rows)")) == structure(program)  # all sizes are one


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


def test_bad_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError, match="no family nothing"):
        generate(["nothing"], seed=0, per_family=1)
    small = Family("small", "one program", lambda draw: f"size = {draw.choose('size', (1, 2))}")
    monkeypatch.setattr(sources, "families", lambda: (small,))
    with pytest.raises(FamilyTooSmall, match="gave 2 distinct programs, 3 were asked for"):
        generate(["small"], seed=0, per_family=3)
    with pytest.raises(ValueError, match="twice"):
        draw = Draw(0, "f", 0)
        draw.choose("size", (1, 2))
        draw.choose("size", (1, 2))
