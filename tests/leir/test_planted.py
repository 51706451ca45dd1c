"""Planted errors in the checker and the analyses: the cases of the other tests catch each of them."""

from collections.abc import Callable

import pytest

from leir.analysis.cost import cost
from leir.check import check, check_source
from leir.parser import parse, parse_source
from tests.leir import test_check, test_cost, test_ranges, test_types
from tests.leir.planted import planted
from tests.leir.test_check import CASES, EXAMPLES, SETS, marked


def cases() -> None:
    for code, refused, corrected in CASES + SETS:
        text, start, end = marked(refused)
        found = [(d.diagnostic.code, d.column, d.end_column) for d in check_source(parse_source(text))]
        assert (code, start, end) in found
        assert check(parse(corrected)) == ()
    for text in EXAMPLES:
        assert check(parse(text)) == ()
    test_check.test_nothing_follows_from_a_statement_that_fell()


def bounds() -> None:
    test_ranges.test_evaluation_stays_within_the_bounds(0)
    test_ranges.test_underflow_is_seen()
    test_ranges.test_a_comparison_that_fails_for_the_other_sides_nan_proves_nothing()
    test_ranges.test_nan_arises_only_where_it_can()
    test_ranges.test_a_maximum_is_above_its_terms()
    test_ranges.test_a_count_is_exact_for_a_finished_sum_and_zero_while_it_runs()
    test_ranges.test_guards_hold_unless_their_tensor_is_written_below()


def counts() -> None:
    test_cost.test_softmax()
    test_cost.test_conditions_of_values_guard_accesses_and_work()
    test_cost.test_the_union_of_several_accesses()
    test_cost.test_what_depends_on_data_is_an_upper_bound()


def types() -> None:
    test_types.test_computing_type("I+0.5", "f32")
    test_types.test_computing_type("if_then_else(Q,Q,1)", "i32")
    test_types.test_promotion_is_a_join()


CHECK, ANALYSIS = "leir.check.", "leir.analysis."
PLANTED: list[tuple[Callable[[], None], str, str, str, str]] = [
    (cases, CHECK + "names", "check_names", "known = signature |", "known = {'Q'} | signature |"),
    (cases, CHECK + "names", "_check_binder", "if name in bound:", "if name in bound and loop.first:"),
    (cases, CHECK + "names", "check_ranks", "!= rank", "> rank"),
    (cases, CHECK + "names", "check_size", ">= ELEMENT_LIMIT", "> ELEMENT_LIMIT"),
    (cases, CHECK + "overflow", "check_overflow", "== integer_range(dtype)", "== (0, 0)"),
    (cases, CHECK + "overflow", "_is_harmless", "not _fits(other, limits, _SMALL)", "not outer"),
    (cases, CHECK + "allocation", "_check_lifetime", "place.path[:depth] == path[:depth] and ", ""),
    (cases, CHECK + "allocation", "_check_owner", "!= order:", "!= order and not order:"),
    (cases, CHECK + "kernels", "_check_copies", "outer * loop.extent:", "loop.extent:"),
    (cases, CHECK + "kernels", "_check_guard", "elif tensor in below:", "elif tensor in below and not kernel:"),
    (cases, CHECK + "kernels", "_check_vector", "low <= loop.extent <= high", "loop.extent <= high"),
    (cases, CHECK + "kernels", "_check_binding", "> limits.axis(axis)", "> limits.grid_x"),
    (cases, CHECK + "kernels", "_check_kernel", "> limits.threads_per_block", "> 2 * limits.threads_per_block"),
    (cases, CHECK + "names", "names_and_ranks_agree", "!= rank", "> 99"),
    (cases, CHECK + "names", "names_and_ranks_agree", "all(name in known for name in ranks)", "True"),
    (cases, CHECK + "names", "_used", "if any(_named(path, statement, around, names)):", "if not names:"),
    (cases, CHECK + "types", "_problems", 'statement.op != "="', 'statement.op == "*="'),
    (cases, CHECK + "divisors", "check_divisors", "if bounds.zero:", "if bounds.low == bounds.high == 0:"),
    (cases, CHECK + "standing", "concerns", "access.tensor in tensors", "not tensors"),
    (cases, ANALYSIS + "kernels", "leading_threads", "sorted(names) == sorted(bound)", "names"),
    (cases, ANALYSIS + "types", "_Typing.fits", "not low <= kind.value <= high", "not kind.value <= high"),
    (types, ANALYSIS + "types", "promote", 'left if is_float(left) else "f32"', "left"),
    (types, ANALYSIS + "types", "promote", '"i32" if left == "bool" else left', "left"),
    (bounds, ANALYSIS + "intervals", "add", "a.nan or b.nan or opposite", "a.nan or b.nan"),
    (bounds, ANALYSIS + "intervals", "_rounds_to_zero", "a.dtype is None or", "a.dtype is not None and"),
    (bounds, ANALYSIS + "intervals", "round_down", "math.ldexp(count, quantum)", "math.ldexp(count + 1, quantum)"),
    (bounds, ANALYSIS + "values", "_narrowed", "if limit.nan and not ordered:", "if limit.nan and ordered and False:"),
    (bounds, ANALYSIS + "values", "known_inside", "frozenset(written)", "frozenset()"),
    (bounds, ANALYSIS + "values", "Ranges.read", "self.is_settled(access, path)", "True"),
    (bounds, ANALYSIS + "values", "_is_done", "loop.variable in same for", "True for"),
    (bounds, ANALYSIS + "maxima", "_instance", "values is None or", "values is None and"),
    (bounds, ANALYSIS + "solving", "_is_proved", " or {text} >= {high}", ""),
    (counts, ANALYSIS + "cost", "_Counting.expression", "(*conditions, (condition, False))", "conditions"),
    (counts, ANALYSIS + "cost", "_union", "np.unique(np.concatenate(", "list(np.concatenate("),
    (counts, ANALYSIS + "footprint", "_mask", "exact = False", "exact = True"),
]


@pytest.mark.parametrize(("net", "module", "name", "right", "wrong"), PLANTED)
def test_a_planted_error_is_caught(net: Callable[[], None], module: str, name: str, right: str, wrong: str) -> None:
    with planted(module, name, right, wrong), pytest.raises(AssertionError):
        net()


def test_nothing_is_left_of_a_planted_error() -> None:
    text = "in A_8;out C_8;L^8_i[C_i=A_i;]"
    with planted(CHECK + "names", "is_variable_name", "return bool", "return not bool"):
        assert [d.code for d in check(parse(text))] == ["reserved-name"]
    assert check(parse(text)) == ()
    assert cost(parse(text)).flops.value == 0
