"""The first two sections of a reasoning: what the state is, and what it spends.

Each gives its forms, which differ in structure: what they begin with, what they put into one sentence, what they leave
to the reader. Nothing is said that was not computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leir.edit import statement_at
from leir.syntax import Alloc, Equation, Guard, Loop
from stepTP.narrate.context import Context, idle, readers, temporaries, touched_operations
from stepTP.narrate.describe import kinds, loops_text, purpose
from stepTP.narrate.next_step import paths_of
from stepTP.narrate.numbers import StateNumbers, count_text, data_text, operations, short_text
from stepTP.narrate.part import Form, Part, names_text
from strategies.base import capitalised, listed, statement_or_none


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
    nests, instances, several = numbers.nests_text(), numbers.instances_text(), len(numbers.nests) > 1
    touched = sorted(context.touched, key=lambda number: isinstance(program.body[number], Alloc))
    first, *others = (_focus(context, number) for number in touched[:3] or (0,))
    among = f"one of {nests}" if first.is_nest and not others and not numbers.alone else f"in a program of {nests}"
    rest = [*(Part(other.sentence(), 3) for other in others), Part(_idle(context), 3)]
    use = Part(_use(context), 7)
    about = listed(each.name.lower() for each in (first, *others))
    subject = first.name.lower() if others else "it"
    return (
        (Part(f"The program computes {outs} from {ins} in {nests}, {instances}. {first.sentence()}"), *rest, use),
        (Part(f"From {ins} to {outs} there {'are' if several else 'is'} {nests}. {first.sentence()}"), *rest,
         Part(f"In all, the program has {instances}.", 8), use),
        (Part(first.sentence()), *rest, use,
         Part(f"The program as a whole, from {ins} to {outs}, has {nests} ({instances}).", 2) if several
         else Part(f"From {ins} to {outs} there is {nests}, of {instances}.", 2)),
        (Part(f"State: {nests}, {instances}; {inputs} {ins}, {outputs} {outs}. {first.sentence()}"), *rest, use),
        (Part(f"To get {outs} from {ins} the program runs {instances} in {nests}."), Part(first.sentence()), *rest,
         use),
        (Part(f"This is about {about}, {among} from {ins} to {outs}: {subject} {first.does}.")
         if several or not first.is_nest
         else Part(f"One nest makes {outs} of {ins}: it {first.does}."),
         Part(first.header(), 6), *rest, use),
        (Part(first.loops_first()), *rest, Part(f"The whole, from {ins} to {outs}, is {nests}, {instances}.", 4), use),
        (use, Part(first.loops_last()), *rest, Part(f"In all, the program from {ins} to {outs} has {nests}.", 4)
         if several
         else Part(f"With that, {outs} is done." if len(program.outputs) == 1 else "", 4)),
        (Part(f"{capitalised(instances)} in {nests} make up the program from {ins} to {outs}. {first.loops_last()}"),
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
    return _Focus(f"{word} {number}", loops_text(statement), purpose(statement, _equation(context)))


def _equation(context: Context) -> Equation | None:
    """The equation that the step names, where it names one."""
    for path in paths_of(context.step):
        if isinstance(found := statement_or_none(context.before, tuple(path)), Equation):
            return found
    return None


def _idle(context: Context) -> str:
    """The statements that could as well not be there."""
    names = [_focus(context, number).name.lower() for number in idle(context.before)]
    outs = names_text([declaration.tensor for declaration in context.before.outputs])
    if not names:
        return ""
    return f"{capitalised(listed(names))} {'does' if len(names) == 1 else 'do'} not contribute to {outs}."


def _use(context: Context) -> str:
    """Who reads what the touched statements produce."""
    for number in context.touched:
        for tensor in temporaries(context.before, context.before.body[number]):
            later = [n for n in readers(context.before, tensor) if n > number]
            if later:
                nests = f"nest {later[0]}" if len(later) == 1 else f"nests {listed(str(n) for n in later)}"
                return f"{tensor}, which {_focus(context, number).name.lower()} makes, is read later by {nests}."
    return ""


def _share(context: Context) -> list[str]:
    """Where the operations are, and whether the step is there."""
    numbers = context.numbers_before
    if len(numbers.nests) < 2 or not numbers.operations.value:
        return []
    weights = {number: operations(nest) for number, nest in numbers.nests.items()}
    heaviest = max(weights, key=lambda number: weights[number].value)
    most, total = count_text(weights[heaviest]), count_text(numbers.operations)
    is_most = 2 * weights[heaviest].value > numbers.operations.value
    touched, changed = touched_operations(context), _changed(context)
    own = count_text(touched) if touched.value else "none"
    if sum(weight.value == weights[heaviest].value for weight in weights.values()) > 1:
        return [
            f"No nest does more than nest {heaviest}, {most} of {total} operations; {changed} {own}.",
            f"Of {total} operations, {changed} {own}; no nest takes more than {most}.",
        ]
    if heaviest in context.touched:
        return [
            f"Of all nests, nest {heaviest} weighs most: {most} of {total} operations. The step works there.",
            f"The work lies in nest {heaviest}, with {most} of {total} operations, and that is where the step works."
            if is_most
            else f"Nest {heaviest} has {most} of {total} operations, more than any other, and the step works there.",
            f"{total} operations run, {most} of them in nest {heaviest}, the heaviest, which the step is about."
            if numbers.operations.exact
            else f"Nest {heaviest}, which the step is about, is the heaviest: {most} of {total} operations.",
        ]
    return [
        f"Nest {heaviest} weighs most, with {most} of {total} operations; {changed} {own}.",
        f"{capitalised(changed)} {own} of {total} operations; most of them, {most}, are in nest {heaviest}."
        if is_most
        else f"{capitalised(changed)} {own} of {total} operations; the heaviest nest, {heaviest}, has {most}.",
    ]


def _changed(context: Context) -> str:
    """What the step changes, as the subject of a sentence on what it takes."""
    words = {_focus(context, number).name.partition(" ")[0].lower() for number in context.touched}
    word = "nest" if words == {"nest"} else "statement"
    return (
        f"the {word} that the step changes takes"
        if len(context.touched) == 1
        else f"the {word}s that the step changes take"
    )


def _traffic(context: Context) -> list[str]:
    """Bytes moved, nest by nest, against the bytes that must be."""
    numbers = context.numbers_before
    if not numbers.traffic or not numbers.operations.value:
        return []
    moved, least = numbers.traffic_text(), data_text(numbers.boundary)
    done = count_text(numbers.operations)
    exact = not any(text.startswith("at most") for text in (moved, done))
    per_byte = f": {_intensity(numbers)} a byte" if exact else ""
    move = "moves" if moved.removeprefix("at most ").startswith("1 ") else "move"
    forms = [
        f"With each nest touching its data once, {moved} {move}, for {done} operations{per_byte}."
        if len(numbers.nests) > 1
        else f"Touching its data once, the nest moves {moved}, for {done} operations{per_byte}."
    ]
    if exact:
        forms.append(f"Counted nest by nest, {done} operations on {moved} are {_intensity(numbers)} a byte.")
    if numbers.traffic > numbers.boundary and moved != least:
        forms += [
            f"Inputs and outputs take {least}; with the temporaries, and what several nests touch counted for each, "
            f"{moved} {move}.",
            f"{capitalised(moved)} {move} where inputs and outputs are {least}: the rest is temporaries, and "
            f"what several nests touch.",
        ]
    return forms


def _intensity(numbers: StateNumbers) -> str:
    return short_text(numbers.operations.value / numbers.traffic)


def _fetches(context: Context) -> list[str]:
    """The tensor that is read most often for its size in the touched statements; where the step names one, that."""
    named = context.step.args.get("tensor")
    found = [
        (traffic.reuse, number, traffic)
        for number in context.touched
        if number in context.numbers_before.nests
        for traffic in context.numbers_before.nests[number].reads
        if traffic.elements.value > 1
        and traffic.elements.exact
        and traffic.accesses.exact
        and named in (None, traffic.tensor)
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
    count, both = nest.parallel_iterations, "" if len(names) == 1 else " together"
    return [
        f"Every loop is serial, though {which}, {count} iterations{both}, {carry} no dependence.",
        f"{capitalised(which)} {carry} no dependence: {count} iterations{both}, of which no loop kind makes use yet.",
        f"All loops are serial; of nest {number}, {listed(names)} {carry} no dependence: {count} iterations that could "
        "run at once.",
        f"In nest {number}, {listed(names)} {carry} no dependence. All {count} iterations{both} could run at once; now "
        "they run in turn.",
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
