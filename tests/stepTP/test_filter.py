"""The second pass keeps what its rules say, whatever the order of the rows, and says why it drops the others."""

import random

import pytest

from stepTP.config import Filter
from stepTP.filter import balance, entropy, select
from stepTP.records import SourceRecord, StepRow, Tokens, row_id
from stepTP.structure import without_sizes


def row(source: str, strategy: str, before: str, after: str) -> StepRow:
    return StepRow(
        id=row_id(source, strategy, before, after),
        split="train",
        held_out=None,
        source=SourceRecord(id=source, family=source[0], torch_code="", torch_sha="", license=""),
        names={},
        program_signature="",
        depth=1,
        path=(),
        state_id_before=before,
        leir_before=before,
        strategy=strategy,
        level="operator",
        args={},
        bit_exact=True,
        undoes=0,
        inverse_of=None,
        structure=row_id(strategy, without_sizes(before), without_sizes(after)),
        facts=(),
        leir_after=after,
        state_id_after=after,
        diff="",
        reasoning="",
        answer="",
        verification=(),
        tokens=Tokens(leir=None, tir=None, cuda=None, reasoning=None),
        tool_versions={},
    )


ROWS = [
    *(row(f"a{n}", "split", f"L^{n}_i[A1_i=X;]", f"L^{n}_i[A2_i=X;]") for n in range(8)),
    *(row("b0", "fuse", f"L^8_i[{name}_i=X;]", "y") for name in "CDEF"),
    row("c0", "fuse", "L^8_i[C_i=X;]", "y"),
]


def test_each_rule_keeps_its_number() -> None:
    kept, dropped = select(ROWS, Filter(near_duplicates=3, caps={"fuse": 2}))
    assert sum(r.strategy == "split" for r in kept) == 3
    assert sum(r.strategy == "fuse" for r in kept) == 2
    assert {(d.row.strategy, d.cause) for d in dropped} == {
        ("split", "near-duplicate"),
        ("fuse", "double"),
        ("fuse", "strategy-cap"),
    }
    assert sorted(r.id for r in ROWS) == sorted([*(r.id for r in kept), *(d.row.id for d in dropped)])


def test_the_order_of_rows_does_not_matter() -> None:
    shuffled = random.Random(0).sample(ROWS, len(ROWS))
    settings = Filter(near_duplicates=2, cap_per_strategy=3)
    assert {r.id for r in select(ROWS, settings)[0]} == {r.id for r in select(shuffled, settings)[0]}


def test_a_cap_of_its_own_goes_before_the_common_one() -> None:
    kept, _ = select(ROWS, Filter(near_duplicates=99, cap_per_strategy=1, caps={"split": 5}))
    assert sum(r.strategy == "split" for r in kept) == 5
    assert sum(r.strategy == "fuse" for r in kept) == 1


def test_the_table_counts_both_sides() -> None:
    kept, _ = select(ROWS, Filter(near_duplicates=3))
    table = balance(ROWS, kept)
    assert table["strategy"] == {"fuse": {"before": 5, "after": 4}, "split": {"before": 8, "after": 3}}
    assert table["family"]["c"]["before"] == 1


def test_entropy() -> None:
    assert entropy([]) == entropy([5, 0]) == 0
    assert entropy([2, 2, 2, 2]) == pytest.approx(2)
