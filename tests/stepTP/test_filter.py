"""The second pass keeps what its rules say, whatever the order of the rows, and says why it drops the others."""

import random
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from stepTP.balance import balance
from stepTP.config import Filter
from stepTP.filter import StepKey, entropy, key_of, select, select_refusals
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
        state_id_before=sha256(before.encode()).hexdigest(),
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
        state_id_after=sha256(after.encode()).hexdigest(),
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


def keys(rows: list[StepRow] = ROWS, **changes: Any) -> list[StepKey]:
    return [replace(key_of(r, r.source.id), **changes) for r in rows]


def many(strategy: str, count: int, **changes: Any) -> list[StepKey]:
    """Steps that differ in everything but what is given."""
    made = [row(f"s{n}", strategy, f"{strategy} {changes} {n}", "y") for n in range(count)]
    return [replace(key, structure=key.id, program=key.id, **changes) for key in keys(made)]


def test_each_rule_keeps_its_number() -> None:
    kept, dropped = select(keys(), Filter(near_duplicates=3, caps={"fuse": 2}))
    assert sum(k.strategy == "split" for k in kept) == 3
    assert sum(k.strategy == "fuse" for k in kept) == 2
    assert {(d.step.strategy, d.cause) for d in dropped} == {
        ("split", "near-duplicate"),
        ("fuse", "double"),
        ("fuse", "strategy-cap"),
    }
    assert sorted(r.id for r in ROWS) == sorted([*(k.id for k in kept), *(d.step.id for d in dropped)])


def test_the_order_of_rows_does_not_matter() -> None:
    steps = [*keys(), *many("tile", 30), *many("back", 9, undoes=1)]
    shuffled = random.Random(0).sample(steps, len(steps))
    settings = Filter(near_duplicates=2, max_share=0.4, steps_back=0.2)
    assert {k.id for k in select(steps, settings)[0]} == {k.id for k in select(shuffled, settings)[0]}


def test_a_cap_of_its_own_goes_before_the_common_one() -> None:
    kept, _ = select(keys(), Filter(near_duplicates=99, cap_per_strategy=1, caps={"split": 5}))
    assert sum(k.strategy == "split" for k in kept) == 5
    assert sum(k.strategy == "fuse" for k in kept) == 1


def test_no_strategy_has_more_than_its_share_and_hard_ones_are_kept_whole() -> None:
    steps = [k for name, count in (("a", 900), ("b", 400), ("c", 90), ("hard", 300)) for k in many(name, count)]
    kept = Counter(k.strategy for k in select(steps, Filter(max_share=0.4, whole=("hard",)))[0])
    assert kept["hard"] == 300 and kept["c"] == 90
    assert kept["a"] == 526 and kept["b"] == 400  # 527 would be more than two fifths of 1317


def test_too_few_strategies_for_a_share_all_get_as_many_as_the_rarest() -> None:
    steps = [*many("a", 50), *many("b", 20)]
    assert Counter(k.strategy for k in select(steps, Filter(max_share=0.1))[0]) == {"a": 20, "b": 20}


def test_the_rarest_strategy_has_its_share() -> None:
    steps = [k for name, count in (("a", 900), ("b", 400), ("c", 30), ("hard", 50)) for k in many(name, count)]
    kept = Counter(k.strategy for k in select(steps, Filter(min_share=0.1, whole=("hard",)))[0])
    assert kept == {"a": 110, "b": 110, "c": 30, "hard": 50}  # a tenth of 300
    kept = Counter(k.strategy for k in select(steps, Filter(min_share=0.3, max_share=0.5, whole=("hard",)))[0])
    assert kept["a"] == 400 + 30 + 50  # no cap gives c three tenths: only the half is asked for


def test_families_depths_and_lengths_take_turns() -> None:
    steps = [*many("a", 80, family="big"), *many("a", 5, family="small"), *many("a", 5, family="big", depth=4),
             *many("a", 5, family="big", length=9000)]  # fmt: skip
    kept, _ = select(steps, Filter(cap_per_strategy=20))
    assert Counter((k.family, k.depth, k.length > 8000) for k in kept) == {
        ("big", 1, False): 5, ("small", 1, False): 5, ("big", 4, False): 5, ("big", 1, True): 5
    }  # fmt: skip


def test_steps_back_are_a_share() -> None:
    steps = [*many("a", 60), *many("a", 50, undoes=1), *many("c", 5, undoes=1)]
    kept, dropped = select(steps, Filter(steps_back=0.25))
    assert Counter((k.strategy, k.undoes) for k in kept) == {("a", 0): 60, ("a", 1): 20}
    assert {d.cause for d in dropped} == {"step-back-cap"}


def test_what_a_test_has_training_has_not() -> None:
    train, test = many("a", 4), many("a", 2, split="test")
    same_step = replace(train[0], structure=test[0].structure)
    same_program = replace(train[1], program=test[1].program)
    validation = replace(train[2], split="validation", structure=test[0].structure)
    kept, dropped = select([same_step, same_program, validation, train[3], *test], Filter())
    assert {k.id for k in kept} == {train[3].id, *(k.id for k in test)}
    assert {d.cause for d in dropped} == {"leak"}
    double = replace(train[0], states=test[0].states)
    assert [k.split for k in select([double, test[0]], Filter())[0]] == ["test"]


def test_refusals_are_so_many_of_each_fact_and_families_take_turns() -> None:
    rows = [
        (f"{f}{n}", "split", fact, f) for f, count in (("x", 90), ("y", 4)) for n in range(count) for fact in ("p",)
    ]
    rows += [(f"q{n}", "split", "q", "x") for n in range(3)]
    kept = select_refusals(rows, Filter(refusals_per_fact=10))
    assert Counter(name[0] for name in kept) == {"x": 6, "y": 4, "q": 3}


def test_the_table_counts_both_sides_and_says_what_is_not_as_wanted() -> None:
    settings = Filter(near_duplicates=3, min_rows=4, min_share=0.45, max_share=0.55)
    steps = keys()
    kept, dropped = select(steps, settings.model_copy(update={"max_share": None, "min_share": None}))
    table = balance(steps, kept, dropped, settings, ("fuse", "split", "tile"))
    assert table["views"]["strategy"] == {"fuse": {"before": 5, "after": 4}, "split": {"before": 8, "after": 3}}
    assert table["views"]["family"]["c"]["before"] == 1
    assert table["dropped"] == {"double": 1, "near-duplicate": 5}
    assert table["entropy_bits"]["strategy"] == {"before": 0.9612, "after": 0.9852}
    assert [sentence.split(":")[1] for sentence in table["outside"]] == [
        " more than 55.00%", " less than 45.00%", " fewer than 4", " less than 45.00%", " fewer than 4"
    ]  # fmt: skip


def test_entropy() -> None:
    assert entropy([]) == entropy([5, 0]) == 0
    assert entropy([2, 2, 2, 2]) == pytest.approx(2)
