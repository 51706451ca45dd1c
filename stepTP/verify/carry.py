"""Trials as bytes, and back: what one worker made is what another has, bit for bit.

The form is NumPy's `.npz` without pickled objects: a JSON text, then the arrays that it names, in its order. A source
that cannot be verified is carried too, as the reason.
"""

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepTP.verify.compare import Expected
from stepTP.verify.inputs import Draw
from stepTP.verify.prepare import Trial, Trials, Unverified

Array = NDArray[Any]


def packed(made: Trials | Unverified) -> bytes:
    """The bytes of trials, or of the reason why there are none."""
    arrays: list[Array] = []
    shown: dict[str, Any]
    if isinstance(made, Unverified):
        shown = {"unverified": str(made)}
    else:
        shown = {"skipped": made.skipped, "trials": []}
        for trial in made.trials:
            arrays += trial.inputs.values()
            for expected in trial.expected.values():
                arrays += (expected.value, expected.tolerance)
            shown["trials"].append(
                {
                    "draw": (trial.draw.kind, trial.draw.number, trial.draw.attempt),
                    "inputs": list(trial.inputs),
                    "expected": {name: expected.dtype for name, expected in trial.expected.items()},
                }
            )
    stream = io.BytesIO()
    np.savez(stream, np.frombuffer(json.dumps(shown).encode(), np.uint8), *arrays)
    return stream.getvalue()


def unpacked(content: bytes) -> Trials:
    """The trials of `packed`. Raises Unverified where it was given one."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        text, *rest = (stored[name] for name in stored.files)
    shown, arrays = json.loads(text.tobytes()), iter(rest)
    if "unverified" in shown:
        raise Unverified(shown["unverified"])
    trials: list[Trial] = []
    for trial in shown["trials"]:
        inputs = {name: next(arrays) for name in trial["inputs"]}
        expected = {name: Expected(next(arrays), next(arrays), dtype) for name, dtype in trial["expected"].items()}
        trials.append(Trial(Draw(*trial["draw"]), inputs, expected))
    return Trials(tuple(trials), tuple((name, reason) for name, reason in shown["skipped"]))


def packed_arrays(groups: Sequence[dict[str, Array]]) -> bytes:
    """The bytes of several groups of arrays by name."""
    stream = io.BytesIO()
    names = np.frombuffer(json.dumps([list(group) for group in groups]).encode(), np.uint8)
    np.savez(stream, names, *(array for group in groups for array in group.values()))
    return stream.getvalue()


def unpacked_arrays(content: bytes) -> tuple[dict[str, Array], ...]:
    """The groups of `packed_arrays`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        text, *arrays = (stored[name] for name in stored.files)
    left = iter(arrays)
    return tuple({name: next(left) for name in names} for names in json.loads(text.tobytes()))
