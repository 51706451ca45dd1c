"""The six sections of a reasoning: state, bottleneck, choice, legality, change, effect.

Each function gives its section in several forms that differ in structure: what they begin with, what they put into one
sentence, what they leave to the reader. A form is a list of parts, each with how easily it can be spared, so that a
long text can be cut without breaking a sentence. Nothing is said that was not computed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from leir.edit import accesses, statement_at
from leir.syntax import Guard, Loop
from stepTP.draw import digest
from stepTP.narrate.call import call_text
from stepTP.narrate.context import Context, readers, temporaries, touched_operations
from stepTP.narrate.describe import kinds, loops_text, purpose
from stepTP.narrate.next_step import paths_of
from stepTP.narrate.numbers import StateNumbers, count_text, data_text, operations, short_text
from stepTP.records import FactRecord, Step
from strategies.base import counted, listed

LONG_EVIDENCE = 160  # characters of evidence that a sentence still carries
LONG_LINE = 90  # characters of a program's line that reasoning quotes
_WORD = re.compile(r"(?:[a-z]{3,}|an|no) ")  # a word that a sentence may begin with; a loop's name keeps its case


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence or two. `spare`: 0 where the text cannot do without; the largest goes first. `brief`: what is said
    instead of a part that goes."""

    text: str
    spare: int = 0
    brief: str = ""


Form = tuple[Part, ...]


def state(context: Context) -> tuple[Form, ...]:
    """What the program is, with a look at the statements that the step is about."""
    program, numbers = context.before, context.numbers_before
    ins = _names([d.tensor for d in program.inputs])
    outs = _names([d.tensor for d in program.outputs])
    inputs, outputs = (
        f"{word}{'s' * (len(names) > 1)}" for word, names in (("input", program.inputs), ("output", program.outputs))
    )
    nests = counted(len(numbers.nests), "nest")
    iterations = f"{count_text(numbers.cost.iterations)} iterations"
    first, *rest = (f"{sentence}." for sentence in _focus(context))
    more, use = [Part(sentence, 3) for sentence in rest], Part(_use(context), 7)
    return (
        (Part(f"The program computes {outs} from {ins} in {nests} and {iterations}. {first}"), *more, use),
        (Part(f"From {ins}, {nests} lead to {outs}. {first}"), *more, Part(f"In all, {iterations} run.", 8), use),
        (Part(first), *more, use, Part(f"That is part of {nests} ({iterations}) from {ins} to {outs}.", 2)),
        (Part(f"State: {nests}, {iterations}; {inputs} {ins}, {outputs} {outs}. {first}"), *more, use),
        (Part(f"To get {outs} from {ins} the program runs {iterations} in {nests}."), Part(first), *more, use),
    )


def bottleneck(context: Context) -> tuple[Form, ...]:
    """What the state spends, where, and what its loops leave unused."""
    numbers = context.numbers_before
    forms = [*_share(context), *_traffic(numbers), *_fetches(context), *_serial(context)]
    return tuple((Part(form, 2),) for form in forms) or ((),)


def choice(context: Context) -> tuple[Form, ...]:
    """Why this step, and what else there was."""
    why, least = _pick(context, "why", context.choice), min(context.choice, key=len)
    call = f"`{call_text(context.step)}`"

    def with_call(form: str) -> Part:
        return Part(form.format(why=why), 1, form.format(why=least))

    other = Part(_alternatives(context, 2), 4, _alternatives(context, 1))
    refused = Part(_refused(context), 3)
    return (
        (with_call(f"{{why}} The step is {call}."), other, refused),
        (with_call(f"The step taken is {call}. {{why}}"), other, refused),
        (other, with_call(f"{{why}} Hence {call}."), refused),
        (with_call("{why}"), refused, other, Part(f"The choice falls on {call}.")),
        (with_call(f"{{why}} This calls for {call}."), refused, other),
        (refused, with_call(f"Next comes {call}. {{why}}"), other),
    )


def legality(context: Context) -> tuple[Form, ...]:
    """Each precondition with its evidence."""
    facts = context.facts
    if not facts:
        return ((Part("It has no precondition but that the checker accepts the result, which it does."),),)
    close = Part("The checker accepts the program after it, with every claim of its loops.", 8)
    return (
        (Part("It is allowed here."), *_facts(facts, "{evidence} ({name})."), close),
        (Part("What must hold, holds."), *_facts(facts, "{Name}: {evidence}."), close),
        (*_facts(facts, "{Name}: {evidence}."), Part("So the step is legal.")),
        (Part("This is legal."), *_facts(facts, "{evidence} ({name})."), close),
        (Part("No precondition fails."), *_facts(facts, "{Name}: {evidence}.")),
    )


def change(context: Context) -> tuple[Form, ...]:
    """What becomes of the text, line by line."""
    what = Part(_pick(context, "change", context.change), 1, min(context.change, key=len))
    lines = Part(_lines(context, True), 6, _lines(context, False))
    return ((what, lines), (lines, what))


def effect(context: Context) -> tuple[Form, ...]:
    """What the step costs, saves and makes possible, as far as it can be computed."""
    effects = _pick(context, "effect", context.effect)
    brings = Part(effects, 1, min(context.effect, key=len))
    moved = Part(_moved(context.numbers_before, context.numbers_after), 1)
    enabled = Part(_enabled(context), 2)
    bits = "" if context.bit_exact else "The results agree within the rounding bound, not bit for bit."
    if "bit" in effects or "round" in effects:
        bits = ""
    return (
        (brings, moved, Part(bits), enabled),
        (moved, brings, Part(bits), enabled),
        (Part(bits), brings, moved, enabled),
        (brings, Part(bits), enabled, moved),
    )


def _focus(context: Context) -> list[str]:
    """One clause for each of the first three statements that the step changes."""
    return [_sentence(context, number) for number in context.touched[:3]] or [_sentence(context, 0)]


def _sentence(context: Context, number: int) -> str:
    statement = context.before.body[number]
    loops = loops_text(statement)
    word = "Nest" if isinstance(statement, Loop | Guard) else "Statement"
    return f"{word} {number}{f' ({loops})' if loops else ''} {purpose(statement)}"


def _use(context: Context) -> str:
    """Who reads what the touched statements produce."""
    for number in context.touched:
        for tensor in temporaries(context.before, context.before.body[number]):
            later = [n for n in readers(context.before, tensor) if n > number]
            if later:
                nests = f"nest {later[0]}" if len(later) == 1 else f"nests {listed(str(n) for n in later)}"
                return f"{tensor} is read again by {nests}."
    return ""


def _share(context: Context) -> list[str]:
    """Where the operations are, and whether the step is there."""
    numbers = context.numbers_before
    if len(numbers.nests) < 2 or not numbers.operations.value:
        return []
    weights = {number: operations(nest) for number, nest in numbers.nests.items()}
    heaviest = max(weights, key=lambda number: weights[number].value)
    part = f"{count_text(weights[heaviest])} of {count_text(numbers.operations)} operations"
    own = touched_operations(context)
    if sum(weight.value == weights[heaviest].value for weight in weights.values()) > 1:
        return [f"No nest does more than nest {heaviest}, {part}; what the step touches takes {own}."]
    if heaviest in context.touched:
        return [
            f"Of all nests, nest {heaviest} weighs most: {part}. The step works there.",
            f"The work lies in nest {heaviest}, with {part}, and that is where the step works.",
        ]
    return [f"Nest {heaviest} weighs most, with {part}; what the step touches takes {own}."]


def _traffic(numbers: StateNumbers) -> list[str]:
    """Bytes moved, nest by nest, against the bytes that must be."""
    if not numbers.traffic:
        return []
    moved, least = numbers.traffic_text(), data_text(numbers.boundary)
    per_byte = short_text(numbers.operations.value / numbers.traffic)
    done = count_text(numbers.operations)
    exact = not any(text.startswith("at most") for text in (moved, done))
    ratio = f": {per_byte} a byte" if exact else ""
    forms = [f"With each nest touching its data once, {moved} move, for {done} operations{ratio}."]
    if numbers.traffic > numbers.boundary and moved != least:
        forms.append(
            f"Inputs and outputs take {least}; with the temporaries, and what several nests touch counted for each, "
            f"{moved} move."
        )
    return forms


def _fetches(context: Context) -> list[str]:
    """The tensor that is read most often for its size in the touched statements."""
    found = [
        (traffic.reuse, number, traffic)
        for number in context.touched
        if number in context.numbers_before.nests
        for traffic in context.numbers_before.nests[number].reads
        if traffic.elements.value > 1 and traffic.elements.exact and traffic.accesses.exact
    ]
    if not found:
        return []
    reuse, number, traffic = max(found, key=lambda each: (each[0], -each[1], each[2].tensor))
    if reuse < 2:
        return []
    times, tensor, elements = traffic.accesses.value, traffic.tensor, traffic.elements.value
    each = f"{short_text(reuse)} times"
    return [
        f"Nest {number} reads {tensor} {times} times for {elements} elements, each {each} on average.",
        f"On average, each of {elements} elements of {tensor} is read {each} in nest {number}.",
    ]


def _serial(context: Context) -> list[str]:
    """What the loop kinds use and leave."""
    claimed = kinds(context.before)
    words = {"P": "parallel", "V": "vectorised", "U": "unrolled", "B": "bound to the GPU"}
    if claimed:
        return [f"Already {listed(f'{listed(loops)} {_are(loops)} {words[kind]}' for kind, loops in claimed.items())}."]
    number = next(iter(context.touched), 0)
    nest = context.numbers_before.nests.get(number)
    if nest is None or nest.parallel_iterations < 2:
        return []
    loops = [statement_at(context.before, path) for path in nest.independent]
    names = [loop.variable for loop in loops if isinstance(loop, Loop)]
    carry = "carries" if len(names) == 1 else "carry"
    which = f"{'loop' if len(names) == 1 else 'loops'} {listed(names)} of nest {number}"
    parallel = f"{nest.parallel_iterations} iterations{'' if len(names) == 1 else ' together'}"
    return [
        f"Every loop is serial, though {which}, {parallel}, {carry} no dependence.",
        f"{_capital(which)} {carry} no dependence: {parallel}, of which no loop kind makes use yet.",
    ]


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _alternatives(context: Context, most: int) -> str:
    """A few other legal steps of the state: those about the same statements, and of other strategies, first."""

    def rank(step: Step) -> tuple[bool, bool, bytes]:
        apart = not _is_about(context, step)
        return apart, step.strategy == context.step.strategy, digest(context.key, "other", call_text(step))

    order = sorted(context.others, key=rank)
    shown = [call_text(step) for step in order[:most]]
    if not shown:
        return ""
    return _pick(
        context,
        "others",
        (
            f"Legal too: {listed(shown)}.",
            f"Also legal here: {', '.join(shown)}.",
            f"One could take {' or '.join(shown)} instead.",
        ),
    )


def _is_about(context: Context, step: Step) -> bool:
    """Whether a step names a statement that the explained one changes, or a tensor in one."""
    nests = [context.before.body[number] for number in context.touched]
    if "tensor" in step.args:
        return any(a.tensor == step.args["tensor"] for nest in nests for a in accesses(nest))
    return any(path[0] in context.touched for path in paths_of(step) if path)


def _refused(context: Context) -> str:
    """A step that cannot be taken here, and why; of the same strategy first."""
    order = sorted(
        (r for r in context.refused if len(r.fact.evidence) <= LONG_EVIDENCE),
        key=lambda r: (r.step.strategy != context.step.strategy, digest(context.key, "refused", call_text(r.step))),
    )
    if not order:
        return ""
    call, evidence, name = call_text(order[0].step), order[0].fact.evidence, order[0].fact.name
    return _pick(
        context,
        "refusal",
        (
            f"Refused is {call}, since {evidence} ({name} does not hold).",
            f"Not possible is {call}: {name} fails, {evidence}.",
            f"The fact {name} rules out {call}: {evidence}.",
        ),
    )


def _facts(facts: Sequence[FactRecord], form: str) -> list[Part]:
    """A sentence a fact. The first, which says what the arguments are, is spared before the others; the last, never."""
    last = len(facts) - 1
    texts = [_fact_text(fact, form) for fact in facts]
    return [
        Part(
            _capital(text) if _WORD.match(text) else text,
            0 if number == last else 1 if number == last - 1 else 3 if number else 5,
        )
        for number, text in enumerate(texts)
    ]


def _fact_text(fact: FactRecord, form: str) -> str:
    words = fact.name.replace("-", " ")
    return form.format(name=words, Name=_capital(words), evidence=fact.evidence.rstrip("."))


def _lines(context: Context, quoting: bool) -> str:
    """The changed lines; quoted, if they are short."""
    only = "Only " if len(context.changed) == 1 else ""
    sentences: list[str] = []
    for one in context.changed[:2]:
        old, new = (_quoted(one.old), _quoted(one.new)) if quoting else ("", "")
        where, many = _line_numbers(one.at, len(one.old)), len(one.old) > 1
        lines, become = _capital(where), "become" if many else "becomes"
        if not one.old:
            sentences.append(f"New after line {one.at}: {new}." if new else f"A statement is new after line {one.at}.")
        elif not one.new:
            sentences.append(f"{lines} {'go' if many else 'goes'}.")
        elif new and old and not many:
            sentences.append(f"{lines}, {old}, becomes {new}.")
        elif new:
            sentences.append(f"{lines} {become} {new}.")
        elif len(one.new) != len(one.old):
            sentences.append(f"{lines} {become} {'one line' if len(one.new) == 1 else f'{len(one.new)} lines'}.")
        else:
            sentences.append(_capital(f"{only}{where} {'change' if many else 'changes'}."))
    return " ".join(sentences)


def _quoted(lines: tuple[str, ...]) -> str:
    """Lines in backticks; empty where they are too long to quote."""
    return listed(f"`{line}`" for line in lines) if lines and sum(map(len, lines)) <= LONG_LINE else ""


def _line_numbers(at: int, count: int) -> str:
    between = "and" if count == 2 else "to"
    return f"line {at + 1}" if count == 1 else f"lines {at + 1} {between} {at + count}"


def _enabled(context: Context) -> str:
    """A step that the program takes now and did not before."""
    if context.enabled is None:
        return ""
    call = call_text(context.enabled)
    return _pick(
        context,
        "enabled",
        (
            f"It makes {call} possible.",
            f"A step that is legal now, and was not on offer before, is {call}.",
            f"Now {call} can follow.",
        ),
    )


def _moved(before: StateNumbers, after: StateNumbers) -> str:
    """The totals that differ."""
    old, new = before.totals(), after.totals()
    differ = [f"{name} from {old[name]} to {new[name]}" for name in old if old[name] != new[name]]
    same = [name for name in ("iterations", "operations", "traffic") if old[name] == new[name]]
    if not differ:
        return ""
    return f"Counted again: {', '.join(differ)}{f'; {listed(same)} unchanged' if same else ''}."


def _pick(context: Context, what: str, forms: Sequence[str]) -> str:
    """One of the forms, by the record's hash."""
    return forms[digest(context.key, what)[0] % len(forms)] if forms else ""


def _names(tensors: Sequence[str]) -> str:
    shown = list(tensors[:4])
    return listed(shown if len(tensors) <= 4 else [*shown, counted(len(tensors) - 4, "more tensor")])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
