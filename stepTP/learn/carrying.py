"""A course in a few small files, for machines that give little back, and a folder of a course from these.

That is its figures, all replies and scores, and one decoder: weights in bf16, no optimiser's state.
"""

import gzip
import io
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from stepTP.evaluate.questions import EvaluationError
from stepTP.learn.model import Shape
from stepTP.learn.training import CHECKPOINT, Plan, Progress, Trainer
from stepTP.learn.vocabulary import Vocabulary

PART = "decoder.part."
TOLD, ANSWERS = "train.json", "answers.jsonl.gz"


def deliver(folder: Path, out: Path, pupil: str) -> None:
    """Writes a course's files to `out`: the decoder is the one after GRPO, if there is one, and the pupil before."""
    stage = next((name for name in ("grpo", pupil) if (folder / name / CHECKPOINT).is_file()), None)
    if (folder / TOLD).is_file():
        told = json.loads((folder / TOLD).read_text(encoding="utf-8"))
        told["about"]["decoder"] = stage
        (out / TOLD).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    (out / ANSWERS).write_bytes(answers_of(folder))
    if stage is not None:
        pack(Trainer.load(folder / stage, "cpu"), out)


def restore(out: Path, folder: Path, pupil: str) -> None:
    """A course's folder from the files of `deliver`, as far as they are there; the decoder alone will do.

    Raises FileNotFoundError without a decoder, and EvaluationError for answers of no examination.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {}
    if (out / TOLD).is_file():
        told = json.loads((out / TOLD).read_text(encoding="utf-8"))
    stage = "grpo" if told.get("about", {}).get("decoder") == "grpo" else pupil
    unpack(out, "cpu").save(folder / stage)
    lost = "" if stage == "grpo" else "grpo"  # rounds whose decoder did not come along
    if (out / ANSWERS).is_file():
        found: dict[str, list[str]] = {}
        for line in gzip.decompress((out / ANSWERS).read_bytes()).decode().splitlines():
            entry = json.loads(line)
            exam, kind = entry.pop("exam"), entry.pop("kind")
            if kind not in ("replies", "scores") or not re.fullmatch(r"[a-z-]+", exam):  # they name files
                raise EvaluationError(f"{out / ANSWERS}: no examination gives {kind} of {exam}")
            if exam.partition("-")[0] != lost:
                found.setdefault(f"{kind}-{exam}.jsonl", []).append(json.dumps(entry) + "\n")
        for name, lines in found.items():
            (folder / name).write_text("".join(lines), encoding="utf-8")
    if told:
        if lost:
            told["grpo"] = {}
            told["evaluated"] = {k: v for k, v in told["evaluated"].items() if k.partition("-")[0] != lost}
        (folder / TOLD).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def answers_of(folder: Path) -> bytes:
    """All replies and scores of a course's folder, as one packed file of lines with the examination's name."""
    lines: list[str] = []
    for file in sorted([*folder.glob("replies-*.jsonl"), *folder.glob("scores-*.jsonl")]):
        kind, _, name = file.stem.partition("-")
        found = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        lines += (json.dumps({"exam": name, "kind": kind, **line}) for line in found)
    return gzip.compress("\n".join(lines).encode(), mtime=0)


def pack(trainer: Trainer, folder: Path, largest: int = 15 << 20) -> list[Path]:
    """Writes the decoder to files of `largest` bytes at most, and returns them."""
    state = {
        "model": {name: weight.to(torch.bfloat16) for name, weight in trainer.model.state_dict().items()},
        "progress": asdict(trainer.progress),
        "shape": asdict(trainer.shape),
        "plan": asdict(trainer.plan),
        "vocabulary": json.dumps(trainer.vocabulary.to_json()),
    }
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    for old in folder.glob(f"{PART}*"):
        old.unlink()
    files: list[Path] = []
    for number, start in enumerate(range(0, len(data), largest)):
        files.append(folder / f"{PART}{number:02}")
        files[-1].write_bytes(data[start : start + largest])
    return files


def unpack(folder: Path, device: str) -> Trainer:
    """The decoder of such files, where its training was; the optimiser begins anew. Raises FileNotFoundError."""
    data = b"".join(file.read_bytes() for file in sorted(folder.glob(f"{PART}*")))
    if not data:
        raise FileNotFoundError(f"{folder}: no {PART}00, as training writes beside its figures")
    state: dict[str, Any] = torch.load(io.BytesIO(data), map_location=device, weights_only=True)
    vocabulary = Vocabulary.from_json(json.loads(state["vocabulary"]))
    found = Trainer(vocabulary, Shape(**state["shape"]), Plan(**state["plan"]), device)
    found.model.load_state_dict(state["model"])
    found.progress = Progress(**state["progress"])
    return found
