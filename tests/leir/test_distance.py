"""Distances of dependences by hand, and against every pair of instances of random programs."""

import pytest

from leir.analysis.distance import LISTED, distances
from leir.edit import loops_around, perfect_nest, walk
from leir.parser import parse
from leir.syntax import Loop, Path, Program
from tests.leir.enumeration import affine_program, events

WAVES = "L^5_i[C_{i,0}=A_{i,0};C_{0,i}=A_{0,i};]"


@pytest.mark.parametrize(
    ("text", "path", "last", "expected"),
    [
        ("in A_{4,6};out C_{4,6};L^{4,6}_{i,j}[C_{i,j}=A_{i,j};]", (0,), 2, ()),
        (f"in A_{{5,5}};out C_{{5,5}};{WAVES}L^{{4,4}}_{{i=1,j=1}}[C_{{i,j}}=C_{{i-1,j}}+C_{{i,j-1}};]", (1,), 2,
         (((0, 0), (1, 1)), ((1, 1), (0, 0)))),
        ("in A_{4,6};out C_9;L^{4,6}_{i,j}[C_{i+j}=A_{i,j};]", (0,), 2,
         (((1, 1), (-1, -1)), ((2, 2), (-2, -2)), ((3, 3), (-3, -3)))),
        ("in A_{4,6};out C_4;L^{4,6}_{i,j}[C_i+=A_{i,j};]", (0,), 2, (((0, 0), (1, 5)),)),
        ("in A_{4,6};out C_{4,6};L^{4,6}_{i,j}[T^{f32,l};T=A_{i,j};C_{i,j}=T;]", (0,), 2, ()),
        ("in A_{4,6};out C_{4,6};L^{4,6}_{i,j}[T=A_{i,j};C_{i,j}=T;]", (0,), 2, (((0, 3), (-5, 5)),)),
        ("in A_{4,6},I^{i32}_6;out C_{4,6};L^{4,6}_{i,j}[C_{i,max(min(I_j,5),0)}=A_{i,j};]", (0,), 2, None),
        ("in A_{4,6},I^{i32}_6;out C_{6,4};L^{4,6}_{i,j}[C_{max(min(I_j,5),0),i}=A_{i,j};]", (0,), 1, ()),
    ],
)  # fmt: skip
def test_distances_are_what_they_are(text: str, path: Path, last: int, expected: object):
    assert distances(parse(text), path, 0, last) == expected


def test_terms_whose_order_is_free_do_not_count():
    program = parse("in A_{4,6};out C_4,D_{4,6};L^{4,6}_{i,j}[C_i+=A_{i,j};D_{i,j}=A_{i,j};]")
    assert distances(program, (0,), 0, 2, unordered=[(0, 0, 0)]) == ()


def test_a_guard_that_reads_between_the_loops_is_not_looked_through():
    program = parse("in A_{4,6};out C_4;L^4_i(C_i>0.0)[L^6_j[C_i=A_{i,j};]]")
    assert distances(program, (0,), 0, 2) is None


def brute(program: Program, path: Path, first: int, last: int) -> set[tuple[int, ...]]:
    """The distances of all pairs of instances below a path that touch one element which one of them writes."""
    found: set[tuple[int, ...]] = set()
    below = [event for event in events(program) if event.statement[: len(path)] == path]
    for a in below:
        for b in below:
            if a.tensor != b.tensor or a.element != b.element or a.mode == b.mode == "read":
                continue
            if a.values[:first] == b.values[:first] and a.values[first:last] < b.values[first:last]:
                steps = zip(b.values[first:last], a.values[first:last], strict=True)
                found.add(tuple(later - sooner for later, sooner in steps))
    return found


@pytest.mark.parametrize("number", range(40))
def test_distances_are_those_that_running_finds(number: int):
    program = affine_program(f"distances {number}")
    for path, node in walk(program):
        if not isinstance(node, Loop):
            continue
        first = len(loops_around(program, path))
        levels = [level for _, level in perfect_nest(node, path) if isinstance(level, Loop)]
        for last in range(first + 1, first + len(levels) + 1):
            boxes = distances(program, path, first, last)
            vectors = brute(program, path, first, last)
            assert boxes is not None
            exact = [tuple(low for low, _ in box) for box in boxes if all(low == high for low, high in box)]
            if len(exact) == len(boxes):
                assert set(exact) == vectors
            else:
                assert len(boxes) <= LISTED and vectors and all(any(_holds(b, v) for b in boxes) for v in vectors)
                for n in range(last - first):
                    assert min(v[n] for v in vectors) == min(box[n][0] for box in boxes)
                    assert max(v[n] for v in vectors) == max(box[n][1] for box in boxes)


def _holds(box: tuple[tuple[int, int], ...], vector: tuple[int, ...]) -> bool:
    return all(low <= step <= high for (low, high), step in zip(box, vector, strict=True))
