"""What a GPU alone rejects is shown with all that tells why; the rows here are written by hand."""

import importlib.util
from pathlib import Path
from types import ModuleType

from stepTP.records import RejectedRow, Step, to_line

SCRIPT = Path(__file__).parent.parent / "scripts" / "gpu_rejections.py"
BEFORE = "in A_4;out C_4;\nL^4_i[C_i=exp(A_i);]\n"
AFTER = "in A_4;out C_4;\nB^4_{tx}[C_{tx}=exp(A_{tx});]\n"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_rejections", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(message: str, stage: str = "verify", step: bool = True) -> RejectedRow:
    return RejectedRow.model_validate(
        {
            "id": message, "split": "train", "held_out": None, "source_id": "softmax-1", "family": "softmax",
            "depth": 2, "stage": stage, "cause": "wrong-result", "message": message, "state_id_before": "s",
            "leir_before": BEFORE if step else None, "leir_after": AFTER,
            "step": Step(strategy="loop_binding", args={"axis": "tx"}) if step else None,
        }
    )  # fmt: skip


def test_what_llvm_accepts_and_another_target_does_not_is_shown_whole(tmp_path: Path) -> None:
    module = script()
    wrong = "cuda: C_{3} is 2, expected 1 within 1e-07; 1 of 4 elements are wrong (inputs peaks/0)"
    rows = [
        row("llvm: C_{3} is 2, expected 1 within 1e-07; 1 of 4 elements are wrong (inputs normal/0)"),
        row("the walk has this state already", stage="walk"),
        row(wrong),
        row("CUDA_ERROR_ILLEGAL_ADDRESS", step=False),
    ]
    (tmp_path / "rejected.jsonl").write_text("".join(map(to_line, rows)))
    (tmp_path / "programs.jsonl").write_text("")
    step, program = module.cases(tmp_path)
    assert (step["message"], step["source"], step["args"]) == (wrong, {"id": "softmax-1"}, {"axis": "tx"})
    assert (program["message"], program["before"]) == ("CUDA_ERROR_ILLEGAL_ADDRESS", None)
    alone = {"after on cuda": {"message": "", "bound_used": 0.5}}
    text = "\n".join(module.shown({**step, "alone": alone}))
    for said in ("softmax-1, depth 2: loop_binding", wrong, BEFORE, AFTER.rstrip(), "alone: accepted; bound used 0.5"):
        assert said in text
