"""What a run shares with a benchmark is found whatever it is called and however large it is, and nothing else is."""

import pytest

from leir.canonical import state_id
from leir.parser import parse
from stepTP.decontaminate import Contamination, contamination, structures
from stepTP.records import ProgramRow, SourceRecord, StepRow
from stepTP.structure import structure
from tests.stepTP.test_filter import row

CODE = """import torch
import torch.nn as nn

rows = 6


class Model(nn.Module):
    \"\"\"Doubles and adds.\"\"\"

    def forward(self, x):
        return torch.exp(x * 2.0) + x


def get_inputs():
    return [torch.rand(rows, 8)]


def get_init_inputs():
    return []
"""
LEIR = (
    "in A_{6,8};out C_{6,8};\nL^{6,8}_{i,j}[D_{i,j}=A_{i,j}*2.0;]\nL^{6,8}_{i,j}[E_{i,j}=exp(D_{i,j});]\n"
    "L^{6,8}_{i,j}[C_{i,j}=E_{i,j}+A_{i,j};]\n"
)
STATE = "in A_{4,5};out C_{4,5};\nL^{4,5}_{i,j}[C_{i,j}=log(A_{i,j});]\n"


def program(code: str, leir: str) -> ProgramRow:
    import hashlib

    sha = hashlib.sha256(code.encode()).hexdigest()
    return ProgramRow(
        id="s", split="train", held_out=None, dtype="f32", knobs={}, names={}, program_signature="", leir=leir,
        source=SourceRecord(id="s", family="f", torch_code=code, torch_sha=sha, license=""),
        state_id=state_id(parse(leir)), structure=structure(parse(leir)), ops=(), nests=1, iterations=1,
        max_abs_error=0.0, verification=(), tool_versions={},
    )  # fmt: skip


def step(leir: str) -> StepRow:
    made = row("s", "split", "x", "y")
    return made.model_copy(update={"leir_after": leir, "state_id_after": state_id(parse(leir))})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Contamination:
    folder = tmp_path_factory.mktemp("bench") / "kernels"
    folder.mkdir()
    same = CODE.replace("rows", "batch").replace("6", "3").replace("Doubles and adds", "Another text")
    rewritten = CODE.replace("return torch.exp(x * 2.0) + x", "y = x.mul(2.0).exp()\n        return y.add(x)")
    files = {
        "text.py": CODE,
        "program.py": same,
        "structure.py": rewritten,
        "state.py": CODE.replace("torch.exp(x * 2.0) + x", "torch.log(x)"),
        "other.py": CODE.replace("exp", "sin"),
        "unsupported.py": CODE.replace("torch.exp(x * 2.0) + x", "torch.linalg.qr(x)[0]"),
        "broken.py": "class Model(",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return contamination([program(CODE, LEIR)], [step(STATE)], folder, workers=1)


@pytest.mark.slow
def test_every_kind_of_sameness_is_found(report: Contamination) -> None:
    found = {(o.file, o.how, o.state_id is not None) for o in report.overlaps}
    assert found == {
        ("text.py", "text", False),
        ("program.py", "program", False),
        ("structure.py", "structure", False),
        ("state.py", "structure", True),
    }
    assert all(o.split == "train" and o.source_id == "s" for o in report.overlaps)
    assert report.found == {"text": 1, "program": 1, "structure": 2, "none": 3}


@pytest.mark.slow
def test_what_cannot_be_translated_is_listed(report: Contamination) -> None:
    assert sorted(name for names in report.untranslated.values() for name in names) == ["broken.py", "unsupported.py"]
    assert (report.files, report.sources, report.states) == (7, 1, 1)
    assert report.against == "kernels"


def test_structures_are_a_task() -> None:
    assert structures({"programs": [LEIR, STATE]}) == [structure(parse(LEIR)), structure(parse(STATE))]
