"""A decoder in a few small files, for machines that give little back: weights in bf16, no optimiser's state."""

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from stepTP.learn.model import Shape
from stepTP.learn.training import Plan, Progress, Trainer
from stepTP.learn.vocabulary import Vocabulary

PART = "decoder.part."


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
    """The decoder of such files, where its training was; the optimiser begins anew."""
    data = b"".join(file.read_bytes() for file in sorted(folder.glob(f"{PART}*")))
    state: dict[str, Any] = torch.load(io.BytesIO(data), map_location=device, weights_only=True)
    vocabulary = Vocabulary.from_json(json.loads(state["vocabulary"]))
    found = Trainer(vocabulary, Shape(**state["shape"]), Plan(**state["plan"]), device)
    found.model.load_state_dict(state["model"])
    found.progress = Progress(**state["progress"])
    return found
