"""A small run that several files look at."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from leir.canonical import state_id
from leir.parser import parse
from leir.printer import to_text
from stepTP import pipeline
from stepTP.config import parse_config
from stepTP.draw import digest
from stepTP.records import StepRow, to_line
from stepTP.stats import run_rows
from stepTP.structure import structure
from tests.stepTP.fakes import FakePool

CONFIG = parse_config(
    "name: small\nseed: 4\nsources: {families: [mlp, softmax, pooling, attention, losses], per_family: 3}\n"
    "walk: {depth: 3, breadth: 2, per_strategy: 1, attempts: 4, strategies: [loop_split, loop_fusion, "
    "operator_fusion, expression_reorder]}\ntokens: false\n"
    "splits: {validation: 0.2, test: 0.1, test_families: [losses]}\n"
)


FORMS = ("A_{i,j}*2.0", "exp(A_{i,j})", "max(A_{i,j},0.0)", "A_{i,j}+A_{i,j}", "-A_{i,j}", "A_{i,j}/3.0")


class VariedPool(FakePool):
    """Programs of several structures, so that splits have something of their own."""

    def _answer(self, task: str, payload: dict[str, Any]) -> Any:
        answer = super()._answer(task, payload)
        if not task.endswith("translate") or not isinstance(answer, dict):
            return answer
        form = FORMS[int.from_bytes(digest("form", payload["code"])[:4], "big") % len(FORMS)]
        program = parse(answer["leir"].replace(FORMS[0], form))
        made = {"leir": to_text(program), "state_id": state_id(program), "structure": structure(program)}
        return answer | made


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with rows of every shape and split; its steps are real, its verdicts and reasonings are not."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Pool", VariedPool)
        pipeline.build(CONFIG, folder, workers=1)
    return folder


@pytest.fixture(scope="session")
def measured_run(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small run with two measurements."""
    from tests.stepTP.test_publish import measurement

    folder = tmp_path_factory.mktemp("measured") / "small"
    shutil.copytree(small_run, folder)
    steps = [row for row in run_rows(folder, "steps") if isinstance(row, StepRow)]
    (folder / "measurements.jsonl").write_text("".join(to_line(measurement(row)) for row in steps[:2]))
    return folder
