"""Reasoning says only what is there, gives the step back, keeps its length, and differs in structure."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from leir.parser import parse
from leir.printer import to_text
from stepTP.expand import expand
from stepTP.narrate.call import NotACall, call_text, parse_call
from stepTP.narrate.compose import LENGTH, compose, length
from stepTP.narrate.context import Context, RefusedStep, gather
from stepTP.narrate.decision import choice, legality
from stepTP.narrate.describe import purpose
from stepTP.narrate.difference import changes, diff_text
from stepTP.narrate.ground import ungrounded
from stepTP.narrate.next_step import next_step
from stepTP.narrate.numbers import measure
from stepTP.narrate.outcome import change, effect, lines_text
from stepTP.narrate.part import Form, capitals
from stepTP.narrate.recover import recover_step
from stepTP.narrate.shorten import SHOWN, shortened, shortened_apart
from stepTP.narrate.situation import bottleneck, state
from stepTP.narrate.task import computed, explain
from stepTP.narrate.variety import masked, variety
from stepTP.records import FactRecord, Step, row_id
from stepTP.tokens import count_tokens
from strategies.base import Refused
from strategies.catalog import names, parse_step
from strategies.grid import DEFAULT
from tests.programs import random_text

SOFTMAX = """in A_{16,512};out C_{16,512};
L^{16,512}_{i,j}[D_i max=A_{i,j};]
L^{16,512}_{i,j}[E_i+=exp(A_{i,j}-D_i);]
L^{16,512}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]
"""
LINEAR = """in A_{64,128},W_{128,32},X_{32};out C_{64,32};
L^{64,32,128}_{i,j,k}[D_{i,j}+=A_{i,k}*W_{k,j};]
L^{64,32}_{i,j}[E_{i,j}=D_{i,j}+X_j;]
L^{64,32}_{i,j}[C_{i,j}=max(E_{i,j},0.0);]
"""


# nests of declarations alone, subscripts without variables, loops of one iteration and from elsewhere, scalars
UNUSUAL = {
    "declarations": """in A_{8,4};out C_{8,4};
L^{8,4}_{i,j}[D_{i,j}=A_{i,j}+1.0;]
L^8_i[S^{f32,l};]
L^{2,4}_{i,j}(i*4+j<7)[G^{f32,l};H^{f32,l};]
U^8_i[T^{f32,l};]
B^8_{bx}[R^{f32,s}_8;]
L^{8,4}_{i,j}[C_{i,j}=D_{i,j}*A_{i,j};]
""",
    "constant subscripts": """in A_{2,8,6};out C_{2,8,6};
L^{2,8,6}_{i,j,k}[H_{i,j,k//2,k%2}=A_{i,j,k};]
L^{2,8}_{i,j}[E_{i,j,0}=tanh(H_{i,j,0//2,0%2});]
L^{2,8,5}_{i,j,k}[E_{i,j,k+1}=min(E_{i,j,k},tanh(H_{i,j,(k+1)//2,(k+1)%2}));]
L^{2,8,6}_{i,j,k}[C_{i,j,k}=log(E_{i,j,k}*E_{i,j,k}+1.0);]
""",
    "constants alone": """in A_{4,6};out C_6;
E_0=A_{2*1,3+1};
E_1=A_{1,5//2}*2.0;
L^6_j[C_j=E_{3//2}*A_{7%4,j}+E_{0*1};]
""",
    "one iteration": """in A_{1,8,1};out C_{1,8};
L^{1,8,1}_{i,j,k}[D_{i,j}+=A_{i,j,k};]
L^{1,1}_{i,k}[E_i=D_{i,k}*2.0;]
L^{1,8}_{i,j}[C_{i,j}=D_{i,j}+E_i;]
""",
    "parts of an output": """in A_{10,9};out C_{10,9};
L^{10,9}_{i,j}[C_{i,j}=A_{i,j};]
L^{8,6}_{i=2,j=3}[D_{i,j}=A_{i,j}*A_{i-2,j-3};]
L^{8,6}_{i=2,j=3}[C_{i,j}=D_{i,j}+1.0;]
L^{2,1}_{i=1,j=8}[C_{i,j}=A_{i-1,j-1};]
""",
    "scalars": """in A_8,W;out C,D;
L^8_i[S+=A_i;]
L^8_i[T max=A_i;]
C=S*W+T;
E=exp(W-T);
D=E*S+E;
""",
}


def context_of(step: dict[str, Any]) -> Context:
    """What the sections speak of, for a step of `steps_of`."""
    refused = (
        RefusedStep(Step(strategy=r["strategy"], args=r["args"]), FactRecord(**r["fact"])) for r in step["refused"]
    )
    return gather(
        key=step["id"],
        before=step["before"],
        step=Step(**step["step"]),
        bit_exact=step["bit_exact"],
        facts=tuple(FactRecord(**fact) for fact in step["facts"]),
        after=step["after"],
        others=tuple(Step(**other) for other in step["others"]),
        refused=tuple(refused),
        grid=DEFAULT,
    )


def steps_of(text: str, seed: int = 0, per_strategy: int = 3) -> list[dict[str, Any]]:
    """Legal steps of a program as `explain` takes them."""
    asked = {"leir": text, "seed": seed, "source": "test", "strategies": list(names()), "per_strategy": per_strategy}
    found = expand({**asked, "attempts": 8, "wanted": None, "always": [], "grid": {}, "earlier": [], "back": []})
    refused = [{"strategy": r["strategy"], "args": r["args"], "fact": r["facts"][-1]} for r in found["refusals"]]

    def step(data: dict[str, Any]) -> dict[str, Any]:
        return {"strategy": data["strategy"], "args": data["args"]}

    return [
        {
            "id": row_id(text, s["leir"], str(seed)),
            "grid": {},
            "before": text,
            "step": step(s),
            "bit_exact": s["bit_exact"],
            "facts": s["facts"],
            "after": s["leir"],
            "others": [step(o) for o in found["steps"] if o is not s],
            "refused": refused,
            "count_tokens": "none",
        }
        for s in found["steps"]
    ]


@pytest.fixture(scope="module")
def explained() -> list[tuple[dict[str, Any], str]]:
    """Steps of two plain programs and of random ones, with their reasoning; each is checked as it is made."""
    texts = [SOFTMAX, LINEAR, *(to_text(parse(random_text(seed))) for seed in range(5))]
    return [(step, explain(step)["reasoning"]) for n, text in enumerate(texts) for step in steps_of(text, n)]


def test_every_step_is_recovered(explained: list[tuple[dict[str, Any], str]]) -> None:
    assert len(explained) > 40
    for step, reasoning in explained:
        recovered = recover_step(reasoning, parse(step["before"]))
        assert recovered is not None and recovered.to_json() == step["step"]


def test_lengths(explained: list[tuple[dict[str, Any], str]]) -> None:
    counts = [count_tokens(reasoning) for _, reasoning in explained]
    assert sum(counts) / len(counts) < LENGTH
    assert sorted(counts)[int(len(counts) * 0.95)] <= LENGTH * 1.1
    for (_, reasoning), tokens in zip(explained, counts, strict=True):
        assert length(reasoning) == pytest.approx(tokens, rel=0.15)


def test_texts_differ_in_structure(explained: list[tuple[dict[str, Any], str]]) -> None:
    found = variety((step["step"]["strategy"], reasoning) for step, reasoning in explained)
    assert found["distinct_masked"] > 0.98 * len(explained)
    assert found["near_duplicate_rate"] < 0.02
    assert len({masked(reasoning).split(".")[0] for _, reasoning in explained}) >= 15  # openings


@pytest.mark.parametrize(
    ("section", "orders"),
    [(state, 8), (choice, 8), (legality, 8), (change, 8), (effect, 5)],  # most effects say themselves what bits do
)
def test_a_section_has_eight_forms(section: Callable[[Context], tuple[Form, ...]], orders: int) -> None:
    told = [section(context_of(step)) for text in (SOFTMAX, LINEAR) for step in steps_of(text)]
    assert min(map(len, told)) >= 8
    assert max(len({tuple(part.text for part in form if part.text) for form in forms}) for forms in told) >= orders


def test_what_stands_ahead_of_the_step_does_not_point_to_it() -> None:
    back = re.compile(r"Beside it|Legal too|Also legal|as well\.|Left for later|Another way on|\) instead\.|, too\.")
    told = [form for step in steps_of(SOFTMAX) for form in choice(context_of(step))]
    ahead = [" ".join(part.text for part in form).partition("`") for form in told]
    assert [text for text, _, _ in ahead if back.search(text)] == []
    assert any(back.search(text) for _, _, text in ahead)


def test_one_loop_is_no_loops() -> None:
    text = "in A_8;out C_8;\nL^8_i[D_i=A_i+1.0;]\nL^8_i[C_i=D_i*A_i;]\n"
    told = {part.text for step in steps_of(text) for form in state(context_of(step)) for part in form}
    assert "Its loop is i of 8." in told
    assert any(", in loop i of 8." in said for said in told)
    assert [said for said in told if re.search(r"[Ll]oops (?:are )?i of", said)] == []


def one_step(text: str, call: str) -> dict[str, Any]:
    """A legal step as `explain` takes it."""
    before, step = parse(text), parse_call(call)
    applied = parse_step(step.model_dump()).apply(before)
    facts = [{"name": fact.name, "holds": fact.holds, "evidence": fact.evidence} for fact in applied.facts]
    return {
        "id": row_id(text, call),
        "before": to_text(before),
        "step": step.model_dump(),
        "bit_exact": applied.bit_exact,
        "facts": facts,
        "after": to_text(applied.program),
        "others": [],
        "refused": [],
        "grid": {},
        "count_tokens": "none",
    }


def test_a_declaration_is_no_nest() -> None:
    text = LINEAR.replace("L^{64,32}_{i,j}[E", "E^{f32,g}_{64,33};\nL^{64,32}_{i,j}[E")
    step = one_step(text, 'set_storage_layout(tensor="E", op="pad", axis=1, by=1)')
    told = {part.text for form in state(context_of(step)) for part in form}
    assert any(said.startswith("This is about statement 1, in a program of 3 nests") for said in told)
    assert [said for said in told if "statement 1, one of" in said] == []


def test_an_only_nest_is_no_part_of_one() -> None:
    step = one_step("in A_8,W_8;out C_8;\nL^8_i[C_i=A_i*W_i;]\n", "loop_split(path=(0), factor=2)")
    told = {part.text for form in state(context_of(step)) for part in form}
    assert "From A and W to C there is 1 nest, of 8 equation instances." in told
    assert [said for said in told if "one of 1 nest" in said] == []


def test_what_reaches_no_output_does_not_contribute() -> None:
    dead = "L^{16,512}_{i,j}[F_{i,j}=C_{i,j}*2.0;]\nG=D_0;\n"
    for text, expected in ((SOFTMAX, set[str]()), (SOFTMAX + dead, {"Nest 3 and statement 4 do not contribute to C."})):
        told = {part.text for form in state(context_of(steps_of(text)[0])) for part in form}
        assert {said for said in told if "contribute" in said} == expected


def test_an_equation_without_a_loop_is_no_nest() -> None:
    numbers = measure(parse(UNUSUAL["constants alone"]))
    assert (numbers.nests_text(), numbers.instances_text()) == ("1 nest and 2 equations", "8 equation instances")
    assert measure(parse(SOFTMAX)).nests_text() == "3 nests"


def test_a_refusal_is_told_without_the_code_of_a_check() -> None:
    fact = FactRecord(name="flow-preserved", holds=False, evidence="writer-differs: A_0 is written by nothing")
    refused = (RefusedStep(Step(strategy="loop_fusion", args={"path": [0]}), fact),)
    context = replace(context_of(steps_of(SOFTMAX)[0]), refused=refused)
    told = {part.text for n in range(16) for form in choice(replace(context, key=str(n))) for part in form}
    assert any("A_0 is written by nothing" in said for said in told)
    assert not any("writer-differs" in said for said in told)


def test_facts_that_are_too_long_are_told_by_name() -> None:
    facts = tuple(FactRecord(name=f"fact-{n}", holds=True, evidence="long " * 200) for n in "abc")
    context = replace(context_of(steps_of(SOFTMAX)[0]), facts=facts)
    assert "What holds: fact-b and fact-c." in compose(context, at_last=True)


def test_of_equal_expressions_it_is_said_which_one_changes() -> None:
    text = "in A_8,C_8,D_8;out E_8;\nL^8_i[E_i=if_then_else(A_i>0.0,A_i*C_i+A_i*D_i,exp(A_i*C_i+A_i*D_i));]\n"
    for within, number in (("1,1", 1), ("1,2,0", 2)):
        step = one_step(text, f'factorization(path=(0,0), within=({within}), factor="A_i")')
        told = {part.text for form in change(context_of(step)) for part in form}
        assert f"Of 2 places of A_i*C_i+A_i*D_i in the equation, only number {number} changes." in told
    told = {part.text for form in change(context_of(steps_of(SOFTMAX)[0])) for part in form}
    assert not any("places of" in said for said in told)


def test_what_the_step_takes_away_is_not_left_for_later() -> None:
    calls = ('loop_unrolling(path=(2,0), kind="unrolled")', "loop_split(path=(0), factor=2)")
    step = one_step(SOFTMAX, "loop_fusion(path=(2))")
    for others, later in ((calls, False), (calls[1:], True)):
        context = replace(context_of(step), others=tuple(map(parse_call, others)))
        keys = (replace(context, key=f"key {number}") for number in range(64))
        told = {part.text for each in keys for form in choice(each) for part in form}
        assert any(said.startswith("Left for later") for said in told) is later


def test_a_sentence_begins_with_a_capital() -> None:
    assert capitals("the pair goes. by moves out, i in. of Q, neither waits. is it legal? no.") == (
        "The pair goes. by moves out, i in. Of Q, neither waits. Is it legal? no."
    )
    assert capitals('path-is-a-loop holds: it is. compute_inline(tensor="A") is legal.')[:4] == "path"


def test_a_fact_that_begins_with_its_verb_is_its_evidence() -> None:
    facts = (FactRecord(name="has-one-equation", holds=True, evidence="A has one equation"),)
    told = {part.text for form in legality(replace(context_of(steps_of(SOFTMAX)[0]), facts=facts)) for part in form}
    assert "A has one equation." in told and not any("It has" in said for said in told)


def test_of_many_findings_the_first_are_told() -> None:
    step = steps_of(SOFTMAX)[0]
    found = "; ".join(f"A_{{i,{n}}} is in [-{n}, {n}]" for n in range(30))
    step["facts"] = [{"name": "stays-in-range", "holds": True, "evidence": found}]
    (fact,) = context_of(step).facts
    assert fact.evidence.startswith("A_{i,0} is in [-0, 0]; A_{i,1}") and fact.evidence.endswith("; and 21 more")


def test_a_text_that_cannot_be_spared_says_less_at_last() -> None:
    gate = "0.7978845608028654*(A_{i,j}*D_i+0.044715*(A_{i,j}*D_i)*(A_{i,j}*D_i)*(A_{i,j}*D_i))"
    text = f"in A_{{4,8}},D_4;out C_{{4,8}};\nL^{{4,8}}_{{i,j}}[C_{{i,j}}=0.5*(A_{{i,j}}*D_i)*(1.0+tanh({gate}));]\n"
    step = one_step(text, f'expand_factorization(path=(0,0,0), within=(1), over="1.0+tanh({gate})")')
    context, shorter = context_of(step), replace(context_of(step), key="key")
    long = replace(shorter, change=("Words " * 300 + "end.",), effect=("Words " * 300 + "bits.",))
    assert length(compose(context, at_last=True)) <= LENGTH < length(compose(long))
    assert length(compose(long, at_last=True)) <= LENGTH
    assert length(explain(step)["reasoning"]) <= LENGTH


def test_traffic_that_moves_by_less_than_its_text_shows_does_not_stay() -> None:
    text = "in A_{64,512};out C_{64,512};\nL^2_i[D_i=A_{i,0};]\nL^{64,512}_{i,j}[C_{i,j}=A_{i,j}+1.0;]\n"
    context = context_of(one_step(text, "dead_code_elimination(path=(0))"))
    old, new = context.numbers_before, context.numbers_after
    assert old.traffic == new.traffic + 16 and old.traffic_text() == new.traffic_text()
    for key in map(str, range(16)):
        said = " ".join(part.text for form in effect(replace(context, key=key)) for part in form)
        assert "traffic" not in said.lower() and "perations" in said


def test_arguments_may_hold_braces() -> None:
    context = replace(context_of(steps_of(SOFTMAX)[0]), step=Step(strategy="loop_split", args={"of": "E_{i,j}"}))
    for form in choice(context):
        assert " ".join(part.text for part in form).count('`loop_split(of="E_{i,j}")`') == 1
        assert all("#" not in part.text for part in form)


def test_the_bottleneck_has_eight_forms() -> None:
    told = [bottleneck(context_of(step)) for text in (SOFTMAX, LINEAR) for step in steps_of(text)]
    assert len({part.text for forms in told for form in forms for part in form}) >= 8
    assert min(map(len, told)) >= 2


def test_masking_leaves_the_words() -> None:
    text = "Loop i at (0,1) has 8 iterations. It is `loop_split(path=(0,1), factor=4)`, not loop_fusion(path=(0))."
    assert masked(text) == "Loop # at # has # iterations. It is #, not #."


def test_near_duplicates_are_found() -> None:
    texts = [
        ("s", "A is 1. B is 2."),
        ("s", "C is 7. D is 9."),
        ("t", "A is 1. B is 2."),
        ("s", "Other words. B is 2."),
    ]
    found = variety(texts)
    assert (found["distinct_masked"], found["compared"], found["near_duplicates"]) == (2, 4, 1)


@pytest.mark.parametrize("text", UNUSUAL.values(), ids=UNUSUAL)
def test_every_form_can_be_told_of_unusual_programs(text: str) -> None:
    steps = steps_of(text, per_strategy=2)
    assert len({step["step"]["strategy"] for step in steps}) >= 5
    for step in steps:
        context = context_of(step)
        for section in (state, bottleneck, choice, legality, change, effect):
            for form in section(context):
                said = " ".join(part.text for part in form)
                assert ungrounded(said, step["before"], step["after"], computed(context)) == ()
                assert not re.search(r"\b0 equations?\b|\.\.|: \.|, \.|None", said), said


@pytest.mark.parametrize("call", ['loop_unrolling(path=(1), kind="unrolled")', 'loop_binding(path=(2), kind="by")',
                                  "loop_split(path=(1), factor=2)", "dead_code_elimination(path=(2))"])  # fmt: skip
def test_a_nest_of_declarations_is_explained(call: str) -> None:
    step = one_step(UNUSUAL["declarations"], call)
    for number in range(12):
        reasoning = explain({**step, "id": f"{step['id']}{number}"})["reasoning"]
        assert re.search(r"\bdeclares (?:S\b|G and H\b)", reasoning)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb\nc\nd\n", "a\nx\nc\ny\n", "Only lines 2 and 4 change."),
        ("a\nb\nc\n", "a\nx\nc\n", "Only line 2 changes."),
        ("a\nb\nc\nd\n", "a\nx\ny\nd\n", "Only lines 2 and 3 change."),
        ("a\nb\nc\n", "a\nb\nx\nc\n", "A statement is new after line 2."),
        ("a\nb\nc\n", "a\nc\n", "Line 2 goes."),
        ("a\nb\nc\nd\n", "a\nx\nd\n", "Lines 2 and 3 become one line."),
        ("a\nb\nc\n", "a\nx\ny\nc\n", "Line 2 becomes 2 lines."),
        ("a\nb\nc\nd\n", "a\nd\nb\nc\n", "Line 4 moves up, to follow line 1."),
        ("a\nb\nc\nd\n", "a\nc\nd\nb\n", "Line 2 moves down, to follow line 4."),
    ],
)
def test_changed_lines_in_words(before: str, after: str, expected: str) -> None:
    assert lines_text(changes(before, after), quoting=False) == expected


@pytest.mark.parametrize(
    ("nest", "expected"),
    [
        ("L^{8,4}_{i,j}[D_i+=A_{i,j};]", "sums A_{i,j} over j into D"),
        ("L^8_i[S^{f32,l};L^4_j[S+=A_{i,j};]D_i=S;]", "sums A_{i,j} over j into S and sets D to S"),
        ("L^8_i[S=0.0;L^4_j[S+=A_{i,j};]D_i=S;]", "sets S to 0.0, sums A_{i,j} over j into S and has 1 more equation"),
        ("L^{8,4}_{i,j}[S max=A_{i,j};]", "takes the maximum of A_{i,j} over i and j into S"),
        ("L^8_i[S^{f32,l};]", "declares S"),
        ("L^8_i(i<4)[S^{f32,l}_2;L^4_j[T^{f32,l};]]", "declares S and T"),
        ("S^{f32,g}_8;", "declares S"),
    ],
)
def test_what_a_nest_does(nest: str, expected: str) -> None:
    program = parse(f"in A_{{8,4}};out D_8;\n{nest}\n")
    assert purpose(program.body[0]) == expected


def test_long_expressions_are_shortened() -> None:
    inner = "+".join(f"A_{{i,{n}}}*exp(C_{{i//4,(i+{n})%4}})" for n in range(6))
    assert shortened(f"tanh({inner})*2.0 is E_{{i}}") == "tanh(…)*2.0 is E_{i}"
    assert shortened(f"max(1.0+tanh({inner}),0.0)") == "max(1.0+tanh(…),0.0)"
    again = "if_then_else(A_{i,j,k}>0.0,A_{i,j,k},A_{i,j,k}*0.1)"
    short = "if_then_else(…)"
    assert shortened(f"{again}*(1.0+0.04*{again}*{again})") == f"{short}*(1.0+0.04*{short}*{short})"
    assert shortened(f"exp({again})*log({again}+A_{{i,j,k}})") == "exp(if_then_else(…))*log(if_then_else(…)+A_{i,j,k})"
    texts = {"old": f"tanh({inner})", "new": f"tanh({inner}*2.0)", "path": "(0,0)"}
    found = shortened_apart(texts)
    assert found["path"] == "(0,0)" and found["old"] != found["new"]
    assert max(map(len, found.values())) <= 4 * SHOWN


def test_sentences_are_clean(explained: list[tuple[dict[str, Any], str]]) -> None:
    for _, reasoning in explained:
        assert not re.search(r"\.\.|  |\{name\}|: \.|, \.|None|nothing and|^\W", reasoning), reasoning
        assert all(paragraph[-1] == "." for paragraph in reasoning.split("\n\n")), reasoning


@pytest.mark.parametrize(
    ("text", "step", "expected"),
    [
        (LINEAR, "operator_fusion(path=(1), depth=2)", 'set_storage_scope(tensor="E", scope="l")'),
        (SOFTMAX.replace("16,512}_{i,j}[D", "512,16}_{j,i}[D"), "loop_reorder(outer=(0), inner=(0,0))",
         "operator_fusion(path=(0), depth=1)"),
        (SOFTMAX, "loop_split(path=(0,0), factor=8)", "loop_reorder(outer=(0,0), inner=(0,0,0))"),
        (SOFTMAX, 'loop_parallelization(path=(2), kind="parallel")', None),
    ],
)  # fmt: skip
def test_what_a_step_makes_possible(text: str, step: str, expected: str | None) -> None:
    before, taken = parse(text), parse_call(step)
    after = parse_step(taken.model_dump()).apply(before).program
    found = next_step("key", before, after, taken, changes(to_text(before), to_text(after)), DEFAULT)
    assert (found and call_text(found)) == expected
    if found:
        parse_step(found.model_dump()).apply(after)
        with pytest.raises(Refused):
            parse_step(found.model_dump()).apply(before)


@pytest.mark.parametrize(
    ("text", "step", "known"),
    [
        ("in A_{12,8,16};out C_{12,8,16};\nL^{12,8,16}_{i,j,k}[C_{i,j,k}=A_{i,j,k}+1.0;]\n",
         "loop_split(path=(0), factor=3)", "loop_reorder(outer=(0,0,0), inner=(0,0,0,0))"),
        ("in A_{12,8};out C_{12,8};\nL^{12,8}_{i,j}[C_{i,j}=A_{i,j}+1.0;]\n",
         'cache_read_write(path=(0,0), tensor="A", scope="l", side="read")',
         'loop_vectorization(path=(0,2), kind="vectorised")'),
    ],
)  # fmt: skip
def test_a_loop_that_moved_makes_no_new_step(text: str, step: str, known: str) -> None:
    before, taken = parse(text), parse_call(step)
    after = parse_step(taken.model_dump()).apply(before).program
    lines = changes(to_text(before), to_text(after))
    steps = [next_step(str(key), before, after, taken, lines, DEFAULT) for key in range(8)]
    assert known not in {call_text(found) for found in steps if found}
    parse_step(parse_call(known).model_dump()).apply(after)


def test_what_is_not_there_is_found() -> None:
    after = SOFTMAX.replace("16,512}_{i,j}[D", "512,16}_{j,i}[D")
    assert ungrounded("Nest 0 runs i and j over 16*512 into D.", SOFTMAX, after, []) == ()
    assert ungrounded("Nest 0 runs k over 77 into F.", SOFTMAX, after, []) == ("77", "F", "k")
    assert ungrounded("It takes 24576 iterations.", SOFTMAX, after, []) == ("24576",)
    assert ungrounded("It takes 24576 iterations.", SOFTMAX, after, ["24576"]) == ()
    assert ungrounded("A step by a half: `loop_split(path=(0), factor=77)`.", SOFTMAX, after, []) == ("77",)


@pytest.mark.parametrize(
    "args",
    [
        {"path": [0, 1], "factor": 8},
        {"path": [], "paths": [[0], [1, 2]], "scope": "s", "exact": True, "guard": None, "x": -1.5e-07},
        {"text": 'a "quoted" \\ (x), y=1'},
        {},
    ],
)
def test_calls_round_trip(args: dict[str, Any]) -> None:
    step = Step(strategy="loop_split", args=args)
    assert parse_call(call_text(step)) == step


@pytest.mark.parametrize(
    "text", ["", "x", "x(", "x(a)", "x(a=)", "x(a=1", "x(a=1)y", "x(a=(1)", "x(a=1 b=2)", "x(a=#)"]
)
def test_what_is_no_call(text: str) -> None:
    with pytest.raises(NotACall):
        parse_call(text)


@pytest.mark.parametrize(
    "text",
    [
        "No step here.",
        "`loop_split(path=(0), factor=2)` and `loop_split(path=(1), factor=2)`.",
        "`loop_split(path=(9), factor=2)`",
        "`loop_split(path=(0))`",
        "`loop_split(path=(0), factor=2`",
    ],
)
def test_no_step_is_made_up(text: str) -> None:
    assert recover_step(text, parse(SOFTMAX)) is None


def test_changes_by_line() -> None:
    (change,) = changes("a\nb\nc\n", "a\nx\ny\nc\n")
    assert (change.at, change.old, change.new) == (1, ("b",), ("x", "y"))
    assert diff_text("a\nb\n", "a\nx\n") == " a\n-b\n+x\n"
