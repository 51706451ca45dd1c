"""Dependences by hand, and against every pair of instances of random programs."""

import pytest

from leir.analysis.dependence import Violation, carries_dependence
from leir.edit import walk
from leir.parser import parse
from leir.syntax import Loop, Path, Program
from tests.leir.enumeration import Event, affine_program, events


def violation(text: str, path: Path) -> Violation | None:
    return carries_dependence(parse(text), path)


@pytest.mark.parametrize(
    ("text", "path", "kind"),
    [
        ("in A_8;out C_8;L^8_i[C_i=A_i;]", (0,), None),
        ("in A_8;out C_8;L^7_i[C_{i+1}=C_i+A_i;]", (0,), "flow"),
        ("in A_8;out C_8;L^7_i[C_i=C_{i+1}+A_i;]", (0,), "anti"),
        ("in A_8;out C_8;L^8_i[C_{i//2}=A_i;]", (0,), "output"),
        ("in A_{8,8};out C_8;L^{8,8}_{i,j}[C_i+=A_{i,j};]", (0,), None),
        ("in A_{8,8};out C_8;L^{8,8}_{i,j}[C_i+=A_{i,j};]", (0, 0), "reduction"),
        ("in A_8;out C_8;L^4_i[C_{2*i}=A_i;C_{2*i+1}=C_{2*i};]", (0,), None),
        ("in A_8;out C_8;L^8_i[T=A_i;C_i=T;]", (0,), "output"),
        ("in A_8;out C_8;L^8_i[T^{f32,l};T=A_i;C_i=T;]", (0,), None),
        ("in A_8;out C_8;L^8_i[T^{f32,l};T=A_i;L^2_j[T=exp(T);]C_i=T;]", (0, 2), "anti"),
        ("in A_8;out C_8;L^8_i(i==3)[C_0=A_i;]", (0,), None),
        ("in A_8;out C_8;L^8_i(i>=3&&i<5)[C_0=A_i;]", (0,), "output"),
        ("in A_8;out C_8;L^8_i[C_i=if_then_else(i>20,C_0,A_i);]", (0,), None),
        ("in A_8;out C_8;L^8_i[C_i=if_then_else(i>0,C_0,A_i);]", (0,), "flow"),
        ("in A_8;out C_8;L^8_i[C_i+=A_i;C_i max=A_i;]", (0,), None),
        ("in A_8;out C_8;L^8_i[C_0+=A_i;C_0 max=A_i;]", (0,), "flow"),
    ],
)
def test_a_loop_carries_what_it_carries(text: str, path: Path, kind: str | None):
    found = violation(text, path)
    assert (found and found.kind) == kind
    assert found is None or found.exact


def test_a_violation_names_both_iterations():
    found = violation("in A_8;out C_8;L^3_aL^7_i[C_{i+1}=C_i+A_i;]", (0, 0))
    assert str(found) == ("C_i at a=0, i=1 reads what C_{i+1} at a=0, i=0 wrote: both are C_1")


def test_what_is_opaque_may_conflict():
    found = violation("in A_8,I^{i32}_8;out C_8;L^8_i[C_{I_i}=A_i;]", (0,))
    assert found is not None and not found.exact and "not provable otherwise" in str(found)
    assert violation("in A_8,I^{i32}_8;out C_{8,8};L^8_i[C_{i,I_i}=A_i;]", (0,)) is None
    guarded = violation("in A_8,I^{i32}_8;out C_8;L^8_i(I_i>3)[C_0=A_i;]", (0,))
    assert guarded is not None and not guarded.exact


def test_very_long_loops_with_division_are_exact():
    text = "in A_{100000000};out C_{100000000};L^{100000000}_i[C_{i//1000*1000+i%1000}=A_i;]"
    assert violation(text, (0,)) is None
    assert violation(text.replace("i%1000}", "i%999}"), (0,)) is not None


def test_only_a_loop_can_be_asked_about():
    with pytest.raises(ValueError, match="not a loop"):
        violation("in A_8;out C_8;L^8_i[C_i=A_i;]", (0, 0))


def brute(program: Program, path: Path) -> bool:
    """Whether two iterations of a loop, in one iteration of the loops around it, touch an element that one writes."""
    below: dict[tuple[object, ...], list[Event]] = {}
    for event in events(program):
        if event.statement[: len(path)] == path:
            below.setdefault((event.tensor, event.element), []).append(event)
    depth = sum(1 for length in range(1, len(path)) if isinstance(_at(program, path[:length]), Loop))
    for touched in below.values():
        for a in touched:
            for b in touched:
                if "read" == a.mode == b.mode or a.values[:depth] != b.values[:depth]:
                    continue
                if a.values[depth] != b.values[depth]:
                    return True
    return False


def _at(program: Program, path: Path):
    return dict(walk(program))[path]


@pytest.mark.parametrize("number", range(100))
def test_every_loop_carries_what_running_finds(number: int):
    program = affine_program(f"carries {number}")
    for path, node in walk(program):
        if isinstance(node, Loop):
            found = carries_dependence(program, path)
            assert (found is not None) == brute(program, path), path
            if found is not None:
                assert found.exact
                assert_witness(program, found)


def assert_witness(program: Program, found: Violation) -> None:
    elements = []
    for place, iteration in ((found.source, found.source_iteration), (found.target, found.target_iteration)):
        values = tuple(value for _, value in iteration)
        matching = [e for e in events(program) if e.place == place and e.values == values]
        assert len(matching) == 1
        elements.append((matching[0].tensor, matching[0].element))
    assert elements[0] == elements[1]
