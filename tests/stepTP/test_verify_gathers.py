"""Integer inputs that subscripts read are drawn within the tensors that they index, whatever the samples show."""

import numpy as np
import pytest

from leir.printer import to_text
from stepTP.frontend import load_text, translate
from stepTP.verify import task
from stepTP.verify.prepare import Unverified
from stepTP.verify.task import SourceKey, prepared_trials


def test_where_no_range_is_known_a_source_is_refused() -> None:
    text = "in A_{10,4},I^{i32}_8;out C_{8,4};L^{8,4}_{i,j}[C_{i,j}=A_{I_i*I_i,j};]"
    with pytest.raises(Unverified, match="no range of I is known that keeps every subscript within A"):
        prepared_trials(SourceKey("square", "", text, 1, 0))


def test_a_plain_program_of_which_nothing_else_is_known_is_verified() -> None:
    text = "in A_{2,6},I^{i64}_9;out C_{9,6};L^{9,6}_{i,j}[C_{i,j}=A_{I_i,j};]"
    trials = prepared_trials(SourceKey("table", "", text, 1, 0)).trials
    assert all(set(trial.inputs["I"].flat) == {0, 1} for trial in trials)


MODULE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 12)

    def forward(self, words, columns):
        return torch.index_select(self.table(words), 2, columns) * 2.0


def get_inputs():
    return [torch.randint(0, 7, (4, 5)), torch.randint(0, 12, (6,))]


def get_init_inputs():
    return []
"""


def test_an_embedding_and_a_selection_from_it() -> None:
    loaded = load_text(MODULE)
    text = to_text(translate(loaded.module, loaded.inputs).program)
    source = {"id": "embedding", "torch_code": MODULE}
    common = {"source": source, "leir_source": text, "targets": ["llvm"], "draws": 1, "parent": None}
    answer = task.verify({**common, "leir": text, "bit_exact": True})
    assert answer["ok"], answer["message"]
    trials = prepared_trials(SourceKey("embedding", MODULE, text, 1, 0)).trials
    integers = [array for trial in trials for array in trial.inputs.values() if array.dtype == np.int64]
    assert len(integers) == 2 * len(trials)
    assert all(array.min() >= 0 and array.max() < (7 if array.shape == (4, 5) else 12) for array in integers)
    wrong = text.replace("2.0", "2.01")
    assert wrong != text
    assert not task.verify({**common, "leir": wrong, "bit_exact": False})["ok"]
