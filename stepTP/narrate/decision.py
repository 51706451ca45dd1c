"""The middle sections of a reasoning: why this step, what else there was, and why it is legal."""

import re
from collections.abc import Callable, Sequence

from leir.edit import accesses
from stepTP.draw import digest
from stepTP.narrate.call import call_text
from stepTP.narrate.context import Context
from stepTP.narrate.next_step import paths_of
from stepTP.narrate.part import Form, Part, pick
from stepTP.records import FactRecord, Step
from strategies.base import Refused, capitalised, listed
from strategies.catalog import parse_step

LONG_EVIDENCE = 160  # characters of evidence that a sentence still carries
LONG_CALL = 120  # characters of a step beside the one that is taken
_LATER = "Left for later: "
_WORD = re.compile(r"[a-z]+")
_CODE = re.compile(r"^[a-z]+(?:-[a-z]+)+: ")  # of what a check found, before its words
_VERBS = ("computes ", "depends ", "has ", "is ", "occurs ", "stands ", "stays ", "writes ")


def choice(context: Context) -> tuple[Form, ...]:
    """Why this step, and what else there was. The call stands in backticks, once."""
    why, least = pick(context, "why", context.choice), min(context.choice, key=len)
    call = f"`{call_text(context.step)}`"

    def saying(form: str) -> Part:
        """The form with the reason in place of its `#`, and, where it must be short, with the shortest reason."""
        lead, _, rest = form.partition("#")
        return Part(f"{lead}{why}{rest}", 1, f"{lead}{least}{rest}")

    after = Part(_alternatives(context, 2, ahead=False), 4, _alternatives(context, 1, ahead=False))
    ahead = Part(_alternatives(context, 2, ahead=True), 4, _alternatives(context, 1, ahead=True))
    refused = Part(_refused(context), 3)
    return (
        (saying(f"# The step is {call}."), after, refused),
        (saying(f"The step taken is {call}. #"), after, refused),
        (ahead, saying(f"# Hence {call}."), refused),
        (saying("#"), refused, ahead, Part(f"The choice falls on {call}.")),
        (saying(f"# This calls for {call}."), refused, after),
        (refused, saying(f"Next comes {call}. #"), after),
        (ahead, refused, saying(f"{call} is the step here. #")),
        (refused, ahead, saying(f"# So the next step is {call}.")),
        (Part(f"One step, {call}, is taken."), saying("#"), after, refused),
    )


def legality(context: Context) -> tuple[Form, ...]:
    """Each precondition with its evidence."""
    facts = context.facts
    if not facts:
        return ((Part("It has no precondition but that the checker accepts the result, which it does."),),)
    close = Part("The checker accepts the program after it, with every claim of its loops.", 8)
    carry = "One fact carries the step." if len(facts) == 1 else "Computed facts carry the step."
    return (
        (Part("It is allowed here."), *_facts(facts, _evidence_first), close),
        (Part("What must hold, holds."), *_facts(facts, _name_first), close),
        (*_facts(facts, _name_first), Part("So the step is legal.")),
        (Part("This is legal."), *_facts(facts, _evidence_first), close),
        (Part("No precondition fails."), *_facts(facts, _name_first)),
        (Part(carry), *_facts(facts, _as_held), close),
        (
            *_facts(facts, _as_held),
            Part("Beyond that, the checker accepts the result.", 2),
        ),
        (*_facts(facts, _evidence_first), Part("Hence it may be done.")),
        (Part("Is it legal? Each condition was checked."), *_facts(facts, _name_first), close),
    )


def _alternatives(context: Context, most: int, *, ahead: bool) -> str:
    """A few other legal steps of the state: those about the same statements, and of other strategies, first.

    `ahead`: the sentence stands before the one that names the step, so that it cannot point back to it.
    """

    def rank(step: Step) -> tuple[bool, bool, bytes]:
        apart = not _is_about(context, step)
        return apart, step.strategy == context.step.strategy, digest(context.key, "other", call_text(step))

    steps = [step for step in sorted(context.others, key=rank) if len(call_text(step)) <= LONG_CALL][:most]
    if not steps:
        return ""
    shown = list(map(call_text, steps))
    several = len(shown) > 1
    be = "are" if several else "is"
    if ahead:
        return pick(
            context,
            "others",
            (
                f"Legal here, among others: {listed(shown)}.",
                f"One could take {' or '.join(shown)}.",
                f"{listed(shown)} {be} possible.",
                f"The state offers {listed(shown)}.",
                f"Among what is legal here {be} {listed(shown)}.",
                f"{'Ways on are' if several else 'A way on is'} {listed(shown)}.",
                f"{listed(shown)} {be} legal.",
            ),
        )
    said = pick(
        context,
        "others",
        (
            f"Legal too: {listed(shown)}.",
            f"Also legal here: {', '.join(shown)}.",
            f"One could take {' or '.join(shown)} instead.",
            f"{listed(shown)} {'were' if several else 'was'} possible as well.",
            f"The state offers {listed(shown)}, too.",
            _LATER + f"{listed(shown)}, {'both' if several else 'which is'} legal now.",
            f"{'Other ways on are' if several else 'Another way on is'} {listed(shown)}.",
            f"Beside it, {listed(shown)} {be} legal.",
        ),
    )
    if said.startswith(_LATER) and not all(_stays(context, step) for step in steps):
        return f"Legal here, too: {listed(shown)}."
    return said


def _stays(context: Context, step: Step) -> bool:
    """Whether the step is legal after the one that is explained, too."""
    try:
        parse_step(step.model_dump()).apply(context.after)
    except Refused:
        return False
    return True


def _is_about(context: Context, step: Step) -> bool:
    """Whether a step names a statement that the explained one changes, or a tensor in one."""
    nests = [context.before.body[number] for number in context.touched]
    if "tensor" in step.args:
        return any(a.tensor == step.args["tensor"] for nest in nests for a in accesses(nest))
    return any(path[0] in context.touched for path in paths_of(step) if path)


def _refused(context: Context) -> str:
    """A step that cannot be taken here, and why; of the same strategy first."""
    order = sorted(
        (r for r in context.refused if len(r.fact.evidence) <= LONG_EVIDENCE and len(call_text(r.step)) <= LONG_CALL),
        key=lambda r: (r.step.strategy != context.step.strategy, digest(context.key, "refused", call_text(r.step))),
    )
    if not order:
        return ""
    call, name = call_text(order[0].step), order[0].fact.name
    evidence = _CODE.sub("", order[0].fact.evidence)
    return pick(
        context,
        "refusal",
        (
            f"{call} is refused: {evidence} ({name} does not hold).",
            f"Not possible is {call}, since {name} fails: {evidence}.",
            f"The fact {name} rules out {call}: {evidence}.",
            f"{call} was tried and fails at {name}: {evidence}.",
            f"One cannot take {call}, for {name} does not hold: {evidence}.",
            f"Ruled out: {call}, by {name} ({evidence}).",
            f"{evidence}: so {name} does not hold, and {call} is out.",
            f"What does not work is {call}; {name} asks for more: {evidence}.",
        ),
    )


def _facts(facts: Sequence[FactRecord], form: Callable[[FactRecord], str]) -> list[Part]:
    """A sentence a fact. The first, which says what the arguments are, is spared before the others; the last, never.

    Where even that is too long, it says by name what holds.
    """
    last = len(facts) - 1
    names = listed(fact.name for fact in facts[1:] or facts)
    return [
        Part(
            form(fact),
            0 if number == last else 1 if number == last - 1 else 3 if number else 5,
            last=f"What holds: {names}." if number == last else None,
        )
        for number, fact in enumerate(facts)
    ]


def _words(fact: FactRecord) -> str:
    """The fact's name as a clause; empty where the evidence says as much: a name that begins with its verb has no
    subject but in the evidence, and one whose words all stand there says nothing more."""
    words = fact.name.replace("-", " ")
    said = set(_WORD.findall(fact.evidence))
    return "" if words.startswith(_VERBS) or said.issuperset(words.removeprefix("tensor ").split()) else words


def _evidence_first(fact: FactRecord) -> str:
    words, evidence = _words(fact), fact.evidence.rstrip(".")
    return f"{evidence} ({words})." if words else f"{evidence}."


def _name_first(fact: FactRecord) -> str:
    words, evidence = _words(fact), fact.evidence.rstrip(".")
    return f"{capitalised(words)}: {evidence}." if words else f"{evidence}."


def _as_held(fact: FactRecord) -> str:
    return f"{fact.name} holds: {fact.evidence.rstrip('.')}."
