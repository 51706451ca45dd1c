"""The workers' tasks of the heuristic policy: schedules for the nests of a program, as moves of atomic steps.

At a state, the nests that nobody has scheduled are taken in the order of the text, each, or the group that begins
there, by the first rule of the experts that is legal. That is the first move. Beside it, for the largest nest every
rule that fits is a move, with all others by their first rules: a program is timed when all of it is scheduled.
Temporaries that cost more to store than to compute again go first. Where nothing is left to schedule, single steps are
ranked by the cost model.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from leir.edit import walk
from leir.parser import parse
from leir.syntax import Loop, Program
from schedules.trajectory import Trajectory
from stepTP.search.experts import attention, convolutions, maps, products, rows, sums
from stepTP.search.experts.nests import Nest, as_product, plain_nests
from stepTP.search.experts.rule import Rule
from stepTP.search.experts.simplify import simplify
from stepTP.search.work import Found, rank
from strategies.base import Refused

# For nests that are no products and begin no group of rows; the last takes what is left.
EXPERTS: tuple[Callable[[Nest], Iterator[Rule]], ...] = (convolutions.rules, sums.rules, maps.rules)
FINISHING = ("loop_unrolling", "loop_vectorization", "operator_fusion", "set_storage_layout", "set_storage_scope")
WHOLE = "all nests by their first rules"
_SMALL = 64  # iterations
_MOST_NESTS = 64  # of one move


def outline(payload: dict[str, Any]) -> list[str]:
    """Which moves there may be at a state, each a word to ask `plan` for it by; none where nothing is to schedule."""
    if payload["target"] != "cuda":
        return []
    start = _start(payload)
    largest = _largest(start.program)
    if largest is None:
        return []
    whole = [rule.why for rule in attention.rules(parse(payload["leir"]))]
    each = (rule.why for rule in rules_at(start.program, largest))
    return [*whole, WHOLE, *islice(each, max(1, payload["wanted"] - 1 - len(whole)))]


def plan(payload: dict[str, Any]) -> dict[str, Any]:
    """One move at a state, or none: payload as for `stepTP.search.work.draw`, and `rule`, a word of `outline`."""
    found, program = Found(payload["target"]), parse(payload["leir"])
    for rule in attention.rules(program):
        if rule.why == payload["rule"]:
            made = Trajectory(program)
            if _applies(made, rule, 0):
                found.add(made, rule.why)
            return found.answer()
    made = _whole(_start(payload), "" if payload["rule"] == WHOLE else payload["rule"])
    if made is not None and made.steps:
        found.add(made, payload["rule"])
    return found.answer()


def finish(payload: dict[str, Any]) -> dict[str, Any]:
    """Single steps ranked by the cost model, of the strategies that change a finished schedule a little."""
    if payload["target"] == "cuda":
        payload = {**payload, "strategies": [name for name in payload["strategies"] if name in FINISHING]}
    return rank(payload)


def _start(payload: dict[str, Any]) -> Trajectory:
    """The trajectory at a state, with the temporaries gone that are better computed again."""
    start = Trajectory(parse(payload["leir"]))
    if not _is_scheduled(start.program):
        simplify(start)
    return start


def rules_at(program: Program, number: int) -> Iterator[Rule]:
    """Every rule that fits the nest at a place, or the group that begins there; the most promising first."""
    nests = plain_nests(program)
    if as_product(nests[number]) is not None:
        yield from products.rules(nests[number])
        yield from maps.rules(nests[number])
        return
    group = _group(program, nests, number)
    if group is not None:
        yield from rows.rules(group)
    for expert in EXPERTS:
        yield from expert(nests[number])


def _whole(start: Trajectory, wanted: str) -> Trajectory | None:
    """The trajectory that schedules nest after nest, each by the first rule that is legal; None where one has none.

    `wanted`: the rule of the largest nest, if that is not free.
    """
    made = _after(start)
    largest = _largest(made.program) if wanted else None
    chosen = None if largest is None else plain_nests(made.program)[largest].equation
    for _ in range(_MOST_NESTS):
        number = _begun(made.program)
        if number is None:
            return made
        is_chosen = plain_nests(made.program)[number].equation == chosen
        for rule in rules_at(made.program, number):
            if is_chosen and rule.why != wanted:
                continue
            tried = _after(made)
            if _applies(tried, rule, number):
                made = tried
                break
        else:
            return None
    return None


def _largest(program: Program) -> int | None:
    """Of what nobody has scheduled, where the nest of most iterations is, or its group begins; of equals the first."""
    nests, weights = plain_nests(program), dict[int, int]()
    inside = -1
    for number, nest in nests.items():
        if number <= inside or _is_small(nest):
            continue
        group = _group(program, nests, number)
        members = range(number, number + (group.count if group else 1))
        inside = members[-1]
        weights[number] = max(nests[member].runs for member in members)
    return max(weights, key=lambda number: weights[number]) if weights else None


def _group(program: Program, nests: dict[int, Nest], number: int) -> rows.Group | None:
    """The group of rows that begins with a nest, if one does."""
    if as_product(nests[number]) is not None:
        return None
    return rows.group_at(nests, number, tuple(declared.tensor for declared in program.outputs))


def _begun(program: Program) -> int | None:
    """The first nest that nobody has scheduled and that a rule may fit; one that pads an image waits for its reader."""
    nests = plain_nests(program)
    outputs = {declared.tensor for declared in program.outputs}
    found = {number: nest for number, nest in nests.items() if not _is_small(nest)}
    waiting = [
        number
        for number, nest in found.items()
        if nest.equation.target.tensor not in outputs and convolutions.is_padding(nest, nests.values())
    ]
    return next((number for number in found if number not in waiting), next(iter(found), None))


def _is_small(nest: Nest) -> bool:
    """Whether a nest combines the last parts of a reduction: one thread does that as fast as several."""
    return bool(nest.reduced) and nest.runs <= _SMALL


def _is_scheduled(program: Program) -> bool:
    return any(isinstance(node, Loop) and node.kind != "L" for _, node in walk(program))


def _applies(made: Trajectory, rule: Rule, number: int) -> bool:
    """Whether the rule's steps are all legal; they are taken."""
    try:
        rule.apply(made, number)
    except Refused:
        return False
    return True


def _after(start: Trajectory) -> Trajectory:
    """A trajectory that goes on from another's last state, with its steps."""
    made = Trajectory(start.states[0])
    made.states, made.steps, made.applied = list(start.states), list(start.steps), list(start.applied)
    return made
