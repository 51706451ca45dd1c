"""Files in KernelBench's form: loading, keyed draws, overrides, and errors that say where and why."""

from pathlib import Path

import pytest
import torch

from stepTP.frontend import (
    ExportFailed,
    LoadedSource,
    SourceError,
    UnsupportedOp,
    load_source,
    load_text,
    translate,
    translated,
)
from stepTP.sources import families, generate

CODE = """import torch
import torch.nn as nn

batch_size = 3
width: int = 4
double = batch_size * 2


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 2)

    def forward(self, x):
        y = self.layer(x)
        return torch.dropout(y, 0.5, self.training)


def get_inputs():
    return [torch.randn(double, width)]


def get_init_inputs():
    return [width]
"""


def weights(source: LoadedSource) -> torch.Tensor:
    return torch.cat([p.flatten() for p in source.module.parameters()])


def test_a_file_is_loaded_in_the_mode_it_is_built_in(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(CODE)
    source = load_source(file)
    assert source.module.training
    with pytest.raises(UnsupportedOp, match="dropout in training draws random numbers"):
        translate(source.module, source.inputs)
    source = load_source(file, evaluation=True)
    assert not source.module.training
    assert [tuple(x.shape) for x in source.inputs] == [(6, 4)]
    assert translate(source.module, source.inputs).names == {
        "A": "x", "C": "layer.weight", "D": "layer.bias", "E": "output",
    }  # fmt: skip


def test_draws_are_keyed() -> None:
    before = torch.random.get_rng_state()
    first, again, other = load_text(CODE), load_text(CODE), load_text(CODE, seed=1)
    assert torch.equal(first.inputs[0], again.inputs[0])
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(first.inputs[0], other.inputs[0])
    assert not torch.equal(weights(first), weights(other))
    assert torch.equal(before, torch.random.get_rng_state())


def test_parameters_do_not_depend_on_the_shapes_of_inputs() -> None:
    assert torch.equal(weights(load_text(CODE)), weights(load_text(CODE, overrides={"batch_size": 1})))


def test_overrides_reach_what_is_derived_from_them() -> None:
    source = load_text(CODE, overrides={"batch_size": 5, "width": 7})
    assert source.inputs[0].shape == (10, 7)


def test_a_class_of_a_module_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "__init__.py").write_text("")
    (tmp_path / "some_package" / "nets.py").write_text(CODE.replace("class Model", "class Net"))
    monkeypatch.syspath_prepend(str(tmp_path))
    source = load_source("some_package.nets:Net", {"batch_size": 1})
    assert (type(source.module).__name__, source.inputs[0].shape) == ("Net", (2, 4))
    with pytest.raises(SourceError, match="defines no Other"):
        load_source("some_package.nets:Other")
    with pytest.raises(SourceError, match="no Python file is importable as some_package"):
        load_source("some_package.absent:Net")
    with pytest.raises(SourceError, match="No module named 'absent_package'"):
        load_source("absent_package.nets:Net")


def test_dataclasses_and_keyword_arguments_work() -> None:
    code = "from __future__ import annotations\nfrom dataclasses import dataclass\n" + CODE.replace(
        "return [width]", "return {'width': width}"
    ).replace("class Model", "@dataclass\nclass Config:\n    width: int\n\n\nclass Model")
    assert load_text(code).inputs[0].shape == (6, 4)


BROKEN = {
    "no Python": (CODE.replace("class Model(", "class Model(("), 9, "is no Python"),
    "no Model": (CODE.replace("class Model", "class Net"), 0, "defines no Model"),
    "no get_inputs": (CODE.replace("def get_inputs", "def inputs"), 0, "defines no get_inputs"),
    "no Module": (CODE.replace("(nn.Module)", ""), 0, "Model is no subclass of torch.nn.Module"),
    "fails on import": (CODE.replace("double = ", "double = absent + "), 6, "import raises NameError: name 'absent'"),
    "leaves": (CODE.replace("double = ", "double = exit(3) or "), 6, "import raises SystemExit: 3"),
    "fails to build": (CODE.replace("nn.Linear(width, 2)", "nn.Linear(width)"), 12, "Model raises TypeError"),
    "fails to draw": (CODE.replace("randn(double", "randn(-double"), 20, "get_inputs raises RuntimeError"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_errors_name_file_line_and_reason(name: str) -> None:
    code, line, reason = BROKEN[name]
    with pytest.raises(SourceError, match=reason) as caught:
        load_text(code, "some/model.py")
    assert (caught.value.file, caught.value.line) == ("some/model.py", line)
    assert str(caught.value).startswith(f"some/model.py:{line}: " if line else "some/model.py: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_unknown_override_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        load_source(tmp_path / "absent.py")
    with pytest.raises(SourceError, match="assigns no batchsize at its top level: did you mean batch_size"):
        load_text(CODE, overrides={"width": 1, "batchsize": 2})
    with pytest.raises(SourceError, match=r"width is 4 in the file, and 2.5 cannot stand there: give an integer"):
        load_text(CODE, overrides={"width": 2.5})


def test_a_missing_op_names_module_and_line(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    inner = "class Inner(nn.Module):\n    def forward(self, x):\n        return torch.sort(x)[0]\n\n\n"
    code = CODE.replace("class Model", inner + "class Model").replace("self.layer(x)", "self.layer(self.body[0](x))")
    file.write_text(code.replace("self.layer = ", "self.body = nn.ModuleList([Inner()])\n        self.layer = "))
    source = load_source(file)
    with pytest.raises(UnsupportedOp) as caught:
        translate(source.module, source.inputs)
    error = caught.value
    assert (error.op, error.module) == ("aten.sort.default", "body.0")
    assert error.line == f"{file}:11: return torch.sort(x)[0]"
    assert str(error) == f"aten.sort.default: the order of its elements depends on data in body.0 ({error.line})"


def test_control_flow_on_values_fails_at_its_line() -> None:
    code = CODE.replace("y = self.layer(x)", "y = self.layer(x)\n        if y.sum() > 0:\n            y = -y")
    source = load_text(code, "model.py")
    with pytest.raises(ExportFailed) as caught:
        translate(source.module, source.inputs)
    assert caught.value.line == "model.py:16: if y.sum() > 0:"


@pytest.mark.parametrize("source", generate([f.name for f in families()], 11, 1), ids=lambda source: source.id)
def test_a_source_of_every_family_translates(source: object) -> None:
    loaded = load_text(source.torch_code, source.id)  # type: ignore[attr-defined]
    assert translate(loaded.module, loaded.inputs).program.body


COUNTS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.register_buffer("calls", torch.zeros(width))

    def forward(self, x):
        return x * 2.0 + self.calls


width = 4


def get_inputs():
    return [torch.randn(3, width)]


def get_init_inputs():
    return [width]
"""


def test_a_kept_translation_is_not_the_callers_to_change() -> None:
    first, translation = translated(COUNTS, "counts.py")
    first.module.calls += 1.0  # type: ignore[operator]
    again, same = translated(COUNTS, "counts.py")
    assert same is translation
    assert again.module is not first.module
    assert not again.module.calls.any()  # type: ignore[operator, union-attr]
    assert not any(array.any() for array in same.constants.values())
    other, wider = translated(COUNTS, "counts.py", {"width": 6})
    assert other.inputs[0].shape == (3, 6)
    assert wider is not translation


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_a_weight_that_is_computed_can_be_copied() -> None:
    code = CODE.replace("nn.Linear(width, 2)", "torch.nn.utils.weight_norm(nn.Linear(width, 2))")
    loaded, translation = translated(code, "norm.py", evaluation=True)
    assert "layer.weight_g" in translation.names.values()
    assert not any(tensor.requires_grad and not tensor.is_leaf for tensor in vars(loaded.module.layer).values()
                   if isinstance(tensor, torch.Tensor))  # fmt: skip


@pytest.mark.filterwarnings("ignore:A model attribute:UserWarning")
def test_what_tracing_cannot_follow_fails_by_name() -> None:
    code = CODE.replace("y = self.layer(x)", "y = torch.func.grad(lambda a: (a**3).sum())(x)")
    source = load_text(code, "model.py", evaluation=True)
    with pytest.raises(ExportFailed, match=r"torch\.export fails: Cannot access data pointer"):
        translate(source.module, source.inputs)
