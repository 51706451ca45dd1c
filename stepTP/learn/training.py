"""Training in slices: a slice ends at its time or step, and the next goes on from its checkpoint."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from stepTP.draw import digest
from stepTP.learn.examples import Array, Example, batches
from stepTP.learn.model import Decoder, Shape
from stepTP.learn.vocabulary import Vocabulary

CHECKPOINT = "checkpoint.pt"
REPORT = 20  # steps between two reports of the loss: each waits for the device


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train. The rate falls to zero at the end of `budget_s` seconds or `steps` steps, over all slices."""

    budget_s: float | None = None
    steps: int | None = None
    batch_tokens: int = 32768
    longest: int = 1536
    rate: float = 1.5e-3
    warm_up: int = 100
    decay: float = 0.1
    clip: float = 1.0
    keep_names: float = 0.25
    prompt_weight: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.budget_s is None and self.steps is None:
            raise ValueError("a plan has an end: give budget_s or steps")


@dataclass(slots=True)
class Progress:
    """Where training is: steps taken, the epoch, batches of it that are done, and seconds of all slices."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    tokens: int = 0
    losses: list[tuple[int, float, float]] = field(
        default_factory=list
    )  # step, seconds, mean loss of an answer's token

    def share(self, plan: Plan) -> float:
        """How much of the plan is done, in [0, 1]."""
        shares = [self.step / plan.steps] if plan.steps else []
        shares += [self.seconds / plan.budget_s] if plan.budget_s else []
        return min(1.0, max(shares))


class Trainer:
    """A decoder, its optimiser and where its training is."""

    def __init__(self, vocabulary: Vocabulary, shape: Shape, plan: Plan, device: str) -> None:
        torch.manual_seed(int.from_bytes(digest("weights", plan.seed)[:4], "big"))
        self.vocabulary, self.shape, self.plan, self.device = vocabulary, shape, plan, torch.device(device)
        self.model = Decoder(shape).to(self.device)
        self.optimiser = optimiser(self.model, plan.rate, plan.decay)
        self.progress = Progress()

    def train(
        self, examples: Sequence[Example], seconds: float | None = None, told: Callable[[str], None] | None = None
    ) -> Progress:
        """One slice: until its `seconds` are over, or the plan is done."""
        plan, progress, model = self.plan, self.progress, self.model
        if progress.share(plan) >= 1:
            return progress
        model.train()
        start, before = time.monotonic(), progress.seconds
        sums = torch.zeros(2, device=self.device)
        for ids, weights in self._batches(examples):
            for group in self.optimiser.param_groups:
                warm = min(1.0, (progress.step + 1) / plan.warm_up)
                group["lr"] = plan.rate * warm * (1 - progress.share(plan))
            torch.manual_seed(int.from_bytes(digest("step", plan.seed, progress.step)[:4], "big"))  # of dropout
            loss, said = self._loss(ids, weights)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
            self.optimiser.step()
            sums += said
            progress.step += 1
            progress.batch += 1
            progress.tokens += ids.size
            if progress.step % REPORT == 0 or self.device.type == "cpu":
                total, count = sums.tolist()  # waits for the device, so that seconds are of work that is done
                progress.seconds = before + time.monotonic() - start
                progress.losses.append((progress.step, round(progress.seconds, 2), round(total / max(count, 1), 4)))
                sums.zero_()
                if told:
                    told(f"step {progress.step}: loss {progress.losses[-1][2]:.4f}, {progress.seconds:.0f} s")
                if progress.share(plan) >= 1 or (seconds is not None and time.monotonic() - start >= seconds):
                    break
            if plan.steps and progress.step >= plan.steps:
                break
        progress.seconds = before + time.monotonic() - start
        return progress

    def _batches(self, examples: Sequence[Example]) -> Iterator[tuple[Array, Array]]:
        """Batches without end, from where training is."""
        plan, progress = self.plan, self.progress
        while True:
            key = int.from_bytes(digest("epoch", plan.seed, progress.epoch)[:8], "big")
            made = batches(
                examples, self.vocabulary, plan.batch_tokens, plan.longest, key, plan.keep_names, plan.prompt_weight
            )
            empty = True
            for number, batch in enumerate(made):
                empty = False
                if number >= progress.batch:
                    yield batch
            if empty:
                raise ValueError(f"no example has at most {plan.longest} tokens: raise `longest`")
            progress.epoch += 1
            progress.batch = 0

    def _loss(self, ids: Array, weights: Array) -> tuple[torch.Tensor, torch.Tensor]:
        """The weighted loss, and (sum, count) of the loss over the answers' tokens."""
        tokens = torch.from_numpy(ids).to(self.device, non_blocking=True)
        weight = torch.from_numpy(weights[:, 1:]).to(self.device, non_blocking=True).reshape(-1)
        with computing_on(self.device):
            hidden = self.model(tokens[:, :-1]).reshape(-1, self.shape.width)
            logits = self.model.logits(hidden)
        losses = F.cross_entropy(logits.float(), tokens[:, 1:].reshape(-1), reduction="none")
        answer = weight == 1
        said = torch.stack(((losses.detach() * answer).sum(), answer.sum().float()))
        return (losses * weight).sum() / weight.sum(), said

    def save(self, folder: Path) -> None:
        """The checkpoint, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "progress": asdict(self.progress),
            "shape": asdict(self.shape),
            "plan": asdict(self.plan),
            "vocabulary": json.dumps(self.vocabulary.to_json()),
        }
        beside = folder / "checkpoint.part"
        torch.save(state, beside)
        beside.replace(folder / CHECKPOINT)

    @classmethod
    def load(cls, folder: Path, device: str, plan: Plan | None = None) -> "Trainer":
        """The trainer of a checkpoint; another `plan` may give it another end."""
        state: dict[str, Any] = torch.load(folder / CHECKPOINT, map_location=device, weights_only=True)
        vocabulary = Vocabulary.from_json(json.loads(state["vocabulary"]))
        found = cls(vocabulary, Shape(**state["shape"]), plan or Plan(**state["plan"]), device)
        found.model.load_state_dict(state["model"])
        found.optimiser.load_state_dict(state["optimiser"])
        found.progress = Progress(**state["progress"])
        return found


def device_here() -> str:
    """`cuda` where this machine has such a device."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def optimiser(model: Decoder, rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW that pulls matrices alone towards zero."""
    matrices = [weight for weight in model.parameters() if weight.dim() == 2]
    others = [weight for weight in model.parameters() if weight.dim() != 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=matrices[0].is_cuda)


@contextmanager
def computing_on(device: torch.device) -> Iterator[None]:
    """bf16 on a GPU, f32 elsewhere; attention by kernels that take any length.

    Those of cuDNN, which torch prefers on some GPUs, have a plan made for each new shape: tens of milliseconds, and
    decoding and training have many shapes.
    """
    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(kernels), torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        yield
