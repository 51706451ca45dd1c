"""The grid: its default is what candidates propose by themselves, each key widens it, and most strategies need none."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from leir.edit import walk
from leir.parser import parse
from leir.syntax import Loop, Path, Program
from strategies.base import BitExact, Fact, Gridded, Level, Strategy
from strategies.catalog import strategies, strategy
from strategies.grid import DEFAULT, Grid
from tests.strategies.walks import programs

LINE = "in A_{100};out C_{100};L^{100}_i[C_i=A_i+1.0;]"
SQUARE = "in A_{12,40};out C_{12,40};L^{12,40}_{i,j}[C_{i,j}=A_{i,j}+1.0;]"
SUM = "in A_{12};out C;L^{12}_k[C+=A_k;]"
STAGED = "in A_{9,96,100};out C_{9,96,100};B^9_{bx}[L^{96,100}_{i,j}[C_{bx,i,j}=A_{bx,i,j}+1.0;]]"
ALIKE = "in A_4,N_4,W_4,X_4,Y_4,Z_4;out C_4;" + "".join(
    f"L^4_i[{own}_i={read}_i*2.0;]" for own, read in zip("DEFGHM", "ANWXYZ", strict=True)
) + "L^4_i[C_i=D_i+E_i+F_i+G_i+H_i+M_i;]"  # fmt: skip
SAME = (
    "in A_4;out C_4;"
    + "".join(f"L^4_i[{t}_i=exp(A_i)*{n}.5;]" for n, t in enumerate("DEFG"))
    + ("L^4_i[C_i=D_i+E_i+F_i+G_i;]")
)
WINDOWS = "in A_9;out C_9;" + "".join(
    f"L^{{9,3}}_{{i,k}}(0<=i+k-1&&i+k-1<9)[{t}_i+=A_{{i+k-1}}*{n}.5;]" for n, t in enumerate("DEFGH")
) + "L^9_i[C_i=D_i+E_i+F_i+G_i+H_i;]"  # fmt: skip


def steps(name: str, text: str, **keys: Any) -> list[Strategy]:
    return list(strategy(name).proposed(parse(text), Grid(**keys)))


def values(name: str, text: str, *fields: str, **keys: Any) -> list[tuple[Any, ...]]:
    """The arguments of the steps that are proposed, each once."""
    return list(dict.fromkeys(tuple(getattr(s, field) for field in fields) for s in steps(name, text, **keys)))


def test_the_default_is_what_is_proposed_without_a_grid() -> None:
    for name, program in programs(range(20)):
        for cls in strategies():
            assert list(cls.proposed(program, Grid())) == list(cls.candidates(program)), (name, cls.name)


def test_the_default_sizes() -> None:
    assert values("loop_split", LINE, "factor") == [(2,), (3,), (4,), (8,), (16,), (32,), (64,)]
    tiles = [(4, 4), (4, 8), (8, 4), (8, 8), (8, 16)]
    assert values("loop_tiling", SQUARE, "outer_tile", "inner_tile") == tiles
    assert values("reduction_factorization", SUM, "parts") == [(2,), (4,), (8,), (12,)]
    pads = [("swap", 0, 1), ("split", 0, 2), ("split", 0, 4), ("merge", 0, 40)]
    splits = [("split", 1, 2), ("split", 1, 4), ("split", 1, 8), ("pad", 1, 1)]
    assert values("layout_transformation", SQUARE, "op", "axis", "by") == [*pads, *splits]
    assert values("tensor_split_to_decouple_operators", SUM, "at") == [(6,), (8,), (1,)]


@pytest.mark.parametrize(
    ("name", "text", "keys", "more"),
    [
        ("loop_split", LINE, {"factors": (5, 96, 128)}, [{"factor": 5}, {"factor": 96}]),
        ("loop_split", LINE, {"divisors": True}, [{"factor": 5}, {"factor": 50}]),
        ("loop_tiling", SQUARE, {"tiles": (3, 5)}, [{"outer_tile": 3, "inner_tile": 5}]),
        ("loop_tiling", SQUARE, {"tile_ratio": 8}, [{"outer_tile": 4, "inner_tile": 32}]),
        ("loop_tiling", SQUARE, {"divisors": True}, [{"outer_tile": 6, "inner_tile": 10}]),
        ("loop_unrolling", LINE, {"unrolled": 100}, [{"path": (0,)}]),
        ("reduction_factorization", SUM, {"parts": (5,)}, [{"parts": 5}]),
        ("reduction_factorization", SUM, {"divisors": True}, [{"parts": 3}, {"parts": 6}]),
        ("layout_transformation", SQUARE, {"blocks": (5,), "pads": (4,)}, [{"op": "split", "axis": 1, "by": 5}]),
        ("layout_transformation", SQUARE, {"pads": (1, 4)}, [{"op": "pad", "axis": 1, "by": 4}]),
        ("layout_transformation", SQUARE, {"divisors": True}, [{"op": "split", "axis": 0, "by": 3}]),
        ("cache_read_write", STAGED, {"shared_box": 9600}, [{"path": (0, 0), "scope": "s"}]),
        ("cache_read_write", STAGED, {"local_box": 9600}, [{"path": (0, 0), "scope": "l"}]),
        ("tensor_split_to_decouple_operators", SUM, {"cuts": (3, 5, 64)}, [{"at": 3}, {"at": 5}]),
        ("tensor_concat_to_fuse_operators", ALIKE, {"alike": 5}, [{"path": (0,), "other": (5,)}]),
        ("partially_equivalent_then_correct", WINDOWS, {"alike": 5}, [{"nests": ((0,), (4,))}]),
    ],
)  # fmt: skip
def test_a_key_gives_other_steps(name: str, text: str, keys: dict[str, Any], more: list[dict[str, Any]]) -> None:
    def has(step: Strategy, wanted: dict[str, Any]) -> bool:
        return all(getattr(step, field) == value for field, value in wanted.items())

    found, before = steps(name, text, **keys), steps(name, text)
    assert issubclass(strategy(name), Gridded)
    assert all(any(has(step, wanted) for step in found) for wanted in more), found
    assert not any(has(step, wanted) for step in before for wanted in more), before


def test_a_key_takes_the_place_of_the_default() -> None:
    assert values("loop_split", LINE, "factor", factors=(5,)) == [(5,)]
    assert not steps("loop_split", LINE, factors=())
    assert not steps("loop_vectorization", SUM.replace("C+", "C_k").replace("out C", "out C_{12}"), lanes=8)
    assert values("layout_transformation", SQUARE, "op", blocks=(), pads=()) == [("swap",), ("merge",)]
    assert values("reduction_factorization", SUM, "parts", lone_terms=8) == [(2,), (4,), (8,)]
    places = [max(values("common_subexpression_elimination", SAME, "places", occurrences=n)) for n in (1, 2, 32)]
    assert places == [(2,), (3,), (4,)]


def test_divisors_are_all_of_them() -> None:
    grid = Grid(divisors=True)
    for extent in range(1, 200):
        assert grid.below((), extent) == [n for n in range(2, extent) if extent % n == 0]
    assert grid.below((5, 6), 12) == [2, 3, 4, 5, 6]


class Stranger(Strategy):
    """A strategy of somebody who has never heard of a grid."""

    name: ClassVar[str] = "stranger"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    path: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["Stranger"]:
        yield from (cls(path=path) for path, node in walk(program) if isinstance(node, Loop))

    def facts(self, program: Program) -> Iterator[Fact]:
        yield Fact("never", False, f"{len(program.body)} statements")


def test_a_strategy_needs_no_grid() -> None:
    assert list(Stranger.proposed(parse(LINE), Grid(factors=(5,)))) == [Stranger(path=(0,))]


def test_what_is_no_grid_is_told() -> None:
    for wrong in (
        {"factors": (1,)}, {"factors": (4, 2)}, {"factors": (2, 2)}, {"pads": (0,)}, {"unrolled": 4096}, {"size": 3},
        {"parts": tuple(range(2, 100))}, {"factors": (1 << 30,)}, {"lanes": 65},
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            Grid.model_validate(wrong)


def test_only_what_differs_is_told() -> None:
    assert DEFAULT.chosen() == Grid(factors=DEFAULT.factors).chosen() == {}
    chosen = Grid(factors=(2, 5), divisors=True).chosen()
    assert chosen == {"factors": [2, 5], "divisors": True}
    assert Grid.model_validate(chosen) == Grid(factors=(2, 5), divisors=True)
