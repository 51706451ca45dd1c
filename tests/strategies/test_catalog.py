"""The catalog, steps as JSON, and what `apply` holds every strategy to."""

import importlib.metadata
import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from leir.edit import replace_at
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Program
from strategies import catalog, index
from strategies.base import BitExact, Fact, Level, Refused, Strategy, describe_at, placeholders, usable
from strategies.catalog import StepError, names, parse_step, print_step, strategies, strategy
from strategies.index import LEVELS
from tests.strategies.walks import PATTERNS

ROOT = Path(__file__).parent.parent.parent
ALGEBRA = {  # the arguments of each, beyond the place
    "factorization": ("factor",), "expand_factorization": ("over",), "cancellation": ("of",),
    "expand_cancellation": ("by",), "together": ("over",), "apart": ("by",), "collect": ("by",),
    "expand_collect": ("by",),
}  # fmt: skip
ORDER = {"collect": {"order": "nested"}}
COPY = "in A_8;out C_8; L^8_i[C_i=A_i;]"


def test_every_strategy_has_its_page_and_its_words() -> None:
    for each in strategies():
        assert each.summary() and each.level in LEVELS and each.bit_exact in ("always", "never", "depends")
        page = each.page()
        parts = [
            page.index(part) for part in ("    Before", "    After", "\nLegal when:", "\nPays when:", "\nInverse:")
        ]
        assert parts == sorted(parts)
        for kind in ("choice", "change", "effect"):
            assert len(getattr(each, kind)) >= 2, f"{each.name}: `{kind}` needs another sentence"


def test_a_list_says_what_the_classes_say() -> None:
    shown = [index.Entry(each.name, each.level, each.bit_exact, each.summary()) for each in strategies()]
    assert list(index.entries()) == shown


def test_the_page_of_the_catalog_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "catalog.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["page"](), "run python scripts/catalog.py"


def test_listing_imports_no_library_of_an_analysis() -> None:
    heavy = ("islpy", "sympy", "lark", "tvm", "torch", "numpy", "leir.check")
    code = f"""
import sys
from strategies.catalog import strategies
from strategies.index import entries
print(entries(), [(s.name, s.level, s.bit_exact, s.summary()) for s in strategies()])
print([name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_steps_print_and_parse() -> None:
    steps = [step for text in PATTERNS for each in strategies() for step in each.candidates(parse(text))]
    assert {step.name for step in steps} == set(names())
    for step in steps:
        assert parse_step(print_step(step)) == step == parse_step(step.to_json())


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("[", "JSON"),
        ("3", "with no other key"),
        ('{"strategy": "loop_split"}', "with no other key"),
        ('{"strategy": 1, "args": {}}', '"strategy" is a name'),
        ('{"strategy": "loop_split", "args": []}', '"args" an object'),
        ('{"strategy": "loop_spilt", "args": {}}', "no strategy is called 'loop_spilt': did you mean 'loop_split'?"),
        ('{"strategy": "zzz", "args": {}}', "`steptp strategies list` shows them; is its package installed?"),
        ('{"strategy": "loop_split", "args": {"path": [0]}}', "factor: Field required"),
        ('{"strategy": "loop_split", "args": {"path": [0], "factor": 1}}', "factor: "),
        ('{"strategy": "loop_split", "args": {"path": [0], "factor": "4"}}', "factor: "),
        ('{"strategy": "loop_split", "args": {"path": ["a"], "factor": 4}}', "path.0: "),
        ('{"strategy": "loop_split", "args": {"path": [0], "factor": 4, "first": 1}}', "first: "),
        ('{"strategy": "set_storage_scope", "args": {"tensor": "D", "scope": "x"}}', "scope: "),
    ],
)
def test_bad_steps_say_what_is_wrong(step: str, message: str) -> None:
    with pytest.raises(StepError) as found:
        parse_step(step)
    assert message in str(found.value) and "\n" not in str(found.value)


class Doubling(Strategy):
    """A strategy of another package: it removes the first statement, which only some programs can do without."""

    name: ClassVar[str] = "first_doubling"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice = change = effect = ("The first statement goes.", "What is first goes.")
    keep: bool = False
    crash: bool = False

    @classmethod
    def candidates(cls, program: Program) -> Iterator["Doubling"]:  # noqa: ARG003
        yield cls()

    def facts(self, program: Program) -> Iterator[Fact]:  # noqa: ARG002
        yield Fact("has-a-statement", True, "one")
        if self.crash:
            raise ZeroDivisionError

    def rewrite(self, program: Program) -> Program:
        return program if self.keep else replace_at(program, (0,))


def test_a_step_that_changes_nothing_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        Doubling(keep=True).apply(parse(COPY))
    assert refused.value.fact.name == "changes-the-program"
    assert [fact.name for fact in refused.value.held] == ["has-a-statement"]


def test_an_ill_formed_result_is_refused_by_its_diagnostic() -> None:
    program = parse("in A_8;out C_8; D^{i32,g}_8; L^8_i[D_i=i;] L^8_i[C_i=A_{D_i};]")
    with pytest.raises(Refused) as refused:
        Doubling().apply(program)
    assert refused.value.fact.name == "stays-well-formed" and refused.value.step == Doubling()
    assert refused.value.fact.evidence.startswith("subscript-not-integer: ")


def test_a_crash_is_not_a_refusal() -> None:
    with pytest.raises(ZeroDivisionError):
        Doubling(crash=True).apply(parse(COPY))


def test_a_legal_step_comes_with_its_facts() -> None:
    applied = Doubling().apply(parse("in A_8;out C_8; L^8_i[C_i=2.0;] L^8_i[C_i=A_i;]"))
    assert to_text(applied.program) == "in A_8;out C_8;\nL^8_i[C_i=A_i;]\n" and applied.bit_exact
    assert [fact.name for fact in applied.facts] == ["has-a-statement", "changes-the-program", "stays-well-formed"]


def test_strategies_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("first_doubling", f"{__name__}:Doubling", index.ENTRY_POINTS)
    monkeypatch.setattr(index, "entry_points", lambda group: [point] if group == index.ENTRY_POINTS else [])
    caches = (index.outside, index.names, catalog.strategy)
    for cached in caches:
        cached.cache_clear()
    try:
        assert names()[-1] == "first_doubling" and strategy("first_doubling").name == "first_doubling"
        assert index.entries()[-1] == index.Entry("first_doubling", "graph", "always", Doubling.summary())
        assert parse_step('{"strategy": "first_doubling", "args": {"keep": true}}').to_json()["args"]["keep"] is True
    finally:
        monkeypatch.undo()
        for cached in caches:
            cached.cache_clear()
    assert "first_doubling" not in names()


def test_arguments_may_address_anything() -> None:
    """A step made for another program is refused, whatever it asks for: it never crashes."""
    programs = [
        parse(text)
        for text in (
            COPY,
            "in A_{4,6};out C_4; L^{4,6}_{i,j}[D_i max=A_{i,j};]L^{4,6}_{i,j}[C_i+=exp(A_{i,j}-D_i);]",
            "in A_{4,6};out C_{4,6}; L^4_i(i<9)[D^{f32,l}_6;L^6_j[D_j=A_{i,j};]L^6_j[C_{i,j}=D_j;]]",
        )
    ]
    paths = [(), (0,), (0, 0), (0, 0, 0), (1,), (0, 0, 1), (0, 0, 1, 0), (7,), (-1,)]
    steps: list[Strategy] = [strategy("loop_split")(path=path, factor=3) for path in paths]  # pyright: ignore[reportCallIssue]
    for path in paths:
        steps += [strategy("operator_fusion")(path=path, depth=depth) for depth in (1, 5)]  # pyright: ignore[reportCallIssue]
        steps += [strategy("operator_fission")(path=path, depth=depth, at=at) for depth in (1, 5) for at in (1, 7)]  # pyright: ignore[reportCallIssue]
        steps += [strategy(name)(path=path) for name in ("dead_code_elimination", "expression_reorder")]  # pyright: ignore[reportCallIssue]
        steps.append(strategy("loop_fusion")(path=path))  # pyright: ignore[reportCallIssue]
        steps += [
            strategy("loop_tiling")(outer=path, inner=inner, outer_tile=2, inner_tile=3)  # pyright: ignore[reportCallIssue]
            for inner in paths
        ]
        for name, kind in (("loop_parallelization", "parallel"), ("loop_unrolling", "unrolled"), ("loop_binding", "tx"),
                           ("loop_vectorization", "vectorised")):  # fmt: skip
            steps += [strategy(name)(path=path, kind=kind) for kind in (kind, "serial")]  # pyright: ignore[reportCallIssue]
        steps += [strategy("tensor_split_to_decouple_operators")(path=path, axis=axis, at=3) for axis in ("i", "j", "")]  # pyright: ignore[reportCallIssue]
        steps += [
            strategy("tensor_concat_to_fuse_operators")(path=path, other=other, axis=axis)  # pyright: ignore[reportCallIssue]
            for other in paths
            for axis in ("i", "")
        ]
        steps += [strategy("loop_reorder")(outer=path, inner=inner) for inner in paths]  # pyright: ignore[reportCallIssue]
        steps += [
            strategy("partially_equivalent_then_correct")(nests=(path, other), along=along)  # pyright: ignore[reportCallIssue]
            for other in paths
            for along in ((0,), (0, 0), (7,))
        ]
        for within in ((), (0,), (1,), (1, 0), (1, 0, 1), (7,)):
            for value in ("D_i", "A_{i,0}", "A_{i,j}", "C", "Z", ")"):
                at = {"path": path, "within": within, "value": value}
                steps += [strategy(name)(**at) for name in ("additive_split", "exponential_split")]
                steps += [strategy("multiplicative_split")(**at, first=first) for first in ("divide", "multiply")]  # pyright: ignore[reportCallIssue]
        steps += [strategy("online_softmax")(maximum=path, sum=second) for second in paths]  # pyright: ignore[reportCallIssue]
        steps += [
            strategy(name)(path=path)  # pyright: ignore[reportCallIssue]
            for name in (
                "normal_loop_max_to_prefix_max",
                "normal_loop_summation_on_exp_to_prefix_summation_on_exp",
            )
        ]
        steps += [strategy("flashattention_wo_tiling")(path=path, block=block) for block in (0, 1, 7)]  # pyright: ignore[reportCallIssue]
        steps += [strategy("reduction_factorization")(path=path, tensor=t, parts=2) for t in "ACD"]  # pyright: ignore[reportCallIssue]
        steps += [
            strategy("expression_splitting")(path=path, within=within, before=before)  # pyright: ignore[reportCallIssue]
            for within in ((), (0,), (1,), (1, 0), (7,))
            for before in (1, 9)
        ]
        for name, arguments in ALGEBRA.items():
            steps += [
                strategy(name)(path=path, within=within, **dict.fromkeys(arguments, text), **ORDER.get(name, {}))  # pyright: ignore[reportCallIssue]
                for within in ((), (0,), (1,), (1, 0), (7,))
                for text in ("A_i", "")
            ]
        steps += [
            strategy(name)(path=path, within=within, identity=identity, of="A_i", other="")  # pyright: ignore[reportCallIssue]
            for name in ("powsimp", "expand_powsimp", "logsimp", "expand_log")
            for within in ((), (0,), (1,), (1, 0), (7,))
            for identity in ("exp-of-sum", "")
        ]
        steps += [
            strategy("common_subexpression_elimination")(path=path, within=within, before=before, places=2)  # pyright: ignore[reportCallIssue]
            for within in ((), (0,), (1,), (1, 0), (7,))
            for before in (1, 9)
        ]
        steps += [strategy("precompute_indices")(path=path, within=within) for within in ((), (1,), (1, 0), (7,))]  # pyright: ignore[reportCallIssue]
        steps += [
            strategy("cache_read_write")(path=path, tensor=tensor, scope=scope, side=side)  # pyright: ignore[reportCallIssue]
            for tensor in ("A", "C", "Z")
            for scope in "sl"
            for side in ("read", "write")
        ]
    for tensor in ("A", "C", "D", "Z", ""):
        changes = [
            (op, axis, by) for op in ("swap", "split", "merge", "pad") for axis, by in ((0, 1), (-1, 2), (1, -3))
        ]
        steps += [
            strategy("set_storage_layout")(tensor=tensor, op="fold", axis=axis, by=by)  # pyright: ignore[reportCallIssue]
            for axis, by in ((0, 1), (-1, 2), (1, -3), (1, 2))
        ]
        for op, axis, by in changes:
            steps.append(strategy("set_storage_layout")(tensor=tensor, op=op, axis=axis, by=by))  # pyright: ignore[reportCallIssue]
            steps += [
                strategy("layout_transformation")(at=at, tensor=tensor, op=op, axis=axis, by=by)  # pyright: ignore[reportCallIssue]
                for at in (-1, 0, 9)
            ]
        steps.append(strategy("compute_inline")(tensor=tensor))  # pyright: ignore[reportCallIssue]
        steps += [strategy("set_storage_scope")(tensor=tensor, scope=scope) for scope in "gsl"]  # pyright: ignore[reportCallIssue]
    outcomes = {"applied": 0, "refused": 0}
    for program in programs:
        for step in steps:
            try:
                step.apply(program)
                outcomes["applied"] += 1
            except Refused as refused:
                assert refused.fact.evidence
                outcomes["refused"] += 1
    assert min(outcomes.values()) > 5


def test_sentences_and_their_terms() -> None:
    sentences = ("{a} and {b}.", "Only {a}.", "Nothing.")
    assert placeholders(sentences[0]) == ("a", "b")
    assert usable(sentences, {"a": "x"}) == ("Only x.", "Nothing.")
    assert describe_at(parse(COPY), (0,)) == "(0) is the L loop i of 8"
    assert json.loads(print_step(Doubling())) == {"strategy": "first_doubling", "args": {"keep": False, "crash": False}}


def test_entry_points_are_the_standard_ones() -> None:
    assert index.entry_points is importlib.metadata.entry_points
