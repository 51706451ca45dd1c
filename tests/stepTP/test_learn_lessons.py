"""Lessons as bytes, and back."""

import pickle

import numpy as np
import pytest

from stepTP.learn.examples import Example, Form, examples_of
from stepTP.learn.lessons import Lesson, packed, unpacked
from stepTP.learn.trial import vocabulary_of
from tests.stepTP.test_learn import STEPS, made


def lesson(shown: bool) -> Lesson:
    rows = [made(n, state, step) for n, (state, step) in enumerate(STEPS)]
    form = Form(program=False, spelling="tir") if shown else Form(reasoning=True)
    spelled = {row.leir_before: f"@T.prim_func # {row.id}" for row in rows} if shown else None
    vocabulary = vocabulary_of(rows * 3, form, spelled)
    return Lesson(form, vocabulary, examples_of(rows, vocabulary, form, spelled), spelled)


def arrays(one: Example) -> list[np.ndarray]:
    return [one.tokens, one.where, *(part for kind in one.names for part in (kind.asked, kind.added, kind.free))]


@pytest.mark.parametrize("shown", [False, True])
def test_a_lesson_survives_its_bytes(shown: bool) -> None:
    made = lesson(shown)
    content = packed(made)
    found = unpacked(content)
    assert (found.form, found.shown) == (made.form, made.shown)
    assert found.vocabulary.to_json() == made.vocabulary.to_json()
    assert [one.asked for one in found.examples] == [one.asked for one in made.examples]
    for mine, theirs in zip(found.examples, made.examples, strict=True):
        for a, b in zip(arrays(mine), arrays(theirs), strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b)
    assert len(content) < len(pickle.dumps(made))


def test_a_pickle_is_no_lesson() -> None:
    with pytest.raises(ValueError, match="pickle"):
        unpacked(pickle.dumps(lesson(shown=False).form))
