"""Keyed draws are uniform, depend on their key alone, and weigh as they are told."""

from collections import Counter

import pytest

from stepTP.draw import arrival, digest, digests, uniform


def test_parts_of_a_key_are_apart() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4
    assert digest(1) == digest("1")


def test_keys_with_a_common_beginning_are_digested_as_each_alone() -> None:
    after = digests(7, "source", "")
    assert [after(last) for last in ("", "a", "é", "a")] == [digest(7, "source", "", x) for x in ("", "a", "é", "a")]
    assert digests()("a") == digest("a")


def test_draws_are_uniform() -> None:
    counts = Counter(int(uniform("test", n) * 10) for n in range(20000))
    assert all(abs(counts[bucket] - 2000) < 200 for bucket in range(10))
    assert all(0 < uniform("test", n) < 1 for n in range(1000))


def test_a_race_is_won_by_weight() -> None:
    rates = {"a": 1.0, "b": 3.0}
    wins = Counter(min(rates, key=lambda name: arrival(rates[name], n, name)) for n in range(4000))
    assert wins["b"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_a_newcomer_takes_only_what_it_wins() -> None:
    field = [f"s{n}" for n in range(30)]
    without = sorted(field, key=lambda name: arrival(1.0, name))[:5]
    with_one = sorted([*field, "new"], key=lambda name: arrival(1.0, name))[:5]
    assert [name for name in with_one if name != "new"] == without[: 5 - ("new" in with_one)]
