"""The last two sections of a reasoning: what becomes of the text, and what that costs, saves and makes possible."""

from collections.abc import Sequence

from leir.edit import expression_at, statement_at, walk_expression
from leir.printer import expression_text
from leir.syntax import Equation, Place
from stepTP.narrate.call import call_text
from stepTP.narrate.context import Context
from stepTP.narrate.decision import LONG_CALL
from stepTP.narrate.difference import Change
from stepTP.narrate.part import Form, Part, pick
from stepTP.narrate.shorten import shortened
from strategies.base import capitalised, counted, listed

LONG_LINE = 90  # characters of a program's line that reasoning quotes


def change(context: Context) -> tuple[Form, ...]:
    """What becomes of the text, line by line."""
    numbers = lines_text(context.changed, quoting=False)
    what = Part(pick(context, "change", context.change), 1, min(context.change, key=len), last=numbers)
    lines = Part(lines_text(context.changed, quoting=True), 6)
    plain = Part(numbers, 6)
    pairs = Part(_before_and_after(context), 6)
    kept = Part(_kept(context), 7)
    others = Part(other_places(context), 1)
    return (
        (what, others, lines),
        (lines, what, others),
        (what, others, pairs),
        (pairs, what, others),
        (what, others, kept),
        (kept, what, others),
        (what, others, plain),
        (plain, what, others),
    )


def other_places(context: Context) -> str:
    """That an expression which is rewritten at one place stands at others of its equation, too."""
    path, within = (tuple(context.step.args.get(name) or ()) for name in ("path", "within"))
    if context.level != "math" or not within:
        return ""
    equation, place = statement_at(context.before, path), Place(path, within)
    assert isinstance(equation, Equation)
    old = expression_at(context.before, place)
    places = [(1, *inner) for inner, part in walk_expression(equation.value) if part == old]
    if len(places) < 2:
        return ""
    return f"Of {len(places)} places of {shortened(expression_text(old))} in the equation, only number " + (
        f"{places.index(within) + 1} changes."
    )


def effect(context: Context) -> tuple[Form, ...]:
    """What the step costs, saves and makes possible, as far as it can be computed."""
    effects = pick(context, "effect", context.effect)
    alike = [other for other in context.effect if _says_bits(other) == _says_bits(effects)]
    brings = Part(effects, 1, min(alike, key=len), last=_bits(context))
    moved = Part(_moved(context), 1)
    enabled = Part(_enabled(context), 2)
    bits = Part("" if _says_bits(effects) else _bits(context))
    return (
        (brings, moved, bits, enabled),
        (moved, brings, bits, enabled),
        (bits, brings, moved, enabled),
        (brings, bits, enabled, moved),
        (enabled, brings, bits, moved),
        (moved, bits, brings, enabled),
        (brings, enabled, moved, bits),
        (enabled, moved, bits, brings),
    )


def _says_bits(effect: str) -> bool:
    """Whether a sentence says itself what becomes of the results' bits."""
    return "bit" in effect or "round" in effect


def _bits(context: Context) -> str:
    if context.bit_exact:
        return ""
    return pick(
        context,
        "bits",
        (
            "The results agree within the rounding bound, not bit for bit.",
            "Results may differ in their last bits, within the rounding bound.",
            "The result is equal up to rounding; bits may change.",
        ),
    )


def lines_text(changed: Sequence[Change], *, quoting: bool) -> str:
    """The changed lines; quoted, if they are few and short."""
    quoting = quoting and len(changed) <= 2
    moved = _moved_lines(changed)
    if moved:
        return moved
    sentences: list[str] = []
    in_place: list[Change] = []
    for one in changed:
        old, new = (_quoted(one.old), _quoted(one.new)) if quoting else ("", "")
        where, many = capitalised(_line_numbers((one,))), len(one.old) > 1
        become = "become" if many else "becomes"
        if not one.old:
            sentences.append(f"New after line {one.at}: {new}." if new else f"{_new_lines(one)} after line {one.at}.")
        elif not one.new:
            sentences.append(f"{where} {'go' if many else 'goes'}.")
        elif new and old and not many:
            sentences.append(f"{where}, {old}, becomes {new}.")
        elif new:
            sentences.append(f"{where} {become} {new}.")
        elif len(one.new) != len(one.old):
            sentences.append(f"{where} {become} {'one line' if len(one.new) == 1 else f'{len(one.new)} lines'}.")
        else:
            in_place.append(one)
    if in_place:
        only = "Only " if len(in_place) == len(changed) else ""
        one_line = len(in_place) == 1 and len(in_place[0].old) == 1
        sentences.append(capitalised(f"{only}{_line_numbers(in_place)} {'changes' if one_line else 'change'}."))
    return " ".join(sentences)


def _moved_lines(changed: Sequence[Change]) -> str:
    """Lines that only change places; empty where that is not all."""
    if len(changed) != 2 or changed[0].old + changed[1].old != changed[0].new + changed[1].new:
        return ""
    up = not changed[0].old
    new, gone = (changed[0], changed[1]) if up else (changed[1], changed[0])
    if new.old or gone.new:
        return ""
    which = capitalised(_line_numbers((gone,)))
    return f"{which} {'move' if len(gone.old) > 1 else 'moves'} {'up' if up else 'down'}, to follow line {new.at}."


def _new_lines(one: Change) -> str:
    return "A statement is new" if len(one.new) == 1 else f"{capitalised(counted(len(one.new), 'statement'))} are new"


def _before_and_after(context: Context) -> str:
    """The first change, quoted on both sides where it is short enough."""
    one = context.changed[0]
    old, new = _quoted(one.old), _quoted(one.new)
    if not (old and new) or len(context.changed) > 1:
        return lines_text(context.changed, quoting=True)
    return pick(context, "pair", (f"Before: {old}. After: {new}.", f"What was {old} is now {new}."))


def _kept(context: Context) -> str:
    """How much of the text stays as it is."""
    if _moved_lines(context.changed):
        return lines_text(context.changed, quoting=False)
    changed = sum(len(one.old) for one in context.changed)
    kept = 1 + len(context.before.body) - changed
    if kept < 1:
        return ""
    return f"Of {counted(kept + changed, 'line')}, {kept} {'stays' if kept == 1 else 'stay'} as {_they(kept)}."


def _they(count: int) -> str:
    return "it is" if count == 1 else "they are"


def _quoted(lines: tuple[str, ...]) -> str:
    """Lines in backticks; empty where they are too long to quote."""
    return listed(f"`{line}`" for line in lines) if lines and sum(map(len, lines)) <= LONG_LINE else ""


def _line_numbers(found: Sequence[Change]) -> str:
    """The old lines of changes, counted from 1: `line 3`, `lines 2, 4 and 7 to 9`."""
    shown = [str(one.at + 1) if len(one.old) == 1 else f"{one.at + 1} to {one.at + len(one.old)}" for one in found]
    if len(found) == 1 and len(found[0].old) == 2:
        shown = [f"{found[0].at + 1} and {found[0].at + 2}"]
    return f"line{'' if shown == [str(found[0].at + 1)] else 's'} {listed(shown)}"


def _enabled(context: Context) -> str:
    """A step that the program takes now and did not before."""
    call = call_text(context.enabled) if context.enabled else ""
    if not call or len(call) > LONG_CALL:
        return ""
    return pick(
        context,
        "enabled",
        (
            f"It makes {call} possible.",
            f"A step that is legal now, and was not on offer before, is {call}.",
            f"Now {call} can follow.",
            f"After it, {call} is legal; before, it was not on offer.",
            f"This opens the way to {call}.",
            f"{call} becomes legal by it.",
            f"What was not on offer before: {call}.",
            f"One thing that can come next is {call}, which needs this step.",
        ),
    )


def _moved(context: Context) -> str:
    """The totals that differ."""
    old, new = context.numbers_before.totals(), context.numbers_after.totals()
    differ = [name for name in old if _figure(old[name]) != _figure(new[name])]
    if all(state.cost.kernels == len(state.nests) for state in (context.numbers_before, context.numbers_after)):
        differ = [name for name in differ if name != "kernels"]  # each nest is one: that is no news
    same = [name for name in ("equation instances", "operations", "traffic") if old[name] == new[name]]
    if context.numbers_before.traffic != context.numbers_after.traffic and "traffic" in same:
        same.remove("traffic")  # it moves by less than its text shows
    if not differ:
        return _nothing_moved(context, same)
    changes = [f"{name} from {old[name]} to {new[name]}" for name in differ]
    unchanged = f"; {listed(same)} unchanged" if same else ""
    stay = (
        f" {capitalised(listed(same))} {'stays as it was' if same == ['traffic'] else 'stay as they were'}."
        if same
        else ""
    )
    return pick(
        context,
        "moved",
        (
            f"Counted again: {', '.join(changes)}{unchanged}.",
            f"The totals move: {', '.join(changes)}{unchanged}.",
            f"By count, {_instead(differ, old, new)}.{stay}",
            f"The step takes {listed(changes)}.{stay}",
            f"In numbers: {'; '.join(changes)}{unchanged}.",
        ),
    )


def _figure(total: str) -> str:
    """A total as a figure alone: that 512 becomes at most 512 says nothing."""
    return total.removeprefix("at most ")


def _instead(differ: list[str], old: dict[str, str], new: dict[str, str]) -> str:
    """The totals that differ, the new value first: `iterations are 512 instead of 448`."""
    return listed(
        f"{name} {'is' if name == 'traffic' else 'are'} {new[name]} instead of {old[name]}" for name in differ
    )


def _nothing_moved(context: Context, same: list[str]) -> str:
    if len(same) < 3:
        return ""
    return pick(
        context,
        "still",
        (
            "",
            "Equation instances, operations and traffic stay as they were.",
            "Of equation instances, operations and traffic, no total changes.",
        ),
    )
