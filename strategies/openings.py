"""What many strategies ask first: what stands at a path.

Each function yields its facts and returns what they found: `loop = yield from a_loop(program, self.path)`.
"""

from collections.abc import Generator

from leir.edit import perfect_nest, statement_at
from leir.syntax import Equation, Loop, Path, Program
from strategies.base import Fact, describe_at, path_text, statement_or_none


def an_equation(program: Program, path: Path) -> Generator[Fact, None, Equation]:
    """The equation at a path."""
    node = statement_or_none(program, path)
    yield Fact("path-is-an-equation", isinstance(node, Equation), describe_at(program, path))
    assert isinstance(node, Equation)
    return node


def a_loop(program: Program, path: Path) -> Generator[Fact, None, Loop]:
    """The loop at a path."""
    node = statement_or_none(program, path)
    yield Fact("path-is-a-loop", isinstance(node, Loop), describe_at(program, path))
    assert isinstance(node, Loop)
    return node


def loops_of_a_perfect_nest(program: Program, outer: Path, inner: Path) -> Generator[Fact, None, tuple[Loop, Loop]]:
    """Two loops, of which the first holds nothing but one level after the other down to the second."""
    found = [statement_or_none(program, path) for path in (outer, inner)]
    evidence = " and ".join(describe_at(program, path) for path in (outer, inner))
    yield Fact("paths-are-loops", all(isinstance(node, Loop) for node in found), evidence)
    first, last = found
    assert isinstance(first, Loop) and isinstance(last, Loop)
    below = [path for path, _ in perfect_nest(statement_at(program, outer), outer)]
    perfect = inner in below[1:]
    evidence = f"each level from {path_text(outer)} to {path_text(inner)} holds nothing but the next"
    if not perfect:
        deepest = path_text(below[-1])
        evidence = f"{path_text(inner)} is no level below {path_text(outer)} in a nest perfect to {deepest}"
    yield Fact("nest-is-perfect", perfect, evidence)
    return first, last
