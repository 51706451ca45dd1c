"""Places of arithmetic: those that are listed are those at which nothing speaks against it."""

import pytest

from leir.edit import expression_at, walk_places
from leir.parser import parse
from leir.syntax import Place
from strategies.arithmetic import places, setting_at, why_not_arithmetic
from tests.programs import random_program


@pytest.mark.parametrize("seed", range(20))
def test_every_place_is_listed_or_has_a_reason(seed: int) -> None:
    program = random_program(seed)
    listed = places(program)
    for place, expression in walk_places(program):
        assert (place in listed) == (not why_not_arithmetic(program, place))
        if place in listed:
            setting = setting_at(program, place)
            within = place.within or ()
            around = expression_at(program, Place(place.path, within[:-1])) if len(within) > 1 else None
            assert (setting.expression, setting.parent) == (expression, around)
            assert setting.value == expression_at(program, Place(place.path, (1,)))
            assert setting.algebra.kinds.of(expression) == setting.dtype


def test_settings_share_no_atoms() -> None:
    """Atoms are numbered as they are asked for: what one question met first must not order another's answer."""
    program = parse("in A_4,D_4;out C_4;L^4_i[C_i=A_i*D_i+D_i*A_i;]")
    (place, *_) = places(program)
    first = setting_at(program, place)
    first.algebra.atom_number(parse("in A_4,D_4;out C_4;L^4_i[C_i=D_i;]").body[0].body[0].value)  # type: ignore[union-attr]
    assert setting_at(program, place).algebra.atoms == []
    assert len(first.algebra.atoms) == 1


@pytest.mark.parametrize(
    ("within", "why"),
    [
        ((1, 1), "A_{i+1} is no sum, product or quotient"),
        ((1, 1, 0), "i+1 is part of a subscript"),
        ((1, 4), "no part of a value stands at (0,0), (1,4)"),
        ((0,), "no part of a value stands at (0,0), (0)"),
        ((), "no part of a value stands at (0,0), ()"),
    ],
)
def test_why_a_place_has_none(within: tuple[int, ...], why: str) -> None:
    program = parse("in A_5;out C_4;L^4_i[C_i=2.0*A_{i+1};]")
    assert why_not_arithmetic(program, Place((0, 0), (1,))) == ""
    assert why_not_arithmetic(program, Place((0, 0), within)) == why
