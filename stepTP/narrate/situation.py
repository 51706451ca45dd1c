"""The first two sections of a reasoning: what the state is, and what it spends.

Each gives its forms, which differ in structure: what they begin with, what they put into one sentence, what they leave
to the reader. Nothing is said that was not computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leir.edit import statement_at
from leir.syntax import Alloc, Guard, Loop
from stepTP.narrate.context import Context, readers, temporaries, touched_operations
from stepTP.narrate.describe import kinds, loops_text, purpose
from stepTP.narrate.numbers import StateNumbers, count_text, data_text, operations, short_text
from stepTP.narrate.part import Form, Part, names_text
from strategies.base import counted, listed


@dataclass(frozen=True, slots=True)
class _Focus:
    """A top-level statement: how it is called, its loops (empty for none), what it computes."""

    name: str
    loops: str
    does: str

    @property
    def is_nest(self) -> bool:
        return self.name.startswith("Nest")

    @property
    def word(self) -> str:
        return "loops" if "," in self.loops else "loop"

    def sentence(self) -> str:
        return f"{self.name}{f' ({self.loops})' if self.loops else ''} {self.does}."

    def header(self) -> str:
        be = "is" if self.word == "loop" else "are"
        return f"Its {self.word} {be} {self.loops}." if self.loops else ""

    def loops_last(self) -> str:
        return f"{self.name} {self.does}{f', in {self.word} {self.loops}' if self.loops else ''}."

    def loops_first(self) -> str:
        small = self.name[0].lower() + self.name[1:]
        return f"Over {self.loops}, {small} {self.does}." if self.loops else self.sentence()


def state(context: Context) -> tuple[Form, ...]:
    """What the program is, with a look at the first three statements that the step is about."""
    program, numbers = context.before, context.numbers_before
    ins, outs = (names_text([d.tensor for d in ends]) for ends in (program.inputs, program.outputs))
    inputs, outputs = (
        f"{word}{'s' * (len(ends) > 1)}" for word, ends in (("input", program.inputs), ("output", program.outputs))
    )
    nests = counted(len(numbers.nests), "nest")
    iterations = f"{count_text(numbers.cost.iterations)} iterations"
    touched = sorted(context.touched, key=lambda number: isinstance(program.body[number], Alloc))
    first, *others = (_focus(context, number) for number in touched[:3] or (0,))
    among = f"one of {nests}" if first.is_nest else f"beside {nests}"
    rest = [Part(other.sentence(), 3) for other in others]
    use = Part(_use(context), 7)
    about = f"{first.name[0].lower()}{first.name[1:]}"
    return (
        (Part(f"The program computes {outs} from {ins} in {nests} and {iterations}. {first.sentence()}"), *rest, use),
        (Part(f"From {ins}, {nests} {'leads' if len(numbers.nests) == 1 else 'lead'} to {outs}. {first.sentence()}"),
         *rest, Part(f"In all, {iterations} run.", 8), use),
        (Part(first.sentence()), *rest, use,
         Part(f"That is part of {nests} ({iterations}) from {ins} to {outs}.", 2) if len(numbers.nests) > 1
         else Part(f"From {ins} to {outs} there is 1 nest, of {iterations}.", 2)),
        (Part(f"State: {nests}, {iterations}; {inputs} {ins}, {outputs} {outs}. {first.sentence()}"), *rest, use),
        (Part(f"To get {outs} from {ins} the program runs {iterations} in {nests}."), Part(first.sentence()), *rest,
         use),
        (Part(f"This is about {about}, {among} from {ins} to {outs}: it {first.does}.")
         if len(numbers.nests) > 1 or not first.is_nest
         else Part(f"One nest makes {outs} of {ins}: it {first.does}."),
         Part(first.header(), 6), *rest, use),
        (Part(first.loops_first()), *rest, Part(f"The whole, from {ins} to {outs}, is {nests}, {iterations}.", 4), use),
        (use, Part(first.loops_last()), *rest, Part(f"In all, {nests} lead from {ins} to {outs}.", 4)
         if len(numbers.nests) > 1
         else Part(f"With that, {outs} is done." if len(program.outputs) == 1 else "", 4)),
        (Part(f"{iterations[0].upper()}{iterations[1:]} in {nests} lead from {ins} to {outs}. {first.loops_last()}"),
         *rest, use),
    )  # fmt: skip


def bottleneck(context: Context) -> tuple[Form, ...]:
    """What the state spends and where, or what its loops leave unused: what the level of the step looks at first."""
    order = _LOOKED_AT[context.level]
    found = [forms for look in order if (forms := look(context))]
    return tuple((Part(form, 2),) for form in (*(f for forms in found[:2] for f in forms),)) or ((),)


def _focus(context: Context, number: int) -> _Focus:
    statement = context.before.body[number]
    word = "Nest" if isinstance(statement, Loop | Guard) else "Statement"
    return _Focus(f"{word} {number}", loops_text(statement), purpose(statement))


def _use(context: Context) -> str:
    """Who reads what the touched statements produce."""
    for number in context.touched:
        for tensor in temporaries(context.before, context.before.body[number]):
            later = [n for n in readers(context.before, tensor) if n > number]
            if later:
                nests = f"nest {later[0]}" if len(later) == 1 else f"nests {listed(str(n) for n in later)}"
                return f"{tensor}, which nest {number} makes, is read later by {nests}."
    return ""


def _share(context: Context) -> list[str]:
    """Where the operations are, and whether the step is there."""
    numbers = context.numbers_before
    if len(numbers.nests) < 2 or not numbers.operations.value:
        return []
    weights = {number: operations(nest) for number, nest in numbers.nests.items()}
    heaviest = max(weights, key=lambda number: weights[number].value)
    most, total = count_text(weights[heaviest]), count_text(numbers.operations)
    own = touched_operations(context) or "none"
    if sum(weight.value == weights[heaviest].value for weight in weights.values()) > 1:
        return [
            f"No nest does more than nest {heaviest}, {most} of {total} operations; what the step touches takes {own}.",
            f"Of {total} operations, what the step touches takes {own}; no nest takes more than {most}.",
        ]
    if heaviest in context.touched:
        return [
            f"Of all nests, nest {heaviest} weighs most: {most} of {total} operations. The step works there.",
            f"The work lies in nest {heaviest}, with {most} of {total} operations, and that is where the step works.",
            f"{total} operations run, {most} of them in nest {heaviest}, the heaviest, which the step is about."
            if numbers.operations.exact
            else f"Nest {heaviest}, which the step is about, is the heaviest: {most} of {total} operations.",
        ]
    return [
        f"Nest {heaviest} weighs most, with {most} of {total} operations; what the step touches takes {own}.",
        f"The step touches {own} of {total} operations; most of them, {most}, are in nest {heaviest}."
        if 2 * weights[heaviest].value > numbers.operations.value
        else f"The step touches {own} of {total} operations; the heaviest nest, {heaviest}, has {most}.",
    ]


def _traffic(context: Context) -> list[str]:
    """Bytes moved, nest by nest, against the bytes that must be."""
    numbers = context.numbers_before
    if not numbers.traffic:
        return []
    moved, least = numbers.traffic_text(), data_text(numbers.boundary)
    done = count_text(numbers.operations)
    exact = not any(text.startswith("at most") for text in (moved, done))
    per_byte = f": {_intensity(numbers)} a byte" if exact else ""
    forms = [f"With each nest touching its data once, {moved} move, for {done} operations{per_byte}."]
    if exact:
        forms.append(f"Counted nest by nest, {done} operations on {moved} are {_intensity(numbers)} a byte.")
    if numbers.traffic > numbers.boundary and moved != least:
        forms += [
            f"Inputs and outputs take {least}; with the temporaries, and what several nests touch counted for each, "
            f"{moved} move.",
            f"{moved[0].upper()}{moved[1:]} move where inputs and outputs are {least}: the rest is temporaries, and "
            f"what several nests touch.",
        ]
    return forms


def _intensity(numbers: StateNumbers) -> str:
    return short_text(numbers.operations.value / numbers.traffic)


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
        f"{tensor} has {elements} elements that nest {number} uses, and {times} reads go to them.",
        f"{times} reads of {tensor} in nest {number} go to {elements} elements: each serves {each}, on average.",
    ]


def _serial(context: Context) -> list[str]:
    """What the loop kinds use and leave."""
    claimed = kinds(context.before)
    words = {"P": "parallel", "V": "vectorised", "U": "unrolled", "B": "bound to the GPU"}
    if claimed:
        each = listed(
            f"{_loops(found)} {'is' if len(found) == 1 else 'are'} {words[kind]}" for kind, found in claimed.items()
        )
        return [f"Already {each}.", f"By now {each}."]
    number = next(iter(context.touched), 0)
    nest = context.numbers_before.nests.get(number)
    if nest is None or nest.parallel_iterations < 2:
        return []
    loops = [statement_at(context.before, path) for path in nest.independent]
    names = [loop.variable for loop in loops if isinstance(loop, Loop)]
    carry, noun = ("carries", "loop") if len(names) == 1 else ("carry", "loops")
    which = f"{noun} {listed(names)} of nest {number}"
    parallel = f"{nest.parallel_iterations} iterations{'' if len(names) == 1 else ' together'}"
    return [
        f"Every loop is serial, though {which}, {parallel}, {carry} no dependence.",
        f"{which[0].upper()}{which[1:]} {carry} no dependence: {parallel}, of which no loop kind makes use yet.",
        f"No loop is parallel, vectorised, unrolled or bound; of nest {number}, {listed(names)} could be: {parallel}.",
        f"In nest {number}, {parallel} could run at once: {listed(names)} {carry} no dependence. Now all run in turn.",
    ]


def _loops(found: Sequence[tuple[int, str]]) -> str:
    """One loop by its name and nest, several by their number."""
    return f"loop {found[0][1]} of nest {found[0][0]}" if len(found) == 1 else f"{len(found)} loops"


_LOOKED_AT: dict[str, tuple[Callable[[Context], list[str]], ...]] = {
    "graph": (_traffic, _share, _fetches, _serial),
    "operator": (_serial, _share, _fetches, _traffic),
    "memory": (_fetches, _traffic, _share, _serial),
    "math": (_share, _traffic, _fetches, _serial),
}
