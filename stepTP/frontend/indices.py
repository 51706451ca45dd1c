"""Subscript arithmetic with known ranges: what `//` and `%` of a reshape come to.

An `Index` is a sum of atoms with integer coefficients and a constant. An atom is a leaf (a loop variable, or any
expression whose range is known) or a quotient or remainder of an index by a positive constant that no rule removes.
Every index has a range, so `(i*5+j)//5` with j in 0..4 is `i`, and `i//5*5+i%5` is `i`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

from leir.syntax import Binary, BinaryOp, Expr, Integer, Unary, Variable


@dataclass(frozen=True, slots=True)
class Leaf:
    """An expression with a value in low..high."""

    expression: Expr
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Quotient:
    base: "Index"
    divisor: int


@dataclass(frozen=True, slots=True)
class Remainder:
    base: "Index"
    divisor: int


Atom = Leaf | Quotient | Remainder


@dataclass(frozen=True, slots=True)
class Index:
    """constant + sum of coefficient * atom; no atom twice, no coefficient zero."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    def __add__(self, other: "Index | int") -> "Index":
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        merged = dict(self.terms)
        for atom, coefficient in other.terms:
            merged[atom] = merged.get(atom, 0) + coefficient
        return _rejoined(Index(tuple((a, c) for a, c in merged.items() if c), self.constant + other.constant))

    def __mul__(self, factor: int) -> "Index":
        if factor == 0:
            return Index()
        return Index(tuple((atom, coefficient * factor) for atom, coefficient in self.terms), self.constant * factor)

    def __sub__(self, other: "Index | int") -> "Index":
        return self + other * -1

    @property
    def low(self) -> int:
        return self.constant + sum(min(c * end for end in atom_range(a)) for a, c in self.terms)

    @property
    def high(self) -> int:
        return self.constant + sum(max(c * end for end in atom_range(a)) for a, c in self.terms)

    @property
    def variable(self) -> str | None:
        """The name, where the index is one loop variable and nothing else."""
        match self:
            case Index(((Leaf(Variable(name)), 1),), 0):
                return name
            case _:
                return None


def loop_index(name: str, extent: int) -> Index:
    """The index of a loop over 0..extent-1."""
    return Index(((Leaf(Variable(name), 0, extent - 1), 1),))


def atom_range(atom: Atom) -> tuple[int, int]:
    """The lowest and highest value that an atom may take."""
    match atom:
        case Leaf(_, low, high):
            return low, high
        case Quotient(base, divisor):
            return base.low // divisor, base.high // divisor
        case Remainder(base, divisor):
            if base.low // divisor == base.high // divisor:
                return base.low % divisor, base.high % divisor
            return 0, divisor - 1


def quotient(index: Index, divisor: int) -> Index:
    """floor(index / divisor), divisor positive."""
    whole, rest = _divided(index, divisor)
    return whole if rest.low // divisor == 0 == rest.high // divisor else whole + _quotient(rest, divisor)


def remainder(index: Index, divisor: int) -> Index:
    """index - divisor * floor(index / divisor), divisor positive."""
    _, rest = _divided(index, divisor)
    turns = rest.low // divisor
    if turns == rest.high // divisor:
        return rest - turns * divisor
    if split := _common_factor(rest, divisor):
        factor, scaled, small = split
        return remainder(scaled, divisor // factor) * factor + small
    match rest:
        case Index(((Remainder(base, outer), 1),), 0) if outer % divisor == 0:
            return remainder(base, divisor)
        case _:
            return Index(((Remainder(rest, divisor), 1),))


def linear(indices: Sequence[Index], shape: Sequence[int]) -> Index:
    """The row-major position of an element in an array of this shape."""
    result = Index()
    for index, size in zip(indices, shape, strict=True):
        result = result * size + index
    return result


def delinearised(position: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The subscripts of the element at a row-major position."""
    return tuple(
        remainder(quotient(position, prod(shape[axis + 1 :])), size) if size > 1 else Index()
        for axis, size in enumerate(shape)
    )


def reshaped(indices: Sequence[Index], shape: Sequence[int], inner: Sequence[int]) -> tuple[Index, ...]:
    """Where the element at `indices` of a view of `shape` lies in the row-major array of shape `inner` behind it.

    The shapes are cut where their partial products meet, so that an axis that a reshape leaves alone is left alone.
    """
    result: list[Index] = []
    outer_start = inner_start = 0
    while inner_start < len(inner):
        outer_end, inner_end = outer_start, inner_start + 1
        while (here := prod(shape[outer_start:outer_end])) != (there := prod(inner[inner_start:inner_end])):
            if here < there:
                outer_end += 1
            else:
                inner_end += 1
        position = linear(indices[outer_start:outer_end], shape[outer_start:outer_end])
        result += delinearised(position, inner[inner_start:inner_end])
        outer_start, inner_start = outer_end, inner_end
    return tuple(result)


def expression(index: Index) -> Expr:
    """The index as LEIR: positive terms, the constant, then negative terms."""
    positive = [_term(atom, c) for atom, c in index.terms if c > 0]
    negative = [_term(atom, -c) for atom, c in index.terms if c < 0]
    if index.constant > 0 or (index.constant == 0 and not index.terms):
        positive.append(Integer(index.constant))
    elif index.constant < 0:
        negative.append(Integer(-index.constant))
    result = positive[0] if positive else Unary("-", negative.pop(0))
    for term in positive[1:]:
        result = Binary("+", result, term)
    for term in negative:
        result = Binary("-", result, term)
    return result


def inside(index: Index, low: int, high: int) -> tuple[Expr, ...]:
    """The comparisons that say low <= index < high, without those that always hold."""
    conditions: list[Expr] = []
    if index.low < low:
        conditions.append(_comparison("<=", Index((), low), index))
    if index.high >= high:
        conditions.append(_comparison("<", index, Index((), high)))
    return tuple(conditions)


def _comparison(op: BinaryOp, left: Index, right: Index) -> Expr:
    return Binary(op, expression(left), expression(right))


def _term(atom: Atom, coefficient: int) -> Expr:
    match atom:
        case Leaf(leaf, _, _):
            base = leaf
        case Quotient(index, divisor):
            base = Binary("//", expression(index), Integer(divisor))
        case Remainder(index, divisor):
            base = Binary("%", expression(index), Integer(divisor))
    return base if coefficient == 1 else Binary("*", base, Integer(coefficient))


def _divided(index: Index, divisor: int) -> tuple[Index, Index]:
    """index = divisor * whole + rest, with what divides evenly in `whole`."""
    whole = Index(tuple((a, c // divisor) for a, c in index.terms if c % divisor == 0), index.constant // divisor)
    rest = Index(tuple((a, c) for a, c in index.terms if c % divisor), index.constant % divisor)
    return whole, rest


def _quotient(rest: Index, divisor: int) -> Index:
    turns = rest.low // divisor
    if turns == rest.high // divisor:
        return Index((), turns)
    if split := _common_factor(rest, divisor):
        factor, scaled, _ = split
        return quotient(scaled, divisor // factor)
    match rest:
        case Index(((Quotient(base, inner), 1),), 0):
            return quotient(base, inner * divisor)
        case Index(((Remainder(base, outer), 1),), 0) if outer % divisor == 0:
            return remainder(quotient(base, divisor), outer // divisor)
        case _:
            return Index(((Quotient(rest, divisor), 1),))


def _common_factor(rest: Index, divisor: int) -> tuple[int, Index, Index] | None:
    """rest = factor * scaled + small with small in 0..factor-1, and factor > 1 dividing the divisor."""
    coefficients = [abs(c) for _, c in rest.terms]
    for factor in sorted({gcd(c, divisor) for c in coefficients} - {1}, reverse=True):
        scaled, small = _divided(rest, factor)
        if small.low >= 0 and small.high < factor and scaled.terms:
            return factor, scaled, small
    return None


def _rejoined(index: Index) -> Index:
    """The index with x//d*d + x%d, at any multiple, put together as x."""
    for atom, coefficient in index.terms:
        if isinstance(atom, Remainder):
            for whole in _quotients(atom.base, atom.divisor):
                quotient_part = whole * (coefficient * atom.divisor)
                merged = dict(index.terms)
                del merged[atom]
                for part, times in (*(quotient_part * -1).terms, *(atom.base * coefficient).terms):
                    merged[part] = merged.get(part, 0) + times
                constant = index.constant - quotient_part.constant + atom.base.constant * coefficient
                rejoined = Index(tuple((a, c) for a, c in merged.items() if c), constant)
                if _weight(rejoined) < _weight(index):
                    return _rejoined(rejoined)
    return index


def _quotients(base: Index, divisor: int) -> Iterator[Index]:
    """The forms that base // divisor may have been given: with x + y//n for the base, also (x*n + y) // (divisor*n)."""
    yield quotient(base, divisor)
    for atom, coefficient in base.terms:
        if isinstance(atom, Quotient) and coefficient == 1:
            rest = Index(tuple(term for term in base.terms if term[0] != atom), base.constant)
            yield quotient(rest * atom.divisor + atom.base, divisor * atom.divisor)


def _weight(index: Index) -> int:
    """How many leaves, divisions and remainders the index is made of."""
    return sum(1 if isinstance(atom, Leaf) else 1 + _weight(atom.base) for atom, _ in index.terms)
