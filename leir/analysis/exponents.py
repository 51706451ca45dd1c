"""Exponentials that belong to one share, as those of a softmax: a term over the sum that it is one of.

Verification allows a share p what errors of the exponents make of p and 1-p (`stepTP.verify.shares`). Where one term is
nearly all of the sum, that is next to nothing, however large the scores are: the same rounding above and below the line
cancels. A score of 100 that is rounded once more above the line than below it moves the share by 100 u, and is not
covered by what is allowed for the score itself.

So the exponentials that meet in a product or a quotient with a sum of exponentials, its terms among them, are kept
alike: what changes the exponent of some and not of all has to be small itself.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from leir.analysis.intervals import largest_magnitude
from leir.analysis.values import Ranges
from leir.edit import accesses, statement_at, walk, walk_expression
from leir.remembered import remembered
from leir.syntax import Access, Binary, Call, Cast, Equation, Expr, Path, Place, Program, Select, Unary, operands

# Estimated, not proved: of eight terms or more none is nearly all of the sum then. Ranges of calls are a little wide.
LARGEST_EXPONENT = 2.0 * (1 + 1e-5)
_Sites = frozenset[Place]


@dataclass(frozen=True, slots=True)
class Apart:
    """A part of the exponent of `own` and not of `other`, an exponential of the same share.

    `most`: of the part's magnitude, as the exponent has it; infinite where that is not known.
    """

    own: Place
    other: Place
    most: float

    @property
    def is_small(self) -> bool:
        return self.most <= LARGEST_EXPONENT


def set_apart(found: Ranges, path: Path, within: Path) -> Apart | None:
    """What another rounding of a part of a value would set apart; None if no two exponentials of one share.

    `within`: of the part, from the equation on, as places number it.
    """
    shares = _shares(found.program)
    if not shares.groups:
        return None
    equation = statement_at(found.program, path)
    assert isinstance(equation, Equation)
    around = frozenset(place for place in shares.exponents if place.path == path and _is_below(within, place.within))
    through = frozenset(p for p, read in shares.exponents.items() if equation.target.tensor in read) - around
    for changed, inside in ((around, True), (through, False)):
        for group in shares.groups:
            if changed & group and group - changed:
                own, other = min(changed & group, key=_order), min(group - changed, key=_order)
                return Apart(own, other, _size(found, equation, path, within) if inside else math.inf)
    return None


def _order(place: Place) -> tuple[Path, Path]:
    return place.path, place.within or ()


def _is_below(within: Path, outer: Path | None) -> bool:
    """Whether a place lies below another, and is not that place itself."""
    return outer is not None and len(within) > len(outer) and within[: len(outer)] == outer


def _size(found: Ranges, equation: Equation, path: Path, within: Path) -> float:
    """The magnitude of a part as the next exponent around it has it; infinite where none is known."""
    chain: list[Expr] = [equation.value]
    for number in within[1:]:
        chain.append(operands(chain[-1])[number])

    def magnitude(length: int) -> float:
        bounds = found.at(Place(path, within[:length]))
        return math.inf if bounds.nan else largest_magnitude(bounds)

    size, summed = magnitude(len(within)), False
    for length in range(len(within) - 1, 0, -1):
        match chain[length - 1]:
            case Call("exp"):
                return size
            case Binary("+" | "-"):
                summed = True
            case Binary("*" | "/") if not summed:
                size = max(size, magnitude(length))
            case Call("tanh"):
                size = size if summed else min(size, 1.0)
            case Unary("-") | Call("abs" | "max" | "min") | Select() | Cast():
                pass
            case _:
                return math.inf
    return math.inf


@dataclass(slots=True)
class _Shares:
    """The exponentials of a program, each with all tensors that its exponent comes from; and those of one share."""

    program: Program
    writes: dict[str, list[tuple[Path, Equation]]] = field(default_factory=dict[str, list[tuple[Path, Equation]]])
    exponents: dict[Place, frozenset[str]] = field(default_factory=dict[Place, frozenset[str]])
    groups: list[_Sites] = field(default_factory=list[_Sites])
    _made_of: dict[str, _Sites] = field(default_factory=dict[str, _Sites])
    _sums: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        for path, node in walk(self.program):
            if isinstance(node, Equation):
                self.writes.setdefault(node.target.tensor, []).append((path, node))
        calls = [
            (Place(path, within), part)
            for path, equation in self._equations()
            for within, part in walk_expression(equation.value, (1,))
            if isinstance(part, Call) and part.function == "exp"
        ]
        if len(calls) < 2:
            return
        self.exponents = {place: self._read(call) for place, call in calls}
        self._follow()
        groups: dict[_Sites, None] = {}
        for path, equation in self._equations():
            for within, part in walk_expression(equation.value, (1,)):
                match part:
                    case Binary("*" | "/", left, right) if self._is_sum(left) or self._is_sum(right):
                        sites = [self._sites(e, path, (*within, n)) for n, e in enumerate((left, right))]
                        groups |= {sites[0] | sites[1]: None} if all(sites) else {}
                    case _:
                        pass
        self.groups = [group for group in groups if len(group) > 1]

    def _equations(self) -> Iterator[tuple[Path, Equation]]:
        for writes in self.writes.values():
            yield from writes

    def _read(self, expression: Expr) -> frozenset[str]:
        """The tensors that an expression is computed from."""
        found: set[str] = set()
        waiting = [access.tensor for access in accesses(expression)]
        while waiting:
            tensor = waiting.pop()
            if tensor not in found:
                found.add(tensor)
                waiting += [a.tensor for _, equation in self.writes.get(tensor, ()) for a in accesses(equation.value)]
        return frozenset(found)

    def _follow(self) -> None:
        """Which exponentials each tensor is made of, exponents left out, and which of them are sums of exponentials."""
        size = -1
        while size != (size := sum(map(len, self._made_of.values())) + len(self._sums)):
            for path, equation in self._equations():
                tensor = equation.target.tensor
                sites = self._sites(equation.value, path, (1,))
                self._made_of[tensor] = self._made_of.get(tensor, frozenset()) | sites
                if sites and (equation.op == "+=" or self._is_sum(equation.value)):
                    self._sums.add(tensor)

    def _sites(self, expression: Expr, path: Path, within: Path) -> _Sites:
        """The exponentials that a value is made of, exponents left out."""
        match expression:
            case Call("exp"):
                return frozenset({Place(path, within)})
            case Access(tensor):
                return self._made_of.get(tensor, frozenset())
            case _:
                below = [self._sites(e, path, (*within, n)) for n, e in enumerate(operands(expression))]
                return _Sites().union(*below)

    def _is_sum(self, expression: Expr) -> bool:
        """Whether a value has a sum of exponentials in it, exponents left out."""
        match expression:
            case Call("exp"):
                return False
            case Access(tensor):
                return tensor in self._sums
            case _:
                return any(map(self._is_sum, operands(expression)))


@remembered
def _shares(program: Program) -> _Shares:
    return _Shares(program)
