"""The identities that the pages of the algebraic strategies list: each is found and legal, and gives what stands there.

An identity is written `before = after` in the docstring, in the letters a, b, c, d, x and y. They stand for temporaries
with bounds, and for products of them where an identity needs room for its roundings.
"""

import re

import pytest

from leir.analysis.spelling import normal
from leir.parser import parse
from leir.syntax import Equation, Expr, Program
from strategies.base import Refused, Strategy
from strategies.catalog import strategy
from tests.strategies.disguises import ALGEBRAIC, OF_FUNCTIONS

TEMPORARIES = {
    "a": "2.5+tanh(A_i)", "b": "3.5+tanh(W_i)", "c": "4.0+tanh(X_i)",
    "d": "1.0+W_i*W_i", "x": "1.0+A_i*A_i", "y": "1.0+exp(min(X_i,1.0))",
}  # fmt: skip
NAMES = dict(zip(TEMPORARIES, "DEFGHI", strict=True))
# Where one operation has no room, several have of which none cancel; a difference of squares needs operands that no sum
# went into, and a difference of logarithms arguments on either side of 1.
WAYS = (
    {},
    {"a": "(D_i*E_i*D_i*W_i)", "b": "(F_i*F_i*F_i)", "y": "exp(-tanh(X_i))"},
    {"a": "(D_i*E_i*D_i*E_i)", "b": "(E_i*F_i*E_i*F_i)", "y": "exp(-tanh(X_i))"},
    {"a": "A_i", "b": "W_i"},
    {"b": "exp(tanh(W_i)-2.0)"},
)
AROUND = ("{}", "{}+I_i", "{}*A_i*W_i", "tanh({})+exp(-tanh(X_i))", "{}+exp(-tanh(X_i))")


def identities(name: str) -> list[tuple[str, str]]:
    """The identities that a page lists, each as it is before and after."""
    page = strategy(name).page()
    listed = page[page.index("The identities") : page.index("Legal when:")]
    return re.findall(r"([^\s,:;`]+) = ([^\s,;`]*[^\s,;`.])", listed)


def written(text: str, letters: dict[str, str]) -> str:
    """An identity's side with operands for its letters."""
    return re.sub(r"\b([a-dxy])\b(?!\()", lambda letter: letters[letter[1]], text)


def program(value: str) -> Program:
    nests = "".join(f"L^8_i[{NAMES[letter]}_i={text};]" for letter, text in TEMPORARIES.items())
    return parse(f"in A_8,W_8,X_8;out C_8;{nests}L^8_i[C_i={value};]")


def value_of(written_program: Program) -> Expr:
    (nest,) = written_program.body[-1:]
    equation = nest.body[-1]  # pyright: ignore[reportAttributeAccessIssue] (a loop)
    assert isinstance(equation, Equation)
    return normal(equation.value)


def reached(cls: type[Strategy], before: str, after: str, letters: dict[str, str]) -> bool:
    """Whether a legal step makes one of the other, somewhere in an equation."""
    for around in AROUND:
        start, end = (program(around.format(f"({written(side, letters)})")) for side in (before, after))
        for step in cls.candidates(start):
            try:
                if value_of(step.apply(start).program) == value_of(end):
                    return True
            except Refused:
                continue
    return False


@pytest.mark.parametrize("name", [*ALGEBRAIC, *OF_FUNCTIONS])
def test_every_identity_of_the_page_is_found(name: str) -> None:
    found = identities(name)
    assert len(found) > 1
    named = {letter: f"{tensor}_i" for letter, tensor in NAMES.items()}
    for before, after in found:
        ways = (named | way for way in WAYS)
        assert any(reached(strategy(name), before, after, letters) for letters in ways), f"{before} = {after}"


def test_an_identity_that_does_not_hold_is_not_found() -> None:
    letters = {letter: f"{tensor}_i" for letter, tensor in NAMES.items()}
    assert not reached(strategy("cancellation"), "a+b-b", "b", letters)
