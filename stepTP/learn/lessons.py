"""What one decoder learns, as bytes and back: a call of a course makes a lesson once, and the next one reads it.

The form is NumPy's `.npz` without pickled objects: a JSON text, then the tokens and places of all examples, one after
the other, and how many each has. The rest of an example follows from these.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from stepTP.learn.examples import Example, Form, marked
from stepTP.learn.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one decoder learns. `shown`: states in another spelling."""

    form: Form
    vocabulary: Vocabulary
    examples: list[Example]
    shown: Mapping[str, str] | None


def packed(lesson: Lesson) -> bytes:
    """The bytes of a lesson, which has an example at least."""
    shown = None if lesson.shown is None else dict(lesson.shown)
    told = {"form": asdict(lesson.form), "vocabulary": lesson.vocabulary.to_json(), "shown": shown}
    counts = [(len(one.tokens), one.asked, len(one.where)) for one in lesson.examples]
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        told=np.frombuffer(json.dumps(told).encode(), np.uint8),
        counts=np.array(counts, np.int32),
        tokens=np.concatenate([one.tokens for one in lesson.examples]),
        where=np.concatenate([one.where for one in lesson.examples]),
    )
    return stream.getvalue()


def unpacked(content: bytes) -> Lesson:
    """The lesson of `packed`. Raises ValueError for anything else."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        told = json.loads(stored["told"].tobytes())
        counts, tokens, where = (stored[name] for name in ("counts", "tokens", "where"))
    vocabulary = Vocabulary.from_json(told["vocabulary"])
    ends = np.cumsum(counts, axis=0)
    all_tokens, all_where = np.split(tokens, ends[:-1, 0]), np.split(where, ends[:-1, 2])
    examples = [
        marked(own, int(asked), places, vocabulary)
        for own, asked, places in zip(all_tokens, counts[:, 1], all_where, strict=True)
    ]
    return Lesson(Form(**told["form"]), vocabulary, examples, told["shown"])
