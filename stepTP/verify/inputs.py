"""Input draws: what a program is verified on, reproducible from a key on every machine.

Every array comes from a generator of its own, seeded with the SHA-256 of (seed, source, kind, draw, attempt, tensor): a
draw does not depend on which others are made. The generator is NumPy's `RandomState`, whose streams are frozen.

    normal     standard normal
    wide       normal numbers times powers of two: from 2^-3 to 2^3 for each element, and from 2^-10 to 2^6 for the rows
               of the last axis, so that small constants in the formula (an epsilon) come to count in some
    integers   whole numbers from -3 to 3: sums and products of them are exact
    edge       zeros, repeated values, ones, and large negative values as masks use them, among normal numbers
    extremes   along every axis: lines that are wholly negative or wholly positive, and lines whose largest or smallest
               element is the first or the last: what a maximum that misses one iteration, or starts at 0, gets wrong
    peaks      one element in four (fewer where lines are longer than 2048), at other places in the next line, is 256
               (in odd draws -256), the others are normal: a sum of exponentials has few terms then, and each of them
               counts, however long it is; a maximum that misses one makes exp overflow. In even draws every third
               line of an axis is lower by 512: a maximum that starts at 0 makes exp underflow

A draw on which the reference is not finite, or for which no bound exists, says nothing; the next attempt takes its
place. Where bounds exist but are wide, the first attempt with sharp ones joins it. Attempts grow tamer: smaller
magnitudes, then positive values, for programs that divide, take logarithms or exponentiate. Inputs keep what their
samples from `get_inputs()` show: from the second attempt on, values that are never negative stay so; integers stay in
their range (class numbers), and where subscripts read them in what these allow; masks stay masks with no row wholly
masked. Parameters keep their values in even draws of the normal kind and are drawn, at the scale of their values, in
all others. No input holds NaN or infinity.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leir.arrays import array_type
from leir.syntax import Declaration, DType
from stepTP.verify.formats import FORMATS

Array = NDArray[Any]
Kind = Literal["normal", "wide", "integers", "edge", "extremes", "peaks"]

KINDS: tuple[Kind, ...] = ("normal", "wide", "integers", "edge", "extremes", "peaks")
ATTEMPTS = 6  # keys tried for one draw
MASKED = -1e4  # what masks add; -inf never enters by an input
_MASK_AT = -1e3  # samples below this are masks
_EDGES = (0.0, 0.0, 1.0, -1.0, 0.5, -30.0)
_SPIKE = 6.0  # beyond what normal draws reach
_PEAK = 256.0  # exp overflows in f32
_PEAKS = 512  # in a line, at most: so many terms of a sum in f32 are each far more than its tolerance
_APART = 4  # lines that have their peaks at different places, at least
_LARGE = -1e3  # in first attempts, one element in 50


@dataclass(frozen=True, slots=True)
class Draw:
    """The identity of a draw: its kind, its number among those of the kind, and the attempt that was taken."""

    kind: Kind
    number: int
    attempt: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.number}" + (f".{self.attempt}" if self.attempt else "")


@dataclass(frozen=True, slots=True)
class Profile:
    """What one input is like. `low`, `high`: of its samples, or of the range that a precondition leaves.

    `reference`: the value of a parameter, None for an argument. `fixed`: never drawn.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    low: float
    high: float
    reference: Array | None = None
    fixed: bool = False

    @property
    def is_mask(self) -> bool:
        return self.dtype == "bool" or (self.dtype in FORMATS and self.low <= _MASK_AT)

    @property
    def is_never_negative(self) -> bool:
        return self.low >= 0 < self.high

    @property
    def is_like_probabilities(self) -> bool:
        return self.reference is None and self.low >= 0 and 0 < self.high <= 1

    @property
    def scale(self) -> float:
        """Of a parameter: the root of the mean square of its values, 1 where that is 0; of an argument: 1."""
        if self.reference is None:
            return 1.0
        size = float(np.sqrt(np.mean(np.square(self.reference, dtype=np.float64))))
        return size if 0 < size < np.inf else 1.0


def profile(
    declaration: Declaration,
    samples: Sequence[Array],
    *,
    is_parameter: bool = False,
    fixed: bool = False,
    allowed: tuple[int, int] | None = None,
) -> Profile:
    """The profile of an input from sample values, at least one; `allowed`: the range that gathers need, inclusive."""
    low = min(float(np.min(sample)) for sample in samples)
    high = max(float(np.max(sample)) for sample in samples)
    if allowed:
        low, high = float(max(low, allowed[0])), float(min(high, allowed[1]))
        if low > high:
            low, high = map(float, allowed)
    reference = samples[0] if is_parameter or fixed else None
    return Profile(declaration.tensor, declaration.dtype, declaration.shape, low, high, reference, fixed)


def free_profile(declaration: Declaration, allowed: tuple[int, int] | None = None) -> Profile:
    """The profile of an input of which only the declaration is known: any sign, integers 0 to 3 or as `allowed`."""
    if declaration.dtype in FORMATS:
        return Profile(declaration.tensor, declaration.dtype, declaration.shape, -1.0, 1.0)
    low, high = allowed or (0, 1 if declaration.dtype == "bool" else 3)
    return Profile(declaration.tensor, declaration.dtype, declaration.shape, low, high)


def draw_inputs(profiles: Sequence[Profile], draw: Draw, seed: int, source: str) -> dict[str, Array]:
    """The inputs of a draw by name, as arrays of the declared dtypes (bf16: float32 arrays of bf16 numbers)."""
    return {
        profile.name: _value(profile, draw, generator(seed, source, draw.kind, draw.number, draw.attempt, profile.name))
        for profile in profiles
    }


def generator(*key: int | str) -> np.random.RandomState:
    """The generator of a key."""
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    return np.random.RandomState(np.frombuffer(digest, dtype="<u4"))


def _value(profile: Profile, draw: Draw, random: np.random.RandomState) -> Array:
    if profile.reference is not None and (profile.fixed or (draw.kind == "normal" and draw.number % 2 == 0)):
        return profile.reference
    if profile.is_mask:
        return _mask(profile, random)
    if profile.dtype not in FORMATS:
        span = int(profile.high) - int(profile.low) + 1
        values = int(profile.low) + random.randint(0, 2**31 - 1, profile.shape) % span
        return values.astype(array_type(profile.dtype)).reshape(profile.shape)
    values = _floats(draw, random, profile.shape)
    keeps_sign = profile.reference is not None or draw.attempt >= 1
    if (profile.is_never_negative and keeps_sign) or draw.attempt >= 3:
        values = np.abs(values)
        if profile.low > 0 or draw.attempt >= 3:
            values = np.where(values == 0, 1.0, np.maximum(values, 0.25))
    if draw.kind != "integers":
        values = values * profile.scale
        if profile.is_like_probabilities and keeps_sign:
            values = values / (1 + values)
    return round_to(profile.dtype, values).reshape(profile.shape)


def _floats(draw: Draw, random: np.random.RandomState, shape: tuple[int, ...]) -> Array:
    """Values of a kind; later attempts are tamer."""
    tame = draw.attempt
    match draw.kind:
        case "normal":
            return random.standard_normal(shape) / 2.0**tame
        case "wide":
            values = random.standard_normal(shape) * np.exp2(random.randint(-3, 4, shape).astype(float))
            rows = shape[:-1] or (1,)
            exponents = np.linspace(-10.0, 6.0 - 2 * tame, int(np.prod(rows)))
            return values * np.exp2(np.rint(random.permutation(exponents))).reshape((*shape[:-1], *(1,) * bool(shape)))
        case "integers":
            return (
                random.randint(-3, 4, shape).astype(float) if tame < 2 else random.randint(-1, 2, shape).astype(float)
            )
        case "edge":
            values = random.standard_normal(shape)
            chosen = random.randint(0, 2 * len(_EDGES), shape)  # half of the elements stay normal
            for number, edge in enumerate(_EDGES):
                values = np.where(chosen == number, edge / 2.0**tame, values)
            large = random.randint(0, 50, shape) == 0
            return np.where(large, _LARGE, values) if tame == 0 else values
        case "extremes":
            return _extremes(random, shape, draw.number) / 2.0**tame
        case "peaks":
            peaks, low = _peaks(shape, draw.number // 2), _low_lines(shape, draw.number // 2)
            values = np.where(peaks, -_PEAK if draw.number % 2 else _PEAK, random.standard_normal(shape) * 2.0**tame)
            return np.where(low & (draw.number % 2 == 0), values - 2 * _PEAK, values) / 2.0**tame


def _extremes(random: np.random.RandomState, shape: tuple[int, ...], number: int) -> Array:
    """Normal numbers with six special lines along each axis, as far as there is room.

    Where lines cross, the later one stays whole: in draw 0 those along the last axis, then those before it.
    """
    values = np.asarray(random.standard_normal(shape))
    axes = [(axis - number) % len(shape) for axis in range(len(shape))]
    starts = {axis: random.permutation(values.size // shape[axis])[:6] for axis in axes}
    for order, axis in enumerate(axes):
        for turn, line in enumerate(_lines(values, axis, starts[axis][2:])):
            line[0 if turn < 2 else -1] = (_SPIKE + order) * (1.0 if turn % 2 else -1.0)
    for axis in axes:
        for turn, line in enumerate(_lines(values, axis, starts[axis][:2])):
            line[...] = (np.abs(line) + 0.1) * (1.0 if turn else -1.0)
    return values


def _peaks(shape: tuple[int, ...], number: int) -> Array:
    """Where peaks are: a pattern that along every axis shows each position to be one in some line, or in some draw."""
    longest = max(shape, default=1)
    apart = min(longest, max(_APART, -(-longest // _PEAKS)))
    return (np.indices(shape).sum(axis=0) + number) % apart == 0


def _low_lines(shape: tuple[int, ...], number: int) -> Array:
    """Every third line along the last axis, in later draws along the axes before it."""
    places = np.indices(shape)
    others = [places[axis] for axis in range(len(shape)) if axis != (-1 - number) % len(shape)]
    return sum(others, np.zeros(shape, int)) % 3 == 2


def _lines(values: Array, axis: int, starts: Array) -> list[Array]:
    """Views of the lines along an axis, by their numbers."""
    lines = np.moveaxis(values, axis, -1)
    return [lines[np.unravel_index(start, lines.shape[:-1])] for start in starts]


def _mask(profile: Profile, random: np.random.RandomState) -> Array:
    """A mask that keeps about two thirds, and the first element of every row of its last axis in any case."""
    keep = np.atleast_1d(np.asarray(random.randint(0, 3, profile.shape) > 0))
    keep[..., 0] = True
    if profile.dtype == "bool":
        return keep.reshape(profile.shape)
    return round_to(profile.dtype, np.where(keep, 0.0, MASKED)).reshape(profile.shape)


def round_to(dtype: DType, values: Array) -> Array:
    """Float values rounded once to a float dtype, as an array of its type."""
    if dtype != "bf16":
        return np.asarray(values).astype(array_type(dtype))
    # The nearest bf16, ties to even: the upper half of a float32 after adding just less than half of its last place.
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)
