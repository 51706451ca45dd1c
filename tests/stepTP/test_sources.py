"""The source families: distinct, keyed, runnable, of the sizes that verification can afford."""

import ast
import math
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from stepTP import sources
from stepTP.intake import translate
from stepTP.sources import Family, FamilyTooSmall, SourceProgram, draws, families, generate, knobs, outside
from stepTP.sources.draw import Draw
from stepTP.sources.normal import normal_form

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


def test_there_are_as_many_families_as_is_said() -> None:
    own = [name for name in NAMES if name not in outside()]
    assert f"`sources/`: {len(own)} families" in (ROOT / "stepTP/README.md").read_text(encoding="utf-8")
    assert sorted(set(own)) == own == NAMES[: len(own)]


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
        own = [node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"]
        state = {node.attr for node in own if isinstance(node.ctx, ast.Store)}
        state |= set(re.findall(r'self\.register_buffer\("(\w+)"', program.torch_code))
        loaded = {node.attr for node in own if isinstance(node.ctx, ast.Load)} - {"register_buffer"}
        assert sorted(state) == sorted(loaded), program.torch_code


@pytest.mark.parametrize("name", NAMES)
def test_knobs_are_those_of_the_text(name: str) -> None:
    """A knob that two programs share everywhere they differ would be a knob without effect."""
    programs = generate([name], seed=3, per_family=12)
    by_knobs = {tuple(sorted(program.knobs.items())) for program in programs}
    assert len(by_knobs) == len(programs)


@pytest.mark.parametrize("family", families(), ids=NAMES)
def test_every_knob_is_listed_and_can_vary(family: Family) -> None:
    listed = knobs(family)
    assert all(len(options) > 1 for options in listed.values())
    for program in draws(family.name, 9, 60):
        assert all(value in listed[knob] for knob, value in program.knobs.items())


def test_families_have_pages() -> None:
    """Each module has a docstring with an example, and the folder's page names every family of the folder."""
    page = (ROOT / "stepTP" / "sources" / "README.md").read_text()
    for family in families():
        first, _, example = (sys.modules[family.write.__module__].__doc__ or "").partition("\n\n")
        assert first and family.summary
        assert ast.parse("def forward():\n" + textwrap.indent(example, "    "))
        assert f"`{family.name}`" in page or family.name in outside()


def written(folder: Path, seed: int, per_family: int) -> list[ast.Module]:
    """Programs of every family in a folder, and their trees."""
    programs = generate(NAMES, seed, per_family)
    for program in programs:
        (folder / f"{program.id.replace('-', '_')}.py").write_text(program.torch_code)
    return [ast.parse(program.torch_code) for program in programs]


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return found or pytest.skip(f"{name} is not installed")


def test_text_is_tidy(tmp_path: Path) -> None:
    """As `ruff format` leaves it, typed, with no import that nothing uses."""
    for tree in written(tmp_path, seed=1, per_family=6):
        nodes = list(ast.walk(tree))
        reads_f = "F" in {node.id for node in nodes if isinstance(node, ast.Name)}
        imported = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import)]
        assert ("import torch.nn.functional as F" in imported) == reads_f
        for function in [node for node in nodes if isinstance(node, ast.FunctionDef)]:
            assert function.returns is not None
            assert all(argument.annotation is not None for argument in function.args.args if argument.arg != "self")
    command = [tool("ruff"), "format", "--check", "--no-cache", "--isolated", "--line-length", "120", str(tmp_path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    lines = [line for file in sorted(tmp_path.iterdir()) for line in file.read_text().splitlines()]
    assert max(map(len, lines)) <= 120


@pytest.mark.slow
def test_types_hold(tmp_path: Path) -> None:
    written(tmp_path, seed=6, per_family=4)
    command = [tool("pyright"), "--pythonpath", sys.executable, "."]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_table_of_families() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "families.py"))
    here = SimpleNamespace(submit=lambda _, payload: SimpleNamespace(result=lambda: translate(payload)))
    found = script["figures"]("rational", 0, 40, 6, 2, here)
    assert (found.drawn, found.judged, found.refused, found.checked, found.verified) == (40, 6, {}, 2, 2)
    assert found.problems == () and found.structures == 2
    assert 30 < found.distinct <= 40 and 5 < found.entropy < math.log2(41)
    line = f"| rational | {found.per_second:,.0f} | 40 | {found.distinct} | {found.entropy:.1f} | 0% | 2 of 2 | 2 |"
    assert line in list(script["table"]([found]))


def test_the_table_counts_what_is_refused_and_what_does_not_run() -> None:
    judgements = runpy.run_path(str(ROOT / "scripts" / "families.py"))["judgements"]
    program = generate(["rational"], seed=0, per_family=1)[0]
    lines = program.torch_code.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("        return"))
    texts = {"        return torch.ones(3)": "constant-output", "        return missing": "NameError"}
    spoiled = ["\n".join([*lines[:at], line, *lines[at + 1 :]]) for line in texts]
    refused, raised = judgements([program.model_copy(update={"torch_code": text}) for text in spoiled])
    assert refused == {"constant-output": 1}
    assert len(raised) == 1 and "missing" in raised[0]


def test_the_normal_form_leaves_out_names_sizes_and_docstrings() -> None:
    program = generate(["rational"], seed=0, per_family=1)[0].torch_code
    other = re.sub(r"\bp\b", "denominator", re.sub(r"rows = \d+", "rows = 99", program))
    assert other != program and normal_form(other) == normal_form(program)
    assert normal_form(program.replace('"""A sum', '"""Some')) == normal_form(program)
    assert normal_form(program.replace(" / ", " * ")) != normal_form(program)
    assert normal_form(program.replace("columns)", "rows)")) == normal_form(program)  # all sizes are one
    buffered = next(p.torch_code for p in draws("attention", 0, 99) if "register_buffer" in p.torch_code)
    assert normal_form(buffered.replace("allowed", "visible")) == normal_form(buffered)


@pytest.mark.parametrize("name", NAMES)
def test_programs_differ_in_more_than_names_and_sizes(name: str) -> None:
    programs = generate([name], seed=4, per_family=20)
    assert len({normal_form(program.torch_code) for program in programs}) == 20


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
    with pytest.raises(ValueError, match="at least one program"):
        generate(["softmax"], seed=0, per_family=0)
    small = Family("small", "one program of two sizes", lambda draw: f"size = {draw.choose('size', (1, 2))}")
    monkeypatch.setattr(sources, "families", lambda: (small,))
    with pytest.raises(FamilyTooSmall, match="gave 1 programs that differ in more than names and sizes; 3 were"):
        generate(["small"], seed=0, per_family=3)
    with pytest.raises(ValueError, match="twice"):
        draw = Draw(0, "f", 0)
        draw.choose("size", (1, 2))
        draw.choose("size", (1, 2))
