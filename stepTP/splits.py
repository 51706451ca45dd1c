"""Which split a program belongs to, with all that is made of it: by family and by program, never by step.

Programs of the families that the configuration names are for tests alone: `held_out` is "family". Of the others each
structure (a program up to names and sizes) draws its split by its hash: `held_out` is "program" outside of training. So
programs that differ in sizes alone are never on both sides, and a source that is added moves none.

What two splits still share is left out by the second pass (`stepTP.filter.drop_leaks`).
"""

from dataclasses import dataclass

from stepTP.config import Splits
from stepTP.draw import uniform
from stepTP.records import HeldOut, Split


@dataclass(frozen=True, slots=True)
class Part:
    """A split, and what training has not seen of it."""

    split: Split
    held_out: HeldOut | None


TRAIN = Part("train", None)


def part_of(settings: Splits, seed: int, family: str, key: str) -> Part:
    """The part of a program. `key`: its structure, or what stands for it where a source has no program."""
    if family in settings.test_families:
        return Part("test", "family")
    drawn = uniform("split", seed, key)
    if drawn < settings.test:
        return Part("test", "program")
    if drawn < settings.test + settings.validation:
        return Part("validation", "program")
    return TRAIN
