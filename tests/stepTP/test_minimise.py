"""Planted faults are shrunk to what they need, and nothing else is called a failure."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from leir.check import check
from leir.parser import parse
from leir.printer import to_text
from stepTP.minimise.edits import moved_step, pruned, unwrapped, with_parts, with_programs, without
from stepTP.minimise.extents import smaller
from stepTP.minimise.failing import RUNS, Outcome, Trial
from stepTP.minimise.reductions import REDUCTIONS, chunks, fewer_inputs
from stepTP.minimise.rows import NothingFails, recorded, subjects
from stepTP.minimise.search import Budget, Search
from stepTP.minimise.subject import Inputs, Subject, SubjectError, read_subject, size_of
from stepTP.records import RejectedRow, Step
from stepTP.verify.pool import Pool
from strategies.catalog import strategies
from tests.stepTP.planted import TASKS, Planted

SOFTMAX = """in A_{4,6},Q_{4,6};out C_{4,6},D_4;
L^{4,6}_{i,j}[E_{i,j}=A_{i,j}*0.5;]
L^{4,6}_{i,j}[F_i max=E_{i,j};]
L^{4,6}_{i,j}[G_i+=exp(E_{i,j}-F_i);]
L^{4,6}_{i,j}[C_{i,j}=exp(E_{i,j}-F_i)/G_i;]
L^{4,6}_{i,j}[D_i+=sqrt(abs(Q_{i,j}));]
"""
SUM = """in A_{4,6},Q_{4,6},H_{4,6};out C_{4,6};
L^{4,6}_{i,j}[E_{i,j}=A_{i,j}*0.5;]
L^{4,6}_{i,j}[C_{i,j}=(E_{i,j}+Q_{i,j}+H_{i,j})/3.0;]
"""
OVERFLOW = """in A_8,Q_{8,4};out C_4,D_8;
L^{8,4}_{i,j}[D_i+=exp(Q_{i,j});]
L^4_i[E_i=A_{(i*9223372036854775807)//9223372036854775807};]
L^4_i[C_i=E_i*2.0;]
"""
BUDGET = Budget(2000, 500)
SPLIT_SUM = Step(strategy="loop_split", args={"path": [2, 0], "factor": 3})
UNROLL = Step(strategy="loop_unrolling", args={"path": [0, 0], "kind": "unrolled"})


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(2, timeout_s=60, tasks=TASKS) as made:
        yield made


def minimised(pool: Pool, fault: str, subject: Subject | str, budget: Budget = BUDGET, at_once: int = 2) -> Search:
    given = read_subject(subject, "given") if isinstance(subject, str) else subject
    trial = Trial(Planted(pool, fault), ("llvm",))
    outcome = trial.outcome(given)
    assert outcome.failing is not None, outcome.why
    search = Search(trial, given, outcome, budget, at_once)
    search.run(REDUCTIONS)
    return search


def test_a_wrong_lowering_is_one_call(pool: Pool) -> None:
    search = minimised(pool, "wrong_exp", SOFTMAX)
    assert (search.failing.stage, search.failing.cause, search.failing.target) == ("run", "wrong-result", "llvm")
    assert to_text(search.best.program).endswith("\nG=exp(0);\n") and len(search.best.program.body) == 1
    assert not search.stopped and check(search.best.program) == ()


def test_a_crash_costs_its_candidate_alone(pool: Pool) -> None:
    search = minimised(pool, "crash_at_sqrt", SOFTMAX)
    assert (search.failing.stage, search.failing.cause, search.failing.where) == ("lower", "crash", "killed by SIGABRT")
    assert search.best.text == "in Q;out D;\nD=sqrt(0);\n"


def test_a_crash_while_it_runs_is_another_failure_than_one_while_it_is_compiled(pool: Pool) -> None:
    search = minimised(pool, "crash_of_large_runs", "in A_4;out C_4;\nL^4_i[C_i=A_i*2.0;]\n")
    assert (search.failing.stage, search.failing.cause, search.failing.where) == ("run", "crash", "killed by SIGABRT")
    assert search.best.text == "in A_3;out C;\nC=0;\n"


def test_a_reasoning_that_cannot_be_written(pool: Pool) -> None:
    subject = Subject(parse(SOFTMAX), (SPLIT_SUM,), narrated="0123456789abcdef")
    search = minimised(pool, "exp_is_unspeakable", subject)
    assert (search.failing.stage, search.failing.cause) == ("narrate", "bug-lookup-error")
    assert search.best.narrated == subject.narrated
    assert len(search.best.program.body) == 1 and "exp(" in search.best.text


def test_a_diagnostic_stays_and_no_other_joins_it(pool: Pool) -> None:
    search = minimised(pool, "nothing", OVERFLOW)
    assert (search.failing.stage, search.failing.cause, search.failing.target) == ("check", "integer-overflow", None)
    assert {d.code for d in check(search.best.program)} == {"integer-overflow"}
    size = size_of(search.best)
    assert len(search.best.program.body) == 1 and size.nodes <= 12, search.best.text


def test_a_wrong_diagnostic_is_not_exchanged_for_a_right_one(pool: Pool) -> None:
    """The interpreter runs the program all the same, so it does the smallest: `0%0` would be reported rightly."""
    program = "in A_8,Q_8;out C_8;\nL^8_i[D_i=Q_i;]\nL^8_i[C_i=A_{(i*3+1)%8}+D_i;]\n"
    search = minimised(pool, "remainders_by_large_numbers_are_doubted", program)
    assert (search.failing.cause, search.failing.where) == ("divisor-maybe-zero", RUNS)
    assert "%4" in search.best.text and size_of(search.best).nodes <= 9, search.best.text
    right = minimised(pool, "nothing", program.replace("%8", "%(i-1)"))
    assert (right.failing.cause, right.failing.where) == ("divisor-maybe-zero", "")


def test_inputs_that_nothing_reads_go_though_dead_code_stays(pool: Pool) -> None:
    program = parse("in A_4,Q_4,H_4;out C_4;\nL^4_i[D_i=Q_i;]\nL^4_i[C_i=1.0;]\n")
    search = minimised(pool, "nothing", OVERFLOW, Budget(0, 500))
    search.best = Subject(program, against=program)
    (found,) = fewer_inputs(search)
    assert found.program == found.against == replace(program, inputs=program.inputs[1:2])


def test_a_wrong_step_is_shrunk_with_its_program(pool: Pool) -> None:
    """The step stays one step, whose place follows the statements that are left out."""
    search = minimised(pool, "split_swaps_differences", Subject(parse(SOFTMAX), (SPLIT_SUM,)))
    assert search.failing.cause == "wrong-result"
    (step,) = search.best.steps
    assert (step.strategy, step.args) == ("loop_split", {"path": [0], "factor": 2})
    assert to_text(search.best.program) == "in F;out G;\nL^3_j[G=0-1;]\n"


def test_of_a_trajectory_the_steps_that_matter_stay(pool: Pool) -> None:
    search = minimised(pool, "split_swaps_differences", Subject(parse(SOFTMAX), (UNROLL, SPLIT_SUM)))
    assert [step.strategy for step in search.best.steps] == ["loop_split"]
    assert "U^" not in search.best.text


def test_bits_that_a_step_loses(pool: Pool) -> None:
    step = Step(strategy="loop_split", args={"path": [1, 0], "factor": 3})
    search = minimised(pool, "split_regroups", Subject(parse(SUM), (step,)))
    assert (search.failing.stage, search.failing.cause) == ("run", "not-bit-exact")
    assert to_text(search.best.program) == "in Q,H,E;out C;\nL^3_j[C=E+Q+H;]\n"


def test_a_bug_of_a_strategy_whatever_it_proposes(pool: Pool) -> None:
    """Such a row says only which strategy it was: the step that trips is found too. The bug is the same where the same
    function raises it."""
    program = parse(SOFTMAX.replace("*0.5", "*0.5+tanh(Q_{i,j})"))
    search = minimised(pool, "split_trips_over_tanh", Subject(program, (Step(strategy="loop_split", args={}),)))
    assert (search.failing.stage, search.failing.cause) == ("step", "bug-key-error")
    assert search.failing.where == "facts in planted.py"
    assert [s.args.get("path") for s in search.best.steps] != [None]
    assert "tanh" in search.best.text and len(search.best.program.body) == 1


def test_two_programs_are_only_changed_together(pool: Pool) -> None:
    wrong = SUM.replace("/3.0", "/3.0-H_{i,j}")
    search = minimised(pool, "nothing", Subject(parse(wrong), against=parse(SUM)))
    assert search.best.against is not None and len(search.best.program.body) == 1
    last, other = search.best.program.body[-1], search.best.against.body[-1]
    assert last != other
    assert (search.best.program.inputs, search.best.program.outputs) == (
        search.best.against.inputs,
        search.best.against.outputs,
    )
    assert "/3.0-H" in to_text(search.best.program) and "/3.0;" in to_text(search.best.against)


def test_the_number_of_workers_changes_nothing(pool: Pool) -> None:
    alone = minimised(pool, "nothing", OVERFLOW, at_once=1)
    many = minimised(pool, "nothing", OVERFLOW, at_once=5)
    assert (alone.best.text, alone.trials, alone.failing.message) == (many.best.text, many.trials, many.failing.message)


def test_what_is_smallest_stays_as_it_is(pool: Pool) -> None:
    first = minimised(pool, "nothing", OVERFLOW)
    again = minimised(pool, "nothing", first.best.text)
    assert again.best == first.best


def test_a_spent_budget_leaves_what_fails_the_same_way(pool: Pool) -> None:
    search = minimised(pool, "nothing", OVERFLOW, Budget(trials=3, seconds=500))
    assert (search.trials, search.stopped) == (3, "3 trials")
    assert Trial(pool).outcome(search.best).failing == search.failing
    none = minimised(pool, "nothing", OVERFLOW, Budget(trials=100, seconds=0))
    assert (none.trials, none.stopped, none.best.text) == (0, "0 s", read_subject(OVERFLOW, "given").text)


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (Subject(parse(SUM)), "it computes what it should"),
        (Subject(parse(SUM), (SPLIT_SUM,)), "loop_split is refused"),
        (Subject(parse(SUM), (Step(strategy="loop_spilt", args={"path": [0]}),)), "no strategy is called"),
        (Subject(parse(SUM), against=parse(SOFTMAX)), "different signatures"),
        (Subject(parse(SUM), (Step(strategy="loop_split", args={}),)), "no step that the strategy proposes fails"),
    ],
)
def test_what_does_not_fail(pool: Pool, subject: Subject, why: str) -> None:
    outcome = Trial(pool).outcome(subject)
    assert outcome.failing is None and why in outcome.why


def test_the_interpreter_is_a_target(pool: Pool) -> None:
    assert Trial(pool, ("interpreter",)).outcome(Subject(parse(SUM))) == Outcome(
        None, "interpreter: it computes what it should", states=(SUM,)
    )


@pytest.mark.slow
def test_a_timeout_is_that_of_its_stage() -> None:
    with Pool(1, timeout_s=3, tasks=TASKS) as pool:
        search = minimised(pool, "hang_at_erf", "in A_2;out C_2;\nL^2_i[C_i=erf(A_i);]\n", Budget(0, 60), 1)
    assert (search.failing.stage, search.failing.cause, search.failing.target) == ("lower", "timeout", "llvm")


def test_text_says_all() -> None:
    subject = Subject(
        parse(SUM), (SPLIT_SUM, UNROLL), narrated="0123456789abcdef", inputs=Inputs(id="sum", seed=3, draws=2)
    )
    assert read_subject(subject.text, "given") == subject
    pair = Subject(parse(SUM), against=parse(SOFTMAX), bit_exact=True)
    assert read_subject(pair.text, "given") == pair


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("# step loop_split", 'given:1: no step: write {"strategy"'),
        ('# step {"strategy": "loop_split"}', "given:1: no step"),
        ('# inputs {"seed": -1}', "given:1: no inputs"),
        ("# narrated 0123456789abcdef", "given: # narrated is about a step"),
    ],
)
def test_lines_that_say_nothing(line: str, message: str) -> None:
    with pytest.raises(SubjectError) as error:
        read_subject(f"{line}\n{SUM}", "given")
    assert str(error.value).startswith(message)


def test_paths_follow_what_is_left_out() -> None:
    program = parse("in A_4;out C_4;\nL^4_i[D_i=A_i;E_i=D_i;]\nL^4_i[F_i=E_i;]\nL^4_i[C_i=F_i;]\n")
    parts, moves = without(program, [(0, 0), (1,)])
    assert [moves(path) for path in ((0,), (0, 0), (0, 1), (1,), (2,), (2, 0))] == [
        (0,), None, (0, 0), None, (1,), (1, 0),
    ]  # fmt: skip
    assert (parts[1], 2 in parts) == ((), False)
    parts, moves = unwrapped(program, (0,))
    assert len(parts[0]) == 2
    assert [moves(path) for path in ((0, 0), (0, 1), (1, 0), (2,))] == [(0,), (1,), (2, 0), (3,)]
    step = Step(strategy="online_softmax", args={"maximum": [1], "sum": [2, 0], "within": [0], "nests": [[1], [2]]})
    moved = moved_step(step, unwrapped(program, (0,))[1])
    assert moved is not None
    assert moved.args == {"maximum": [2], "sum": [3, 0], "within": [0], "nests": [[2], [3]]}
    assert moved_step(step, without(program, [(1,)])[1]) is None


def test_lists_of_numbers_in_arguments_are_paths_but_for_within() -> None:
    """What `moved_step` relies on holds for every strategy of the catalog."""
    for kind in strategies():
        for name, field in kind.model_fields.items():
            if field.annotation in (tuple[int, ...], tuple[tuple[int, ...], ...]) and name != "within":
                assert name in ("path", "other", "outer", "inner", "maximum", "sum", "along", "nests"), (
                    kind.name,
                    name,
                )


def test_dead_code_goes_with_its_inputs() -> None:
    program = replace(parse(SOFTMAX), outputs=parse(SOFTMAX).outputs[1:])
    left, moves = pruned(program)
    assert to_text(left) == "in Q_{4,6};out D_4;\nL^{4,6}_{i,j}[D_i+=sqrt(abs(Q_{i,j}));]\n"
    assert (moves((4,)), moves((0,))) == ((0,), None)


def test_sizes_shrink_where_they_are_tied() -> None:
    """A size of two matrices and of three loops is one size."""
    product = parse("in A_{8,12},D_{12,8};out C_{8,8};\nL^{8,8,12}_{i,j,k}[C_{i,j}+=A_{i,k}*D_{k,j};]\n")
    shown = [to_text(s.program) for s in smaller(Subject(product))]
    assert "in A_{8,6},D_{6,8};out C_{8,8};\nL^{8,8,6}_{i,j,k}[C_{i,j}+=A_{i,k}*D_{k,j};]\n" in shown
    assert all(check(parse(text)) == () for text in shown)


def test_numbers_that_are_sizes_follow_them() -> None:
    tiled = parse("in A_{32};out C_{32};\nL^{4,8}_{i,j}[C_{i*8+j}=A_{i*8+j};]\n")
    step = Step(strategy="loop_split", args={"path": [0, 0], "factor": 8})
    found = {(to_text(s.program), s.steps[0].args["factor"]) for s in smaller(Subject(tiled, (step,)))}
    assert ("in A_{16};out C_{16};\nL^{4,4}_{i,j}[C_{i*4+j}=A_{i*4+j};]\n", 4) in found


def test_an_edit_of_one_of_two_programs_is_none() -> None:
    subject = Subject(parse(SUM.replace("*0.5", "*0.25")), against=parse(SUM))
    assert list(with_parts(subject, {0: ()})) == []
    (both,) = with_parts(subject, {1: ()})
    assert both.against is not None and len(both.against.body) == 1


def test_later_steps_move_or_stay() -> None:
    subject = Subject(parse(SUM), (SPLIT_SUM, UNROLL))
    found = list(with_programs(subject, subject.program, None, lambda path: (path[0] + 1, *path[1:])))
    assert [[s.args["path"] for s in f.steps] for f in found] == [[[3, 0], [1, 0]], [[3, 0], [0, 0]]]


def test_chunks_are_halved_down_to_single_ones() -> None:
    assert list(chunks("abcde")) == ["abcde", "ab", "cd", "e", "a", "b", "c", "d", "e"]
    assert list(chunks("")) == []


def rejected(**columns: object) -> RejectedRow:
    given = {
        "split": "train",
        "held_out": None,
        "source_id": "sum",
        "family": "f",
        "depth": 1,
        "message": "",
        **columns,
    }
    return RejectedRow.model_validate({"id": "0" * 16, **given})


def test_what_rows_say() -> None:
    row = rejected(
        stage="verify", cause="wrong-result", leir_before=SUM, step=SPLIT_SUM, leir_after=SUM, state_id_before="s"
    )
    alone, pair = subjects(row, None, [], Inputs())
    assert (alone.steps, pair.steps, pair.against) == ((SPLIT_SUM,), (), parse(SUM))
    assert recorded(row).stages == ("check", "lower", "run")
    (narrated,) = subjects(row.model_copy(update={"stage": "narrate"}), None, [], Inputs())
    assert narrated.narrated is not None
    for stage, cause in (
        ("filter", "strategy-cap"),
        ("walk", "state-seen"),
        ("translate", "unsupported-op"),
        ("verify", "unverified"),
    ):
        with pytest.raises(NothingFails, match=cause):
            recorded(rejected(stage=stage, cause=cause))
