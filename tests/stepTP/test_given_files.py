"""Given programs in a build: each once, named by file, with where they are from, wherever their folder lies."""

from pathlib import Path

import pytest

from stepTP import pipeline
from stepTP.config import ConfigError, Folder, ImportedModule, parse_config
from stepTP.frontend import load_text
from stepTP.given.files import GivenProgram, given_programs
from stepTP.given.normal import normal_form
from stepTP.identity import identity
from stepTP.records import ProgramRow, RejectedRow, StepRow, read_rows
from tests.stepTP.fakes import FakePool

MODULE = '''import torch
import torch.nn as nn

size = 64
kernel_size = 3


class Model(nn.Module):
    """Some words."""

    def __init__(self, width):
        super(Model, self).__init__()
        self.layer = nn.Linear(width, kernel_size)

    def forward(self, x):
        hidden = self.layer(x)
        return torch.relu(hidden)


def get_inputs():
    return [torch.randn(size, 8)]


def get_init_inputs():
    return [8]
'''
RENAMED = MODULE.replace("hidden", "y").replace("self.layer", "self.fc").replace("size = 64", "size = 32  # fewer")


def folder(place: Path) -> Path:
    (place / "below").mkdir(parents=True)
    (place / "a.py").write_text(MODULE)
    (place / "b.py").write_text(RENAMED)
    (place / "below" / "c.py").write_text(MODULE.replace("relu", "tanh"))
    for number, op in enumerate(("exp", "sin", "cos", "abs", "neg", "sigmoid")):
        (place / "below" / f"d{number}.py").write_text(MODULE.replace("relu", op))
    (place / "broken.py").write_text("def f(:\n")
    (place / "bytes.py").write_bytes(b"x = '\xff'\n")
    (place / "bare.py").write_text("kernel_size = 3\n")
    return place


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("hidden", "y", True),
        ("size = 64", "size = 32", True),
        ("torch.randn(size, 8)", "torch.randn(size, 16)", True),
        ('    """Some words."""\n', "", True),
        ("relu", "tanh", False),
        ("kernel_size = 3", "kernel_size = 5", False),
        ("nn.Linear(width, kernel_size)", "nn.Linear(width, 4)", False),
        ("torch.relu(hidden)", "torch.relu(x)", False),
    ],
)
def test_when_two_files_are_one_program(old: str, new: str, same: bool) -> None:
    assert old in MODULE
    assert (normal_form(MODULE) == normal_form(MODULE.replace(old, new))) is same


def test_ids_come_from_what_a_file_says(tmp_path: Path) -> None:
    place = folder(tmp_path / "x")
    (tmp_path / "y" / "deeper").mkdir(parents=True)
    (tmp_path / "y" / "deeper" / "other.py").write_text(MODULE)

    def first(where: Path, **settings: object) -> GivenProgram:
        program = given_programs([Folder(path=str(where), license="MIT", **settings)], [])[0]  # type: ignore[arg-type]
        assert isinstance(program, GivenProgram)
        return program

    assert first(place).id == first(tmp_path / "y").id
    ids = [first(place, **s).id for s in ({}, {"fit": 5000}, {"set": {"size": 5}}, {"eval": True}, {"family": "mine"})]
    assert len(set(ids)) == len(ids) and ids[-1].startswith("mine-")
    program = first(place, set={"size": 5})
    assert (program.file, program.license, program.knobs["size"]) == ("a.py", "MIT", 5)
    assert "\nsize = 5\n" in program.torch_code


def test_evaluation_mode_is_in_the_text(tmp_path: Path) -> None:
    (program, *_) = given_programs([Folder(path=str(folder(tmp_path / "x")), license="MIT", eval=True)], [])
    assert not load_text(program.torch_code).module.training
    assert load_text(MODULE).module.training


def test_a_class_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given_nets.py").write_text(MODULE.replace("Model", "Net"))
    monkeypatch.chdir(tmp_path)
    (program,) = given_programs([], [ImportedModule(module="given_nets:Net", license="MIT")])
    assert load_text(program.torch_code, overrides={"size": 2}).inputs[0].shape == (2, 8)
    with pytest.raises(ConfigError, match=r"sources.modules.0.module: no Python file is importable as absent"):
        given_programs([], [ImportedModule(module="absent:Net", license="MIT")])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sources.folders.0.path: no folder"):
        given_programs([Folder(path=str(tmp_path / "none"), license="MIT")], [])
    with pytest.raises(ConfigError, match=r"sources.folders.0.path: no .py file"):
        given_programs([Folder(path=str(tmp_path), license="MIT")], [])


def contents(run: Path) -> dict[str, bytes]:
    return {
        f.relative_to(run).as_posix(): f.read_bytes() for f in sorted(run.rglob("*")) if f.suffix.startswith(".json")
    }


def test_a_build_over_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is broken costs itself; the folder's place and the workers cost nothing."""
    monkeypatch.setattr(pipeline, "Pool", FakePool)
    runs = []
    for number, place in enumerate((folder(tmp_path / "one"), folder(tmp_path / "two" / "deeper"))):
        config = parse_config(
            "name: tiny\ntokens: false\nwalk: {depth: 1, strategies: [loop_split]}\nsources:\n  families: none\n"
            f"  folders: [{{path: {place}, license: MIT, fit: 2000}}]\n"
        )
        assert str(place) not in identity(config).model_dump_json()
        runs.append(tmp_path / f"run{number}")
        pipeline.build(config, runs[-1], workers=1 + number)
    assert contents(runs[0]) == contents(runs[1])
    rejected = [row for row in read_rows(runs[0] / "rejected.jsonl") if isinstance(row, RejectedRow)]
    messages = {row.message: row.cause for row in rejected if row.stage == "translate"}
    assert messages["b.py: the same program as a.py, but for names and sizes"] == "double"
    assert messages["bytes.py: not UTF-8 text (byte 5)"] == "source-error"
    assert any(m.startswith("broken.py:1: is no Python") and c == "source-error" for m, c in messages.items())
    assert len({row.id for row in rejected}) == len(rejected)
    programs = [row for row in read_rows(runs[0] / "programs.jsonl") if isinstance(row, ProgramRow)]
    assert programs and all(row.source.license == "MIT" and row.source.family == "given" for row in programs)
    assert all(
        row.knobs["size"] == 4 and "size = 4" in row.source.torch_code
        for row in programs
        if "bare" not in row.knobs["file"]
    )
    assert any(row.knobs["file"].startswith("below/d") for row in programs)
    steps = [row for row in read_rows(runs[0] / "steps.jsonl") if isinstance(row, StepRow)]
    assert steps and {row.source.id for row in steps} <= {row.id for row in programs}


def test_wrong_keys_name_their_line() -> None:
    for text, message in (
        ("sources:\n  folders:\n    - {path: a, license: MIT, fti: 2000}", "did you mean 'fit'"),
        ("sources:\n  folders:\n    - {path: a}", r"c.yaml:4: sources.folders.0.license: the key is missing"),
        ("sources:\n  modules:\n    - {module: nets, license: MIT}", r"c.yaml:4: sources.modules.0.module: "),
    ):
        with pytest.raises(ConfigError, match=message):
            parse_config(f"name: a\n{text}", "c.yaml")
    with pytest.raises(ConfigError, match="there is none: name families, folders or modules"):
        pipeline.planned_shards(parse_config("name: a\nsources: {families: none}"))
