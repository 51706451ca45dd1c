"""The six sections of a reasoning: state, bottleneck, choice, legality, change, effect.

Each function gives its section in several forms that differ in structure: what they begin with, what they put into one
sentence, what they leave to the reader. A form is a list of parts, each with how easily it can be spared, so that a
long text can be cut without breaking a sentence. Nothing is said that was not computed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stepTP.draw import digest
from stepTP.narrate.call import call_text
from stepTP.narrate.context import Context, readers, temporaries, touched_operations
from stepTP.narrate.describe import counted, kinds, loops_text, purpose
from stepTP.narrate.numbers import StateNumbers, count_text, data_text, operations, short_text
from stepTP.records import FactRecord
from strategies.base import listed

LONG_EVIDENCE = 160  # characters of evidence that a sentence still carries
LONG_LINE = 90  # characters of a program's line that reasoning quotes
_WORD = re.compile(r"[a-z]{3,} ")  # a word that a sentence may begin with; a loop's name keeps its case


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
    nests = counted(len(numbers.nests), "nest")
    iterations = f"{count_text(numbers.cost.iterations)} iterations"
    focus = " ".join(f"{s}." for s in _focus(context))
    use = _use(context)
    return (
        (Part(f"The program computes {outs} from {ins} in {nests} and {iterations}. {focus}"), Part(use, 7)),
        (Part(f"From {ins}, {nests} lead to {outs}. {focus}"), Part(f"In all, {iterations} run.", 8), Part(use, 7)),
        (Part(focus), Part(use, 7), Part(f"That is part of {nests} ({iterations}) from {ins} to {outs}.", 2)),
        (Part(f"State: {nests}, {iterations}; inputs {ins}, outputs {outs}. {focus}"), Part(use, 7)),
        (Part(f"To get {outs} from {ins} the program runs {iterations} in {nests}."), Part(focus), Part(use, 7)),
    )


def bottleneck(context: Context) -> tuple[Form, ...]:
    """What the state spends, where, and what its loops leave unused."""
    numbers = context.numbers_before
    forms = [*_share(context), *_traffic(numbers), *_fetches(context), *_serial(context)]
    return tuple((Part(form, 2),) for form in forms) or ((),)


def choice(context: Context) -> tuple[Form, ...]:
    """Why this step, and what else there was."""
    why = _pick(context, "why", context.choice)
    call = f"`{call_text(context.step)}`"
    other = Part(_alternatives(context, 2), 4, _alternatives(context, 1))
    refused = Part(_refused(context), 3)
    return (
        (Part(f"{why} The step is {call}."), other, refused),
        (Part(f"The step taken is {call}. {why}"), other, refused),
        (other, Part(f"{why} Hence {call}."), refused),
        (Part(why), refused, other, Part(f"The choice falls on {call}.")),
        (Part(f"{why} This calls for {call}."), refused, other),
        (refused, Part(f"Next comes {call}. {why}"), other),
    )


def legality(context: Context) -> tuple[Form, ...]:
    """Each precondition with its evidence."""
    facts = _grouped(context.facts)
    if not facts:
        return ((Part("It has no precondition but that the checker accepts the result, which it does."),),)
    close = Part("The checker accepts the program after it, with every claim of its loops.", 8)
    return (
        (Part("It is allowed here."), *_facts(facts, "{evidence} ({name})."), close),
        (_joined(facts, "What must hold, holds:", "{name}, as {evidence}"), close),
        (*_facts(facts, "{Name}: {evidence}."), Part("So the step is legal.")),
        (Part(f"Its legality rests on {counted(len(facts), 'fact')}."), *_facts(facts, "{Name}: {evidence}."), close),
        (_joined(facts, "Legal, because", "{evidence} ({name})"), close),
    )


def change(context: Context) -> tuple[Form, ...]:
    """What becomes of the text, line by line."""
    what = Part(_pick(context, "change", context.change))
    lines = Part(_lines(context, True), 6, _lines(context, False))
    kept = Part(_kept(context), 7)
    return ((what, lines, kept), (lines, what, kept), (kept, what, lines), (kept, lines, what))


def effect(context: Context) -> tuple[Form, ...]:
    """What the step costs, saves and makes possible, as far as it can be computed."""
    effects = _pick(context, "effect", context.effect)
    moved = Part(_moved(context.numbers_before, context.numbers_after), 1)
    if context.numbers_before.totals() == context.numbers_after.totals():
        moved = Part(moved.text, 6)
    bits = "" if context.bit_exact else "The results agree within the rounding bound, not bit for bit."
    if "bit" in effects or "round" in effects:
        bits = ""
    return (
        (Part(effects), moved, Part(bits, 1)),
        (moved, Part(effects), Part(bits, 1)),
        (Part(bits, 1), Part(effects), moved),
    )


def _focus(context: Context) -> list[str]:
    """One clause for each of the first three statements that the step changes."""
    return [_sentence(context, number) for number in context.touched[:3]] or [_sentence(context, 0)]


def _sentence(context: Context, number: int) -> str:
    statement = context.before.body[number]
    loops = loops_text(statement)
    return f"Nest {number}{f' ({loops})' if loops else ''} {purpose(statement)}"


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
    moved, least = data_text(numbers.traffic), data_text(numbers.boundary)
    per_byte = short_text(numbers.operations.value / numbers.traffic)
    done = count_text(numbers.operations)
    forms = [f"With each nest touching its data once, {moved} move, for {done} operations: {per_byte} a byte."]
    if numbers.traffic > numbers.boundary and moved != least:
        forms.append(
            f"Inputs and outputs take {least}, but the nests together touch {moved}: the difference is data that one "
            "nest writes or reads and another reads again."
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
    return [
        f"Nest {number} reads {tensor} {times} times for {elements} elements, {short_text(reuse)} times each.",
        f"Each of the {elements} elements of {tensor} is read {short_text(reuse)} times in nest {number}.",
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
    parallel = nest.parallel_iterations
    return [
        f"Every loop is serial, though {parallel} iterations of nest {number} do not depend on each other.",
        f"Nest {number} has {parallel} independent iterations, and no loop of the program uses that yet.",
    ]


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _alternatives(context: Context, most: int) -> str:
    """A few other legal steps of the state, of other strategies first."""
    order = sorted(
        context.others,
        key=lambda step: (step.strategy == context.step.strategy, digest(context.key, "other", call_text(step))),
    )
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


def _grouped(facts: Sequence[FactRecord]) -> list[FactRecord]:
    """Facts of one name that follow each other, as one with the evidence of all."""
    result: list[FactRecord] = []
    for fact in facts:
        if result and result[-1].name == fact.name:
            both = f"{result[-1].evidence.rstrip('.')}, and {fact.evidence}"
            result[-1] = result[-1].model_copy(update={"evidence": both})
        else:
            result.append(fact)
    return result


def _facts(facts: Sequence[FactRecord], form: str) -> list[Part]:
    """A sentence a fact; where room is short, the later ones give their names only."""
    texts = [_fact_text(fact, form) for fact in facts]
    return [
        Part(_capital(text) if _WORD.match(text) else text, 0 if number < 1 else 2, f"The fact {fact.name} holds.")
        for number, (fact, text) in enumerate(zip(facts, texts, strict=True))
    ]


def _joined(facts: Sequence[FactRecord], opening: str, form: str) -> Part:
    """One sentence of all facts; where room is short, the later ones give their names only."""
    full = [_fact_text(fact, form) for fact in facts]
    names = [fact.name for fact in facts[1:]]
    short = f"{opening} {full[0]}."
    if names:
        short += f" The {'fact' if len(names) == 1 else 'facts'} {listed(names)} hold{'s' * (len(names) == 1)} too."
    return Part(f"{opening} {'; '.join(full)}.", 2, short)


def _fact_text(fact: FactRecord, form: str) -> str:
    words = fact.name.replace("-", " ")
    return form.format(name=words, Name=_capital(words), evidence=fact.evidence.rstrip("."))


def _lines(context: Context, quoting: bool) -> str:
    """The changed lines; quoted, if they are short."""
    sentences: list[str] = []
    for one in context.changed[:2]:
        old, new = (_quoted(one.old), _quoted(one.new)) if quoting else ("", "")
        lines, many = _capital(_line_numbers(one.at, len(one.old))), len(one.old) > 1
        become = "become" if many else "becomes"
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
            sentences.append(f"{lines} {'change' if many else 'changes'}.")
    return " ".join(sentences)


def _quoted(lines: tuple[str, ...]) -> str:
    """Lines in backticks; empty where they are too long to quote."""
    return listed(f"`{line}`" for line in lines) if lines and sum(map(len, lines)) <= LONG_LINE else ""


def _line_numbers(at: int, count: int) -> str:
    between = "and" if count == 2 else "to"
    return f"line {at + 1}" if count == 1 else f"lines {at + 1} {between} {at + count}"


def _kept(context: Context) -> str:
    """How much stays."""
    rest = len(context.before.body) - len(context.touched)
    if not rest:
        return ""
    return _pick(
        context,
        "kept",
        (
            f"The other {rest} statements stay as they are." if rest > 1 else "The other statement stays as it is.",
            f"Left alone: {counted(rest, 'statement')}.",
        ),
    )


def _moved(before: StateNumbers, after: StateNumbers) -> str:
    """The totals that differ."""
    old, new = before.totals(), after.totals()
    differ = [f"{name} from {old[name]} to {new[name]}" for name in old if old[name] != new[name]]
    same = [name for name in ("iterations", "operations", "traffic") if old[name] == new[name]]
    if not differ:
        return f"Counted again, {listed(same)} are unchanged."
    return f"Counted again: {', '.join(differ)}{f'; {listed(same)} unchanged' if same else ''}."


def _pick(context: Context, what: str, forms: Sequence[str]) -> str:
    """One of the forms, by the record's hash."""
    return forms[digest(context.key, what)[0] % len(forms)] if forms else ""


def _names(tensors: Sequence[str]) -> str:
    shown = list(tensors[:4])
    return listed(shown if len(tensors) <= 4 else [*shown, counted(len(tensors) - 4, "more tensor")])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
