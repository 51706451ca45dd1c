"""Keyed draws: each knob of a program is chosen by its own hash, so a new knob, family or program moves no other."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Choice = TypeVar("Choice", bool, int, float, str)
Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Draw:
    """The choices of one program, keyed by (seed, family, index).

    They are recorded in the order they are made: in `knobs`, and what each was chosen from in `options`.
    """

    seed: int
    family: str
    index: int
    knobs: dict[str, Value] = field(default_factory=dict)
    options: dict[str, tuple[Value, ...]] = field(default_factory=dict)

    def choose(self, knob: str, options: Sequence[Choice]) -> Choice:
        """One of `options`; the same one whatever other knobs there are. A knob is drawn once a program."""
        if knob in self.knobs:
            raise ValueError(f"{self.family} draws {knob} twice")
        key = json.dumps([self.seed, self.family, self.index, knob])
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
        chosen = options[number % len(options)]
        self.knobs[knob] = chosen
        self.options[knob] = tuple(options)
        return chosen
