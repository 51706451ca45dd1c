"""Making a program small: which constants of a file to shrink, and how far, until few enough iterations are left.

The search halves one size after another (or divides it by 3 or 5 where it is odd), each time the one whose last
halving saved most, the large before the small. Every choice is run before it is taken, without data, so that a file
stays one that runs. Relations between constants are kept as long as they can be:

1. sizes of one kind that were equal, or 2, 3 or 4 times each other, stay so;
2. then each on its own: still, what divided another goes on dividing it, and twice as large stays twice as large;
3. then also kernel sizes, strides, groups and the like.

No size goes below 2. Where one alone cannot be halved, two are tried together.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log, log2
from typing import Any, Literal

from stepTP.given.constants import constants

Kind = Literal["batch", "features", "space", "structure"]
Place = tuple[str, int | None]  # a name, and which item of its tuple
State = dict[Place, int]
Estimate = Callable[[Mapping[str, Any]], int | None]  # iterations with these constants; None where they do not run

_WORDS: dict[Kind, tuple[str, ...]] = {  # the first kind that has a word of the name
    "structure": (
        "kernel", "stride", "strides", "padding", "pad", "dilation", "groups", "pool", "patch", "window", "block",
        "chunk", "ratio", "rank", "axis", "seed", "stages", "expansion",
    ),
    "batch": ("batch", "batches", "samples"),
    "features": (
        "channels", "features", "feature", "hidden", "embed", "dim", "classes", "heads", "head", "input", "output",
        "inner", "state", "cluster", "clusters", "layer", "layers", "model",
    ),
    "space": (
        "height", "width", "depth", "size", "length", "seq", "sequence", "tokens", "rows", "columns", "image",
        "resolution", "long", "short", "time", "frames",
    ),
}  # fmt: skip
_TILES = ("patch", "window", "block", "chunk")
_RATIOS = (1, 2, 3, 4)
_FACTORS = (2, 3, 5)


class CannotFit(ValueError):
    """The program does not get small enough; the message says how small it gets."""


@dataclass(frozen=True, slots=True)
class Move:
    """Smaller values for some sizes at once. `key` names the sizes, whatever their values."""

    key: tuple[Place, ...]
    state: State


def fit(code: str, limit: int, estimate: Estimate, fixed: Sequence[str] = ()) -> "Search":
    """A search over the constants of `code` but for `fixed`, at `limit` or less. Raises CannotFit, SyntaxError."""
    given = {name: value for name, value in constants(code).items() if name not in fixed}
    numbers: State = {(name, place): n for name, value in given.items() for place, n in _numbers(value) if n > 2}
    search = Search(numbers, given, estimate)
    search.shrink(limit)
    return search


class Search:
    """`values` are the constants to set now, and `cost` the iterations that are left then, both as estimated."""

    def __init__(self, original: State, given: Mapping[str, Any], estimate: Estimate) -> None:
        self.original, self.given, self.estimate = original, given, estimate
        self.state = dict(original)
        self.seen: dict[tuple[int, ...], int | None] = {}
        self.gains: dict[tuple[Place, ...], float] = {}
        self.cost = self._begin()

    @property
    def values(self) -> dict[str, Any]:
        return self._values(self.state)

    def shrink(self, limit: int) -> None:
        """Goes on until the estimate is at most `limit`. Raises CannotFit where no move is left."""
        for groups in (self._tied(), self._single(structure=False), self._single(structure=True)):
            self.gains.clear()
            while self.cost > limit and self._step(groups):
                pass
        while self.cost > limit and (self._take(self._tilings()) or self._step(self._single(structure=True))):
            pass
        if self.cost > limit:
            changed = (
                ", ".join(f"{name}={value}" for name, value in self.values.items()) or "no constant can be smaller"
            )
            raise CannotFit(f"still about {self.cost} iterations ({changed}): allow more, or set its sizes")

    def _begin(self) -> int:
        """The first cost that can be told: a program of very many ops is made small all over until it can."""
        while (cost := self._cost(self.state)) is None:
            smaller = dict(self.state)
            for place, number in self.state.items():
                if number > 8 and _kind(place) != "structure":
                    smaller[place] = _reduced(number) or number
            if smaller == self.state:
                raise CannotFit("it does not run with its own sizes, nor with smaller ones")
            self.state = smaller
        return cost

    def _step(self, groups: list[tuple[Place, ...]]) -> bool:
        """Takes the best move; False if there is none."""
        moves = [move for group in groups if (move := self._move(group))]
        if self._take(moves):
            return True
        powers = [move for group in groups if (move := self._power(group))]
        if self._take(powers):
            return True
        stuck = [m for m in moves if self._cost(m.state) is None or not self._keeps_relations(m.state)]
        together = [
            Move(a.key + b.key, {**self.state, **_changes(self.state, a.state), **_changes(self.state, b.state)})
            for a, b in combinations(moves, 2)
            if a in stuck or b in stuck
        ]
        return self._take(together)

    def _tilings(self) -> list[Move]:
        """A tile and what it tiles, both down to powers of two: windows of 7 in 56 become windows of 4 in 32."""
        powers = [move for group in self._single(structure=True) if (move := self._power(group, least=2))]
        return [
            Move(a.key + b.key, {**self.state, **_changes(self.state, a.state), **_changes(self.state, b.state)})
            for a, b in combinations(powers, 2)
            if any(word in _TILES for place in a.key + b.key for word in _words(place))
        ]

    def _take(self, moves: list[Move]) -> bool:
        moves = [move for move in moves if self._keeps_relations(move.state)]
        for move in moves:
            if move.key not in self.gains:
                cost = self._cost(move.state)
                self.gains[move.key] = log(self.cost / max(cost, 1)) if cost else 0.0
        score = {move.key: self.gains[move.key] * log2(max(self.state.get(p, 2) for p in move.key)) for move in moves}
        for move in sorted(moves, key=lambda move: -score[move.key]):
            cost = self._cost(move.state) if self.gains[move.key] > 0 else None
            if cost is not None and cost < self.cost:
                self.gains[move.key] = log(self.cost / max(cost, 1))
                self.state, self.cost = move.state, cost
                return True
        return False

    def _move(self, group: tuple[Place, ...]) -> Move | None:
        """All sizes of a group divided by one factor, or the one size that they all are made about half."""
        numbers = [self.state[place] for place in group]
        for factor in _FACTORS:
            if all(number % factor == 0 and number // factor >= 2 for number in numbers):
                return Move(group, {**self.state, **{place: self.state[place] // factor for place in group}})
        if len(set(numbers)) == 1 and (half := _reduced(numbers[0])):
            return Move(group, {**self.state, **dict.fromkeys(group, half)})
        return None

    def _power(self, group: tuple[Place, ...], least: int = 8) -> Move | None:
        """The one size that all of a group have, down to a power of two: where half of it would be too small."""
        number = self.state[group[0]]
        power = 1 << ((number - 1).bit_length() - 1)
        if power < least or any(self.state[place] != number for place in group):
            return None
        return Move((*group, ("power", None)), {**self.state, **dict.fromkeys(group, power)})

    def _tied(self) -> list[tuple[Place, ...]]:
        """Sizes of one kind that are small multiples of each other, as groups."""
        groups: list[list[Place]] = []
        for place in self.original:
            near = [group for group in groups if any(self._is_tied(place, other) for other in group)]
            groups = [group for group in groups if group not in near]
            groups.append([*(other for group in near for other in group), place])
        return [tuple(group) for group in groups if _kind(group[0]) != "structure"]

    def _single(self, structure: bool) -> list[tuple[Place, ...]]:
        return [(place,) for place in self.original if structure or _kind(place) != "structure"]

    def _is_tied(self, a: Place, b: Place) -> bool:
        low, high = sorted((self.state[a], self.state[b]))
        return _kind(a) == _kind(b) and _kind(a) not in ("batch", "structure") and high in [r * low for r in _RATIOS]

    def _keeps_relations(self, state: State) -> bool:
        """What divides another size as the file is written still does, and is still less than it where it was."""
        for a, b in combinations(self.original, 2):
            large, small = (a, b) if self.original[a] >= self.original[b] else (b, a)
            if self.original[large] % self.original[small] or not _related(large, small):
                continue
            factor = 2 if self.original[large] > self.original[small] else 1
            if state[large] % state[small] or state[large] < factor * state[small]:
                return False
        return True

    def _cost(self, state: State) -> int | None:
        key = tuple(state.values())
        if key not in self.seen:
            self.seen[key] = self.estimate(self._values(state))
        return self.seen[key]

    def _values(self, state: State) -> dict[str, Any]:
        """The constants that are not as the file has them."""
        changed: dict[str, Any] = {}
        for name, value in self.given.items():
            if isinstance(value, tuple | list):
                new = type(value)(state.get((name, place), item) for place, item in enumerate(value))
            else:
                new = state.get((name, None), value)
            if new != value:
                changed[name] = new
        return changed


def _numbers(value: Any) -> Iterator[tuple[int | None, int]]:
    """The integers of a constant, each with its place in a tuple."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield None, value
    elif isinstance(value, tuple | list):
        yield from ((n, item) for n, item in enumerate(value) if isinstance(item, int) and not isinstance(item, bool))


def _kind(place: Place) -> Kind:
    for kind, known in _WORDS.items():
        if any(word in known for word in _words(place)):
            return kind
    return "features"


def _related(large: Place, small: Place) -> bool:
    """Whether it means something that one size divides the other: groups divide channels, patches an image."""
    kinds = {_kind(large), _kind(small)}
    if kinds == {"features"} or kinds == {"space"}:
        return True
    words = _words(small)
    if kinds == {"features", "structure"}:
        return "groups" in words
    return kinds == {"space", "structure"} and any(word in words for word in _TILES)


def _words(place: Place) -> list[str]:
    return [word.rstrip("0123456789") for word in re.split(r"_+", place[0].lower())]


def _reduced(number: int) -> int | None:
    """About half of it, odd where it was odd; None where that is below 2 or no less."""
    for factor in _FACTORS:
        if number % factor == 0 and number // factor >= 2:
            return number // factor
    half = (number + 1) // 2
    half += number % 2 and half % 2 == 0
    return half if 2 <= half < number else None


def _changes(before: State, after: State) -> State:
    return {place: number for place, number in after.items() if number != before[place]}


def is_structure(name: str) -> bool:
    """Whether a constant says what a program does (a kernel's size, an axis), not how much of it there is."""
    return name in ("dim", "axis") or _kind((name, None)) == "structure"
