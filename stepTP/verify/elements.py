"""The elements of one tensor under error analysis: each a `Running` value whose sum may still grow."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.syntax import AssignOp, DType
from stepTP.verify import tolerance
from stepTP.verify.formats import FORMATS
from stepTP.verify.shares import Summed, Sums, log_of_roundings, rest_of, sum_log_error
from stepTP.verify.tolerance import RESCALED_TERM_ROUNDINGS, Running

Array = NDArray[Any]

_ABOVE_UNDERFLOW = 40  # bits: so far above the smallest numbers underflow is no rounding


@dataclass(frozen=True, slots=True)
class Bounded:
    """An output in float64, and for each element how far a right result may lie from it; inf: no bound."""

    value: Array
    error: Array
    magnitude: Array


class Elements:
    """A tensor of `shape`, its elements in flat arrays; `value` starts as zeros or as what an input holds."""

    def __init__(self, shape: tuple[int, ...], dtype: DType, value: Array | None = None) -> None:
        self.shape = shape
        self.dtype: DType = dtype
        self.format = format = FORMATS.get(dtype)
        self.size = math.prod(shape)
        kind = np.float64 if format else np.int64
        self.value = np.zeros(self.size, kind) if value is None else value.astype(kind).reshape(-1)
        self.error = np.zeros(self.size)
        self.magnitude = np.abs(self.value).astype(float)
        self.terms = np.ones(self.size)
        self.left_out = np.zeros(self.size)  # of what was stored; accumulations leave nothing out that counts later
        self.gridded = np.asarray(tolerance.exact(self.value, format).gridded) & np.ones(self.size, bool)
        self.cost = 1.0
        self.from_exp = False
        self.op: AssignOp | None = None  # of the accumulation under way
        self.contents = object()  # another one after each change
        self.log_error: Array | None = None  # of positive elements, see Running
        self.summed: Summed | None = None  # the one accumulation that made these elements
        self.sums: Sums | None = None  # what is known of its terms
        self._complete: Running | None = None

    def fill(self, identity: float) -> None:
        """Every element becomes an accumulation of no terms."""
        if self.format is None and math.isinf(identity):
            identity = np.iinfo(np.int64).min if identity < 0 else np.iinfo(np.int64).max
        self.value[:] = identity
        self.magnitude[:] = 0.0 if math.isinf(identity) else abs(identity)
        self.terms[:] = 0.0

    def complete(self) -> Running:
        """All elements with their whole error."""
        if self._complete is None:
            running = Running(self.value, self.error, self.magnitude, self.terms, self.gridded)
            done = tolerance.settled(running, self.format, self.cost)
            error = done.error if np.any(done.error) else 0.0
            left_out = self.left_out if self.left_out.any() else 0.0
            self._complete = Running(done.value, error, done.magnitude, 1.0, done.gridded, left_out=left_out)
        return self._complete

    def change(self) -> None:
        """What was known of the elements as a whole no longer holds."""
        self._complete = None
        self.contents = object()
        self.summed = self.sums = self.log_error = None

    def settle(self) -> None:
        """Ends all sums: another operator goes on from here."""
        self.error[:] = self.complete().error
        self.terms[:] = np.minimum(self.terms, 1.0)

    def forget(self) -> None:
        """No element has a bound any more."""
        self.error[:] = np.inf
        self.change()

    def read(self, flat: Array) -> Running:
        """The elements at flat positions."""
        done = self.complete()
        error = 0.0 if isinstance(done.error, float) else np.asarray(done.error)[flat]
        gridded = np.broadcast_to(np.asarray(done.gridded), self.size)[flat]
        log_error = None if self.log_error is None else self.log_error[flat]
        magnitude = np.asarray(done.magnitude)[flat]
        left_out = 0.0 if isinstance(done.left_out, float) else np.asarray(done.left_out)[flat]
        return Running(self.value[flat], error, magnitude, 1.0, gridded, self.from_exp, log_error, left_out)

    def bounded(self) -> Bounded:
        done = self.complete()
        error = np.broadcast_to(np.asarray(done.error, dtype=float), self.size)
        magnitude = np.where(np.isinf(self.value), 0.0, self.magnitude)
        return Bounded(self.value.reshape(self.shape), error.reshape(self.shape), magnitude.reshape(self.shape))

    def _counted(self, a: Running, magnitude: Array, iterations: int) -> Array | float:
        """How many terms each value counts for in a sum whose terms have the absolute sum `magnitude` so far.

        Rounding to nearest never takes more than the smaller operand: a term far below the others' last place costs its
        own size (three times, where the sum is stored in a narrower type), and one that is 0 nothing.
        """
        if self.format is None or iterations * self.format.roundoff > 1:
            return a.terms
        place = self.format.roundoff * magnitude
        return np.minimum(a.terms, np.divide(3.0 * np.asarray(a.magnitude), np.where(place > 0, place, 1.0)))

    def store(self, written: Array, a: Running, mask: Array | None, grid: tuple[int, ...]) -> None:
        """Stores at flat positions, none of them twice. `written`, `mask`, `a` broadcast over the iterations `grid`."""
        chosen = None if mask is None else np.broadcast_to(mask, grid)
        where = np.broadcast_to(written, grid)
        where = where if chosen is None else where[chosen]

        def put(array: Array, part: Any) -> None:
            whole = np.broadcast_to(np.asarray(part), grid)
            array[where] = whole if chosen is None else whole[chosen]

        put(self.value, a.value)
        put(self.error, a.error)
        put(self.magnitude, a.magnitude)
        put(self.gridded, a.gridded)
        put(self.left_out, a.left_out)
        self.terms[where] = 1.0
        self.from_exp = a.from_exp
        kept = self.log_error
        self.change()
        if a.log_error is not None:
            self.log_error = np.full(self.size, np.inf) if kept is None else kept
            put(self.log_error, a.log_error)

    def accumulate(
        self,
        op: AssignOp,
        written: Array,
        a: Running,
        mask: Array | None,
        grid: tuple[int, ...],
        kept: list[int],
        injective: bool,
        summed: Summed | None = None,
    ) -> None:
        """Accumulates at flat positions: first over the axes of `grid` that are not `kept`, then into the elements.

        `injective`: no position occurs twice over the kept axes; otherwise `op` is a sum. `summed`: what it adds up.
        Where the mask leaves out all iterations of a position, nothing is said of it: it may be that of another one.
        """
        axes = tuple(axis for axis in range(len(grid)) if axis not in kept)

        def whole(part: Any, identity: Any) -> Array:
            array = np.broadcast_to(np.asarray(part), grid)
            return array if mask is None else np.where(mask, array, identity)

        def total(part: Any) -> Array:
            if mask is not None:
                return whole(part, 0).sum(axis=axes, keepdims=True)
            array = np.asarray(part)
            array = array.reshape((1,) * (len(grid) - array.ndim) + array.shape)
            constant = [axis for axis in axes if array.shape[axis] == 1]
            varying = tuple(axis for axis in axes if axis not in constant)
            return array.sum(axis=varying, keepdims=True) * math.prod(grid[axis] for axis in constant)

        small = tuple(1 if axis in axes else size for axis, size in enumerate(grid))
        live = None if mask is None else whole(True, False).any(axis=axes, keepdims=True)

        def met(part: Any) -> Array:
            array = np.broadcast_to(part, small)
            return array if live is None else array[live]

        where = met(written)
        if self.op not in (None, op):
            self.settle()
        is_new = self.op is None and not self.terms.any()
        continues = summed is not None and self.summed == summed and not self.terms[where].any()
        known = Sums.of(self.size) if is_new else self.sums if continues else None
        self.op = op
        self.change()
        if op == "+=":
            gridded = met(whole(a.gridded, True).all(axis=axes, keepdims=True))
            sums = [met(total(part)) for part in (a.value, a.error, a.magnitude)]
            for array, part in zip((self.value, self.error, self.magnitude), sums, strict=True):
                if injective:
                    array[where] += part
                else:
                    np.add.at(array, where, part)
            so_far = self.magnitude[np.broadcast_to(written, small)]
            terms = met(total(self._counted(a, so_far, math.prod(grid[axis] for axis in axes))))
            if injective:
                self.terms[where] += terms
            else:
                np.add.at(self.terms, where, terms)
            if injective:
                self.gridded[where] &= gridded
            else:
                np.logical_and.at(self.gridded, where, gridded)
            self.error[where] += np.where(self.gridded[where], 0.0, self.left_out[where])  # it meets others
            self.left_out[where] *= self.gridded[where]
            self.cost = max(self.cost, RESCALED_TERM_ROUNDINGS if a.from_exp else 1.0)
            if summed and known and a.log_error is not None and mask is None and injective and self.format:
                largest = np.broadcast_to(np.asarray(a.log_error), grid).max(axis=axes, keepdims=True)
                known.mean[where] = total(sum_log_error(np.asarray(a.value), a.log_error))
                known.largest[where] = largest
                known.rest[where] = rest_of(np.broadcast_to(a.value, grid), axes)
                self.summed, self.sums = summed, known
                rounded = log_of_roundings(self.cost * self.terms, self.format)
                least = self.format.smallest * summed.count * 2.0**_ABOVE_UNDERFLOW
                found = tolerance.unless_overflow(known.log_error(self.value) + rounded, self.value, self.format)
                self.log_error = np.where(self.value > least, found, np.inf)
            return
        old = Running(self.value[where], self.error[where], self.magnitude[where])
        count = met(whole(1.0, 0.0).sum(axis=axes, keepdims=True))
        if op == "*=":
            value = met(whole(a.value, 1).prod(axis=axes, keepdims=True))
            high = met(whole(np.abs(a.value) + a.error, 1.0).prod(axis=axes, keepdims=True))
            product = old.value * value
            self.error[where] = (np.abs(old.value) + old.error) * high - np.abs(product)
            self.magnitude[where] = np.abs(product)
            self.gridded[where] = False
            self.terms[where] += count
        else:
            sign = 1 if op == "max=" else -1
            nothing = -np.inf if self.format else np.iinfo(np.int64).min + 1
            ends = [
                met(whole(sign * a.value + slack, nothing).max(axis=axes, keepdims=True))
                for slack in (0, a.error, -a.error)
            ]
            olds = [sign * old.value + slack for slack in (0, old.error, -old.error)]
            best, above, below = (np.maximum(end, before) for end, before in zip(ends, olds, strict=True))
            product = sign * best
            apart = np.maximum(above - best, best - below)
            self.error[where] = np.where(np.isinf(best), 0.0, np.nan_to_num(apart, nan=np.inf, posinf=np.inf))
            self.magnitude[where] = np.where(np.isinf(best), 0.0, np.abs(best))
            self.gridded[where] &= met(whole(a.gridded, True).all(axis=axes, keepdims=True))
            self.terms[where] = 1.0
        self.left_out[where] = 0.0
        self.value[where] = product.astype(self.value.dtype)
