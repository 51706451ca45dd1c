"""The small decoder: text to tokens and back, names exchanged, decoding with a cache, training in slices, GRPO."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leir.canonical import state_id
from leir.parser import parse
from stepTP.answer import NotAnAnswer, read_answer, write_answer
from stepTP.evaluate.questions import EvaluationError, questions_of
from stepTP.learn.carrying import ANSWERS, TOLD, deliver, pack, restore, unpack
from stepTP.learn.decoding import Automaton, Constraint, Seen, decode
from stepTP.learn.examples import (
    Example,
    Form,
    batches,
    examples_of,
    exchanged,
    prompt_tokens,
    reply_text,
    with_other_answers,
)
from stepTP.learn.model import SIZES, Decoder, Shape
from stepTP.learn.reinforcement import GrpoPlan, Reinforcement, advantages
from stepTP.learn.training import Plan, Trainer
from stepTP.learn.trial import Parts, parts_of, replies_of, vocabulary_of
from stepTP.learn.vocabulary import BEGIN, END, LEIR, THINK, Vocabulary, lexemes
from stepTP.records import ProgramRow, Step, StepRow
from stepTP.rewards.shaping import Shaping
from stepTP.verify import Outcome, ScoreReport
from strategies.catalog import parse_step
from tests.stepTP.test_evaluate_metrics import report
from tests.stepTP.test_evaluate_single import row
from tests.stepTP.test_score import ONLINE, SOFTMAX, SPLIT

SUM = "in A_{4,8};out C_4;\nL^{4,8}_{i,j}[C_i+=A_{i,j};]\n"
STAGED = (
    "in A_{4,8},C_8;out D_{4,8};\nL^4_i[F^{f32,l}_8;L^8_l[F_l=A_{i,l};]L^8_j[E_{i,j}=F_j*2.0;]]\n"
    "L^{4,8}_{i,j}[D_{i,j}=E_{i,j}+C_j;]\n"
)
CHAIN = "in A_8;out C_8;\nL^8_i[D_i=A_i*2.0;]\nL^8_i[C_i=D_i+1.0;]\n"
STEPS: list[tuple[str, dict[str, Any]]] = [
    (SOFTMAX, SPLIT),
    (SOFTMAX, ONLINE),
    (SUM, {"strategy": "loop_split", "args": {"path": [0, 0], "factor": 4}}),
    (SUM, {"strategy": "loop_unrolling", "args": {"path": [0, 0], "kind": "unrolled"}}),
    (STAGED, {"strategy": "cache_read_write", "args": {"path": [1, 0], "tensor": "C", "scope": "l", "side": "read"}}),
    (CHAIN, {"strategy": "compute_inline", "args": {"tensor": "D"}}),
]


def after(state: str, step: dict[str, Any]) -> str:
    from leir.printer import to_text

    return to_text(parse_step(step).apply(parse(state)).program)


def made(number: int, state: str, step: dict[str, Any]) -> StepRow:
    told = {"leir_before": state, "leir_after": after(state, step), "args": step["args"], "reasoning": "A is read."}
    found = row(f"family{number % 3}", number, 0, step["strategy"]).model_copy(update=told)
    answer = write_answer(Step(**step), found.leir_after)
    return found.model_copy(update={"state_id_before": state_id(parse(state)), "answer": answer})


@pytest.fixture(scope="module")
def rows() -> list[StepRow]:
    return [made(n, state, step) for n, (state, step) in enumerate(STEPS)]


@pytest.fixture(scope="module")
def vocabulary(rows: list[StepRow]) -> Vocabulary:
    return vocabulary_of(rows * 3, Form(reasoning=True))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for each other take longer than one, for matrices so small
    yield
    torch.set_num_threads(before)


def decoder(vocabulary: Vocabulary, **sizes: Any) -> Decoder:
    torch.manual_seed(0)
    return Decoder(Shape(vocabulary.size, **{**SIZES["tiny"], **sizes})).eval()


@given(st.text(max_size=40))
@settings(max_examples=40)
def test_any_text_survives_its_tokens(text: str) -> None:
    vocabulary = Vocabulary({}, ["exp", "_{", " max"])
    assert "".join(lexemes(text)) == text
    if not any(0xD800 <= ord(letter) < 0xE000 for letter in text):  # half a surrogate is no UTF-8
        assert vocabulary.decode(vocabulary.encode(text)) == text


def test_names_and_numbers_are_one_token(vocabulary: Vocabulary) -> None:
    assert lexemes("D_i max=A1_{i,j}*2.5e-05;") == [
        "D",
        "_",
        "i",
        " max",
        "=",
        "A1",
        "_{",
        "i",
        ",",
        "j",
        "}*",
        "2.5e-05",
        ";",
    ]
    assert " ".join(lexemes("L^4_iU^8_{tx1}log1p(blockIdx)")) == "L ^ 4 _ i U ^ 8 _{ tx1 } log1p ( blockIdx )"
    assert len(vocabulary.encode("Q_{i,j}")) == 6
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))).word_ids == vocabulary.word_ids


def test_a_strategy_has_one_list_of_arguments() -> None:
    with pytest.raises(ValueError, match="loop_split has arguments"):
        Vocabulary.of([], [Step(**SPLIT), Step(strategy="loop_split", args={"path": []})])


@pytest.mark.parametrize("form", [Form(), Form(program=False), Form(reasoning=True)])
def test_an_answer_survives_its_tokens(rows: list[StepRow], vocabulary: Vocabulary, form: Form) -> None:
    for one, found in zip(rows, examples_of(rows, vocabulary, form), strict=True):
        text = reply_text(found.tokens[found.asked :].tolist(), one.leir_before, vocabulary)
        program = one.leir_after if form.program else None
        answer = write_answer(Step(strategy=one.strategy, args=one.args), program)
        assert text == ("<think>A is read.</think>" if form.reasoning else "") + answer
        assert found.tokens[: found.asked].tolist() == prompt_tokens(one.leir_before, vocabulary)


def test_lines_that_stay_are_one_token(rows: list[StepRow], vocabulary: Vocabulary) -> None:
    (found,) = examples_of(rows[:1], vocabulary, Form())
    said = found.tokens[found.asked :].tolist()
    program = said[said.index(LEIR) + 1 :]
    line = vocabulary.first_line
    assert [program[0], *program[-3:]] == [line, line + 2, line + 3, END]


def test_exchanged_names_give_the_exchanged_step(rows: list[StepRow], vocabulary: Vocabulary) -> None:
    """Ten other namings of each step: taken at the state they name, it gives the program that they name."""
    rng = np.random.default_rng(1)
    texts: set[str] = set()
    for found in examples_of(rows, vocabulary, Form()):
        for _ in range(10):
            tokens = exchanged(found, vocabulary.size, rng)
            state = vocabulary.decode(tokens[: found.asked])
            answer = read_answer(reply_text(tokens[found.asked :].tolist(), state, vocabulary))
            assert answer.leir is not None
            assert answer.step is not None
            taken = parse_step(answer.step.model_dump()).apply(parse(state)).program
            assert state_id(taken) == state_id(parse(answer.leir))
            texts.add(state)
    assert len(texts) > 50
    assert any("^{f32,l}" in text for text in texts)  # a scope is no loop, though a loop is called l


def test_words_that_look_like_names_stay(rows: list[StepRow], vocabulary: Vocabulary) -> None:
    (found,) = examples_of(rows[:1], vocabulary, Form(reasoning=True))
    for seed in range(5):
        tokens = exchanged(found, vocabulary.size, np.random.default_rng(seed))
        assert "A is read." in vocabulary.decode(tokens)


def test_the_control_has_answers_of_other_states(rows: list[StepRow], vocabulary: Vocabulary) -> None:
    examples = examples_of(rows, vocabulary, Form())
    control = with_other_answers(examples, vocabulary)
    said = [tuple(one.tokens[one.asked :]) for one in examples]
    other = [tuple(one.tokens[one.asked :]) for one in control]
    assert sorted(other) == sorted(said)
    assert all(a != b for a, b in zip(said, other, strict=True))
    assert all((a.tokens[: a.asked] == b.tokens[: b.asked]).all() for a, b in zip(examples, control, strict=True))


def test_an_epoch_has_every_example_once(rows: list[StepRow], vocabulary: Vocabulary) -> None:
    examples = examples_of(rows, vocabulary, Form())
    made = list(batches(examples, vocabulary, 200, 150, 7, keep_names=1.0, prompt_weight=0.25))
    lines = [tuple(line[line != 0]) for ids, _ in made for line in ids]
    assert sorted(lines) == sorted(tuple(e.tokens) for e in examples if len(e.tokens) <= 150)
    for ids, weights in made:
        assert ids.shape[1] % 16 == 0
        assert ids.size <= 200 + 16 * len(ids) or len(ids) == 1
        assert (weights[ids == 0] == 0).all()
        for line, weight in zip(ids, weights, strict=True):
            asked = next(e.asked for e in examples if tuple(e.tokens) == tuple(line[line != 0]))
            assert set(weight[:asked]) == {0.25} and set(weight[asked : (line != 0).sum()]) == {1.0}
    again = list(batches(examples, vocabulary, 200, 150, 7, keep_names=1.0, prompt_weight=0.25))
    assert all((a[0] == b[0]).all() for a, b in zip(made, again, strict=True))


def test_a_state_in_another_spelling_wants_the_step_alone(rows: list[StepRow], vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match="step alone"):
        Form(spelling="tir")
    form = Form(program=False, spelling="tir")
    shown = {one.leir_before: "T.max(T_1, A)\n" for one in rows}
    (found, *_) = examples_of(rows[:1], vocabulary, form, shown)
    assert vocabulary.decode(found.tokens[: found.asked]) == "T.max(T_1, A)\n"
    where = set(found.tokens[found.where].tolist())
    assert vocabulary.word_ids["T"] not in where and vocabulary.word_ids["A"] in where


def logits_of(model: Decoder, automaton: Automaton, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """Logits (length of the answer + 1, vocabulary) of what follows, without a cache, held to the automaton."""
    states = [automaton.start]
    for token in answer:
        states.append(int(automaton.moves[states[-1], token]))
    with torch.no_grad():
        logits = model.logits(model(torch.tensor([prompt + answer])))[0, len(prompt) - 1 :]
    return logits.masked_fill(~automaton.masks[states], float("-inf"))


def greedy(model: Decoder, automaton: Automaton, prompt: list[int], most: int) -> list[int]:
    """The likeliest tokens, each from the whole text before it."""
    answer: list[int] = []
    while len(answer) < most and END not in answer[-1:]:
        answer.append(int(logits_of(model, automaton, prompt, answer)[-1].argmax()))
    return answer


def test_the_cache_changes_no_token(rows: list[StepRow], vocabulary: Vocabulary) -> None:
    """Greedy decoding of a batch of prompts of different lengths, beside one token at a time without a cache."""
    model = decoder(vocabulary)
    examples = examples_of(rows, vocabulary, Form())
    automaton = Automaton(vocabulary, "free", True, Seen(examples, vocabulary))
    prompts = [e.tokens[: e.asked].tolist() for e in (examples[0], examples[2], examples[0])]
    found = decode(model, prompts, automaton, 12)
    assert found.tokens == [greedy(model, automaton, prompt, 12) for prompt in prompts]
    assert decode(model, [[BEGIN] * 3000], automaton, 5).tokens == [[]]  # no room is no answer


def test_what_was_drawn_has_the_logarithms_of_the_whole_text(rows: list[StepRow], vocabulary: Vocabulary) -> None:
    """Answers end at different steps and leave the batch; the last ones are as they would be alone."""
    model = decoder(vocabulary)
    examples = examples_of(rows, vocabulary, Form())
    automaton = Automaton(vocabulary, "leir", False, Seen(examples, vocabulary))
    prompts = [one.tokens[: one.asked].tolist() for one in examples for _ in range(8)]
    found, again = (
        decode(model, prompts, automaton, 100, 0.7, torch.Generator().manual_seed(5), batch=40) for _ in range(2)
    )
    assert found == again
    lengths = [len(tokens) for tokens in found.tokens]
    assert min(lengths) < 30 and sum(found.cut) in range(1, 40)
    for n, (prompt, answer, logs) in enumerate(zip(prompts, found.tokens, found.logarithms, strict=True)):
        assert found.cut[n] == (answer[-1] != END) and END not in answer[:-1]
        expected = (logits_of(model, automaton, prompt, answer[:-1]) / 0.7).log_softmax(-1)
        assert expected[range(len(answer)), answer].tolist() == pytest.approx(logs, abs=1e-4)  # -inf: not allowed
        states = [automaton.start]
        for token in answer[:-1]:
            states.append(int(automaton.moves[states[-1], token]))
        assert found.states[n] == states


def test_tokens_are_drawn_as_often_as_they_are_likely(vocabulary: Vocabulary) -> None:
    """Of five thousand answers of one token; the bound is four deviations of a share."""
    model = decoder(vocabulary)
    automaton = Automaton(vocabulary, "schema", True)
    count = 5000
    found = decode(model, [[BEGIN]] * count, automaton, 1, 0.8, torch.Generator().manual_seed(0), batch=count)
    likely = (logits_of(model, automaton, [BEGIN], [])[0] / 0.8).softmax(-1)
    shares = torch.bincount(torch.tensor(found.tokens)[:, 0], minlength=vocabulary.size) / count
    assert ((shares - likely).abs() <= 4 * (likely * (1 - likely) / count).sqrt()).all()


@pytest.mark.parametrize("constraint", ["schema", "leir"])
def test_constrained_answers_have_the_answers_form(
    rows: list[StepRow], vocabulary: Vocabulary, constraint: Constraint
) -> None:
    """An untrained decoder at temperature 1: every answer that ends has a strategy with all of its arguments' keys."""
    model = decoder(vocabulary)
    examples = examples_of(rows, vocabulary, Form())
    seen = Seen(examples, vocabulary)
    for program in (True, False):
        automaton = Automaton(vocabulary, constraint, program, seen)
        generator = torch.Generator().manual_seed(3)
        found = decode(model, [examples[0].tokens[: examples[0].asked].tolist()] * 40, automaton, 60, 1.0, generator)
        ends = [tokens for tokens, cut in zip(found.tokens, found.cut, strict=True) if not cut]
        keys = {token: key for key, token in vocabulary.key_ids.items()}
        names = {token: name for name, token in vocabulary.strategy_ids.items()}
        for tokens in ends:
            told = tokens[tokens.index(next(t for t in tokens if t in names)) :]
            assert tuple(keys[t] for t in told if t in keys) == vocabulary.arguments[names[told[0]]]
            assert (LEIR in told) == program
        if constraint == "leir":
            assert ends or program
            for tokens in found.tokens:
                strategy = next((names[t] for t in tokens if t in names), "")
                key = ""
                for token in tokens[: tokens.index(LEIR)] if LEIR in tokens and THINK not in tokens else []:
                    key = keys.get(token, key)
                    assert not key or token in keys or token in seen.values[strategy, key]


def test_what_is_no_answer_stays_none(vocabulary: Vocabulary) -> None:
    split, path = vocabulary.strategy_ids["loop_split"], vocabulary.key_ids["path"]
    for ids in ([], [END], vocabulary.encode("hello"), [split, path, *vocabulary.encode("[0"), END]):
        with pytest.raises(NotAnAnswer):
            read_answer(reply_text(ids, SUM, vocabulary))
    beyond = [split, path, *vocabulary.encode("[0]"), LEIR, vocabulary.first_line + 9, END]
    assert read_answer(reply_text(beyond, SUM, vocabulary)).leir == "# no line 9\n"


@pytest.fixture(scope="module")
def trained(rows: list[StepRow], vocabulary: Vocabulary) -> tuple[Trainer, list[Example]]:
    examples = examples_of(rows, vocabulary, Form())
    chosen = [examples[2], examples[3], examples[5]]
    plan = Plan(steps=90, batch_tokens=1000, rate=5e-3, warm_up=10, keep_names=1.0, prompt_weight=0.0)
    trainer = Trainer(vocabulary, Shape(vocabulary.size, **SIZES["tiny"]), plan, "cpu")
    trainer.train(chosen)
    return trainer, chosen


@pytest.mark.slow
def test_it_learns_what_it_is_shown(
    rows: list[StepRow], vocabulary: Vocabulary, trained: tuple[Trainer, list[Example]]
) -> None:
    trainer, examples = trained
    losses = [loss for _, _, loss in trainer.progress.losses]
    assert losses[0] > 4 and losses[-1] < 0.05
    assert trainer.progress.step == 90
    shown = [rows[2], rows[3], rows[5]]
    questions = questions_of(shown, {})
    automaton = Automaton(vocabulary, "schema", True, Seen(examples, vocabulary))
    replies = replies_of(trainer.model, vocabulary, automaton, questions, 80, Form())
    answers = {(one.leir_before, one.answer) for one in shown}
    assert all((q.task.state, r.text) in answers for q, r in zip(questions, replies, strict=True))
    assert all(r.completion_tokens is not None and r.completion_tokens < 80 for r in replies)


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["free", "schema", "leir"])
def test_a_trained_decoder_says_the_same_in_a_batch(
    rows: list[StepRow], vocabulary: Vocabulary, trained: tuple[Trainer, list[Example]], constraint: Constraint
) -> None:
    """Six states, each under six namings: the tokens that each would get alone, without a cache."""
    trainer, _ = trained
    examples = examples_of(rows, vocabulary, Form())
    rng = np.random.default_rng(2)
    prompts = [exchanged(e, vocabulary.size, rng)[: e.asked].tolist() for e in examples for _ in range(6)]
    automaton = Automaton(vocabulary, constraint, True, Seen(examples, vocabulary))
    model = trainer.model.eval()
    found = decode(model, prompts, automaton, 40)
    assert found.tokens == [greedy(model, automaton, prompt, 40) for prompt in prompts]
    assert sum(found.cut) < 30


def test_slices_give_what_one_run_gives(rows: list[StepRow], vocabulary: Vocabulary, tmp_path: Path) -> None:
    examples = examples_of(rows, vocabulary, Form())
    plan = Plan(steps=6, batch_tokens=300, warm_up=2)
    shape = Shape(vocabulary.size, **{**SIZES["tiny"], "dropout": 0.2})
    whole = Trainer(vocabulary, shape, plan, "cpu")
    whole.train(examples)
    part = Trainer(vocabulary, shape, plan, "cpu")
    for _ in range(6):
        part.train(examples, seconds=0.0)
        part.save(tmp_path)
        part = Trainer.load(tmp_path, "cpu")
    part.train(examples)  # the plan is done
    assert part.progress.step == whole.progress.step == 6
    assert part.progress.epoch >= 1
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, part.model.state_dict()[name]), name
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_decoder_survives_small_files(vocabulary: Vocabulary, rows: list[StepRow], tmp_path: Path) -> None:
    """In bf16, and without the optimiser's state: close to what it was, and ready to go on."""
    trainer = Trainer(vocabulary, Shape(vocabulary.size, **SIZES["tiny"]), Plan(steps=2, batch_tokens=300), "cpu")
    trainer.train(examples_of(rows, vocabulary, Form()))
    (tmp_path / "decoder.part.99").write_bytes(b"of another")
    files = pack(trainer, tmp_path, 100_000)
    assert sorted(tmp_path.iterdir()) == files and len(files) > 2
    assert all(file.stat().st_size <= 100_000 for file in files)
    again = unpack(tmp_path, "cpu")
    assert (again.progress, again.plan, again.vocabulary.words) == (
        trainer.progress, trainer.plan, trainer.vocabulary.words,
    )  # fmt: skip
    for name, weight in trainer.model.state_dict().items():
        assert torch.allclose(weight, again.model.state_dict()[name], rtol=2**-8, atol=0), name


@pytest.mark.parametrize("stage", ["reasoning", "grpo"])
def test_a_course_is_restored_from_what_it_delivered(vocabulary: Vocabulary, tmp_path: Path, stage: str) -> None:
    """With all rounds where their decoder came along, and none where it did not."""
    folder, out, other = (tmp_path / name for name in ("folder", "out", "other"))
    out.mkdir()
    before, after = (
        Trainer(vocabulary, Shape(vocabulary.size, **SIZES["tiny"]), Plan(steps=9, batch_tokens=300, seed=n), "cpu")
        for n in range(2)
    )
    before.save(folder / "reasoning")
    told: dict[str, dict[str, Any]] = {
        "about": {}, "trained": {"reasoning": 1}, "evaluated": {"reasoning-seen": 3, "grpo-seen": 4},
        "grpo": {"rounds": [1], "seconds": 2.0},
    }  # fmt: skip
    (folder / TOLD).write_text(json.dumps(told))
    names = [f"{kind}-{exam}.jsonl" for kind in ("replies", "scores") for exam in told["evaluated"]]
    for name in names:
        (folder / name).write_text('{"text": "\\u00e9"}\n{"text": "b"}\n')
    if stage == "grpo":
        after.save(folder / "grpo")
    deliver(folder, out, "reasoning")
    restore(out, other, "reasoning")
    trainer = Trainer.load(other / stage, "cpu")
    assert trainer.plan.seed == (stage == "grpo")
    found = json.loads((other / TOLD).read_text())
    if stage == "grpo":
        assert (found["grpo"], found["evaluated"]) == (told["grpo"], told["evaluated"])
    else:
        assert (found["grpo"], found["evaluated"]) == ({}, {"reasoning-seen": 3})
        names = [name for name in names if "grpo" not in name]
    assert found["trained"] == told["trained"]
    assert sorted(file.name for file in other.glob("*.jsonl")) == sorted(names)
    assert all((other / name).read_text() == (folder / name).read_text() for name in names)
    for file in (out / TOLD, out / ANSWERS):
        file.unlink()
    restore(out, tmp_path / "bare", "reasoning")
    assert [file.name for file in (tmp_path / "bare").iterdir()] == ["reasoning"]
    (out / ANSWERS).write_bytes(gzip.compress(b'{"exam": "../../a", "kind": "scores"}'))
    with pytest.raises(EvaluationError, match=r"no examination gives scores of \.\./\.\./a"):
        restore(out, tmp_path / "never", "reasoning")
    with pytest.raises(FileNotFoundError, match=r"no decoder\.part\.00"):
        restore(tmp_path, tmp_path / "never", "reasoning")


def test_a_plan_ends(vocabulary: Vocabulary, rows: list[StepRow]) -> None:
    with pytest.raises(ValueError, match="give budget_s or steps"):
        Plan()
    trainer = Trainer(vocabulary, Shape(vocabulary.size, **SIZES["tiny"]), Plan(steps=1, longest=8), "cpu")
    with pytest.raises(ValueError, match="raise `longest`"):
        trainer.train(examples_of(rows, vocabulary, Form()))


def test_families_are_parted_as_the_run_says_or_by_share(rows: list[StepRow]) -> None:
    plain = [one.model_copy(update={"split": "train", "held_out": None}) for one in rows]
    parts = parts_of(plain, {}, 0.3)
    assert len(parts.families) == 1
    assert not {one.source.family for one in parts.learnt} & set(parts.families)
    assert len(parts.learnt) + len(parts.held_out) == len(rows)
    told = [
        one.model_copy(update={"split": split, "held_out": held})
        for one, split, held in zip(
            rows,
            ["train", "train", "test", "test", "validation", "train"],
            [None, None, "family", "program", "program", None],
            strict=True,
        )
    ]  # fmt: skip
    parts = parts_of(told, {})
    assert (len(parts.learnt), len(parts.held_out), len(parts.known)) == (3, 1, 2)
    with pytest.raises(EvaluationError, match="two are needed"):
        parts_of([one for one in plain if one.source.family == "family0"], {})


def test_rows_of_other_runs_are_learnt_from_but_for_what_is_held_out(rows: list[StepRow]) -> None:
    there, held, known = rows[0], rows[1], rows[2]
    held = held.model_copy(update={"split": "test", "held_out": "family"})
    known = known.model_copy(update={"split": "test", "held_out": "program"})
    program = ProgramRow.model_construct(id=known.source.id, structure="5" * 16)
    parts = Parts((there,), (held,), (known,), {known.source.id: program})

    def another(name: str, **changes: Any) -> StepRow:
        source = there.source.model_copy(update={"id": name, "family": changes.pop("family", "another")})
        return there.model_copy(update={"id": name, "source": source, "structure": name, **changes})

    new = another("new", split="validation")
    more = [
        new, there, another("family", family=held.source.family), another("step", structure=held.structure),
        another("other step", structure=known.structure), another("program"),
    ]  # fmt: skip
    programs = {"program": program, "new": ProgramRow.model_construct(id="new", structure="6" * 16)}
    found = parts.with_more(more, programs)
    assert found.learnt == (there, new)
    assert (found.held_out, found.known) == (parts.held_out, parts.known)
    assert sorted(found.programs) == sorted({*programs, known.source.id})


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [([0.0, 1.0], [-1, 1]), ([0.4] * 3, [0, 0, 0]), ([0, 0, 0, 4], [-1 / 3**0.5] * 3 + [3**0.5])],
)
def test_advantages(rewards: list[float], expected: list[float]) -> None:
    assert advantages(rewards) == pytest.approx(expected)


class Prefers:
    """A scorer by which one strategy alone is legal, and every answer of it equal."""

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy
        self.asked: list[tuple[str, str, bool]] = []

    def score_many(self, answers: Any, *, measure: bool = False) -> list[ScoreReport]:
        found: list[ScoreReport] = []
        for text, task in answers:
            self.asked.append((text, task.state, measure))
            name = json.loads(text)["strategy"] if text.startswith("{") else None
            if name == self.strategy:
                told = report("parsed", "well_formed", "legal", "lowers", "runs", "equal", strategy=name)
                speed = {"speedup": Outcome(status="pass"), "speedup_vs_state": 2.0} if measure else {}
                found.append(told.model_copy(update=speed))
            else:
                found.append(report(*(("parsed",) if name else ()), strategy=name))
        return found


@pytest.mark.slow
def test_grpo_moves_towards_what_is_rewarded(
    rows: list[StepRow], vocabulary: Vocabulary, trained: tuple[Trainer, list[Example]]
) -> None:
    """Of two answers to one state that a decoder knows, the one that is rewarded becomes the likelier."""
    trainer, _ = trained
    model = decoder(vocabulary)
    model.load_state_dict(trainer.model.state_dict())
    questions = questions_of([rows[2]], {})
    automaton = Automaton(vocabulary, "schema", True)
    scorer = Prefers("loop_unrolling")
    plan = GrpoPlan(states=1, samples=12, updates=1, most=60, rate=1e-3, batch_tokens=2000, timed=1)
    run = Reinforcement(model, vocabulary, automaton, questions, scorer, plan)
    told: list[dict[str, Any]] = []
    history = run.run(rounds=8, told=told.append)
    assert told == history
    first, last = (sum(h["equal"] for h in part) / 3 for part in (history[:3], history[-3:]))
    assert first < 0.8
    assert last > first + 0.2, history
    assert any(measure for *_, measure in scorer.asked)
    assert len(set(scorer.asked)) == len(scorer.asked)  # nothing is scored twice
    assert max(h["reward"] for h in history) <= 1
    assert run.expected_s > 0
    assert run.run(seconds=0.0) == history  # a round that would not end in time is not begun


@pytest.mark.slow
def test_shared_rewards_move_less_where_all_answers_are_alike(
    rows: list[StepRow], vocabulary: Vocabulary, trained: tuple[Trainer, list[Example]]
) -> None:
    questions = questions_of([rows[2]], {})
    automaton = Automaton(vocabulary, "schema", True)
    rounds: list[dict[str, Any]] = []
    for shaping in (Shaping(), Shaping(shared=True)):
        model = decoder(vocabulary)
        model.load_state_dict(trained[0].model.state_dict())
        plan = GrpoPlan(states=1, samples=48, updates=1, most=60, batch_tokens=2000, shaping=shaping)
        rounds += Reinforcement(model, vocabulary, automaton, questions, Prefers("loop_unrolling"), plan).run(rounds=1)
    (alone, shared), right = rounds, round(rounds[0]["equal"] * 48)
    assert right > 1 and shared["equal"] == alone["equal"]
    assert alone["reward"] - shared["reward"] == pytest.approx(0.4 * (right - 1) / 48, abs=1e-3)


@pytest.mark.slow
def test_rounds_in_two_calls_give_what_one_call_gives(
    rows: list[StepRow], vocabulary: Vocabulary, trained: tuple[Trainer, list[Example]]
) -> None:
    """The optimiser's moments come along; its rates do not: a checkpoint of training has others."""
    questions = questions_of([rows[2], rows[3]], {})
    plan = GrpoPlan(states=2, samples=8, most=60, rate=1e-3, batch_tokens=2000)

    def begun(weights: dict[str, torch.Tensor]) -> Reinforcement:
        model = decoder(vocabulary)
        model.load_state_dict(weights)
        automaton = Automaton(vocabulary, "schema", True)
        return Reinforcement(model, vocabulary, automaton, questions, Prefers("loop_unrolling"), plan)

    whole, first = (begun(trained[0].model.state_dict()) for _ in range(2))
    whole.run(rounds=3)
    first.run(rounds=2)
    second = begun(first.model.state_dict())
    for group in first.optimiser.param_groups:
        group["lr"] = 1.0
    second.go_on(first.history, first.optimiser)
    second.run(rounds=3)
    plain = [[{**h, "seconds": None} for h in one.history] for one in (whole, second)]
    assert plain[0] == plain[1] and sum(h["used"] for h in whole.history[1:]) > 0
    assert all(0 <= h["clipped"] < 0.5 for h in whole.history)
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name


def test_grpo_needs_states(vocabulary: Vocabulary) -> None:
    automaton = Automaton(vocabulary, "free", True, Seen([], vocabulary))
    with pytest.raises(ValueError, match="needs states"):
        Reinforcement(decoder(vocabulary), vocabulary, automaton, [], Prefers(""), GrpoPlan())
