"""The work of ranks with a pool that answers from a script, in a module that other processes can import."""

from pathlib import Path
from typing import Any

from stepTP import pipeline, scale
from stepTP.config import Config
from tests.stepTP.fakes import FakePool


class FakeShards(scale.MakeShards):
    def __call__(self, _: Any, rank: int = 0, world_size: int = 1) -> None:
        pipeline.Pool = FakePool
        super().__call__(_, rank, world_size)


class Broken(FakeShards):
    """The second rank finds the disk full."""

    def __call__(self, _: Any, rank: int = 0, world_size: int = 1) -> None:
        if rank == 1:
            raise OSError(28, "No space left on device")
        super().__call__(_, rank, world_size)


class FakeFinish(scale.Finish):
    def __call__(self, _: Any, rank: int = 0, world_size: int = 1) -> None:
        pipeline.Pool = FakePool
        super().__call__(_, rank, world_size)


def queue(config: str, folder: str) -> None:
    """Gives a build of two ranks to Slurm."""
    scale.MakeShards, scale.Finish = FakeShards, FakeFinish
    ranks = scale.Ranks(2, partition="cpu")
    assert scale.launch(Config.model_validate_json(config), Path(folder), "slurm", ranks) is None
