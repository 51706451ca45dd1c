"""What is spare of the roundings that verification allows: detours take of it, and shares are kept alike."""

import math

import pytest

from leir.analysis.algebra import Algebra
from leir.analysis.detours import has_opposite_terms, without_detours
from leir.analysis.exponents import set_apart
from leir.analysis.relative import RelativeErrors
from leir.analysis.rounding import Rounding
from leir.analysis.spare import spare_where_formed, spare_where_used
from leir.analysis.types import Kinds
from leir.edit import dtypes, expression_at
from leir.parser import parse
from leir.printer import expression_text
from leir.syntax import Expr, Place, Program
from strategies.bounded import bounded

HEADER = "in A_8,W_8,X_8;out C_8;\nL^8_i[F_i=2.0+tanh(A_i);]\nL^8_i[C_i="
ABOVE = (2, 0, 0)  # the equation of a softmax's shares
SUMMED = (1, 0, 0)


def program_of(value: str) -> Program:
    return parse(f"{HEADER}{value};]")


def value_of(value: str) -> tuple[Program, Expr]:
    program = program_of(value)
    return program, expression_at(program, Place((1, 0), (1,)))


def softmax(above: str, below: str, scores: str = "A_{i,j}") -> Program:
    return parse(
        f"in A_{{4,8}};out C_{{4,8}};\nL^{{4,8}}_{{i,j}}[S_{{i,j}}={scores};]\n"
        f"L^{{4,8}}_{{i,j}}[H_i+=exp({below});]\nL^{{4,8}}_{{i,j}}[C_{{i,j}}=exp({above})/H_i;]"
    )


@pytest.mark.parametrize(
    ("written", "direct"),
    [
        ("A_i*F_i/F_i", "A_i"),
        ("A_i*0.5*F_i*F_i/(F_i*F_i)", "A_i*0.5"),
        ("A_i/F_i*F_i", "A_i"),
        ("F_i/F_i", "1.0"),
        ("A_i+W_i-W_i", "A_i"),
        ("(A_i-W_i*X_i)+X_i*W_i", "A_i-W_i*X_i+X_i*W_i"),
        ("(A_i-X_i+X_i)*W_i", "A_i*W_i"),
        ("-(A_i*F_i)/F_i", "-A_i"),
        ("(A_i*F_i+W_i*X_i)/F_i", "A_i+W_i*X_i/F_i"),
        ("A_i*W_i/F_i+X_i", "A_i*W_i/F_i+X_i"),
    ],
)
def test_detours_are_left_out(written: str, direct: str) -> None:
    program, value = value_of(written)
    algebra = Algebra(Kinds(dtypes(program)), "f32")
    assert expression_text(without_detours(value, algebra.is_atom, "f32")) == direct


def test_opposite_terms_are_seen_through_signs() -> None:
    _, value = value_of("-(A_i-X_i)-X_i+W_i")
    assert has_opposite_terms(value, lambda _: False)
    _, value = value_of("A_i-X_i-X_i+W_i")
    assert not has_opposite_terms(value, lambda _: False)


@pytest.mark.parametrize(
    ("written", "spare"),
    [
        ("A_i*W_i*X_i", 2.0),
        ("A_i*W_i*X_i*F_i/F_i", 0.0),
        ("A_i*W_i*X_i*F_i*F_i/(F_i*F_i)", -2.0),
        ("exp(A_i)*W_i", 5.0),
        ("exp(A_i)*exp(W_i)*X_i", 0.0),
        ("(A_i-X_i+X_i)*W_i", -math.inf),
    ],
)
def test_a_detour_takes_of_what_is_spare(written: str, spare: float) -> None:
    program, value = value_of(written)
    found = bounded(program)
    assert spare_where_formed(value, found, (1, 0)) == spare
    if spare > -math.inf:  # the same, from any part of it
        left = expression_at(program, Place((1, 0), (1, 0)))
        whole = spare_where_used(found, (1, 0), (1, 0), math.inf) + spare_where_formed(left, found, (1, 0))
        assert whole == spare


@pytest.mark.parametrize(
    ("old", "new", "is_refused"),
    [
        ("A_i*0.5", "A_i*0.5*F_i/F_i", False),
        ("A_i*0.5*F_i/F_i", "A_i*0.5*F_i*F_i/(F_i*F_i)", True),
        ("A_i*0.5*F_i*F_i/(F_i*F_i)", "A_i*0.5*F_i/F_i", False),
        ("A_i/F_i*F_i+W_i*F_i", "F_i*(A_i/F_i+W_i)", False),
        ("A_i*W_i*X_i*A_i", "A_i*W_i*X_i*A_i*F_i/F_i", False),
        ("A_i*W_i*X_i*A_i*F_i/F_i", "A_i*W_i*X_i*A_i*F_i*F_i*F_i/(F_i*F_i*F_i)", True),
    ],
)
def test_a_chain_is_judged_by_what_it_has_taken(old: str, new: str, is_refused: bool) -> None:
    (program, before), (_, after) = value_of(old), value_of(new)
    algebra = Algebra(Kinds(dtypes(program)), "f32")
    found = bounded(program)
    rounding = Rounding(algebra, lambda e: found.of(e, (1, 0)), lambda _: 1.0)
    assert isinstance(rounding.relative, RelativeErrors)
    assert bool(rounding.why_not(before, after)) == is_refused


def apart(program: Program, path: tuple[int, ...], within: tuple[int, ...]) -> float | None:
    found = set_apart(bounded(program), path, within)
    return None if found is None else found.most


def test_an_exponent_of_one_exponential_of_a_share_is_set_apart() -> None:
    program = softmax("A_{i,j}*0.5", "A_{i,j}*0.5")
    most = apart(program, ABOVE, (1, 0, 0))
    assert most is not None and most > 1e5
    assert apart(program, SUMMED, (1, 0)) == most
    assert apart(program, ABOVE, (1,)) is None  # the quotient itself
    assert apart(program, ABOVE, (1, 0)) is None


def test_scores_that_all_exponentials_read_are_not() -> None:
    assert apart(softmax("S_{i,j}", "S_{i,j}", "A_{i,j}*0.5"), (0, 0, 0), (1,)) is None


def test_scores_that_one_exponential_reads_are() -> None:
    assert apart(softmax("S_{i,j}", "A_{i,j}*0.5", "A_{i,j}*0.5"), (0, 0, 0), (1,)) == math.inf


@pytest.mark.parametrize(
    ("score", "within", "most"),
    [
        ("tanh(A_{i,j})*0.5", (1, 0, 0), 0.5),
        ("tanh(A_{i,j})*2.0", (1, 0, 0), 2.0),
        ("tanh(A_{i,j}*0.5)", (1, 0, 0, 0), 1.0),
        ("sin(A_{i,j}*0.5)", (1, 0, 0, 0), math.inf),
        ("(tanh(A_{i,j})*0.5+1.0)*64.0", (1, 0, 0, 0, 0), math.inf),
    ],
)
def test_the_size_of_a_part_is_that_in_the_exponent(score: str, within: tuple[int, ...], most: float) -> None:
    found = set_apart(bounded(softmax(score, score)), ABOVE, within)
    assert found is not None
    assert found.most == pytest.approx(most, rel=1e-5)
    assert found.is_small == (most <= 2.0)


def test_exponentials_without_a_sum_are_no_share() -> None:
    program = parse("in A_8,W_8;out C_8;\nL^8_i[C_i=exp(A_i*0.5)/(1.0+exp(W_i*0.5));]")
    assert apart(program, (0, 0), (1, 0, 0)) is None


def test_a_sum_that_is_multiplied_by_and_one_that_is_inverted_are() -> None:
    text = "in A_{4,8};out C_4;\nL^{4,8}_{i,j}[H_i+=exp(A_{i,j}*0.5);]\nL^4_i[G_i=1.0/H_i;]\n"
    program = parse(f"{text}L^{{4,8}}_{{i,j}}[C_i+=exp(A_{{i,j}}*0.5)*G_i*A_{{i,j}};]")
    assert apart(program, (2, 0, 0), (1, 0, 0, 0)) is not None
