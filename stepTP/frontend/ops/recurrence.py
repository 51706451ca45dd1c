"""RNN, LSTM and GRU: for each layer and direction one nest for what the inputs contribute and one loop over time.

The text does not grow with the length of the sequence. States have a row more than there are steps: row 0 is where the
recurrence starts, and step t reads row t and writes row t+1. A layer that runs backwards reads its inputs from the end;
its states stay in the order of the steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from leir.syntax import Binary, Expr
from stepTP.frontend.emitter import Emitter, axes, converted
from stepTP.frontend.indices import Index
from stepTP.frontend.ops.pointwise import LOGISTIC, formula
from stepTP.frontend.table import emits
from stepTP.frontend.values import Buffer, Point, Value

RELU = "max(x,0.0)"
TANH = "tanh(x)"


@dataclass(frozen=True, slots=True)
class Weights:
    """Of one layer and direction: `given` (gates * hidden, input), `carried` (gates * hidden, state), their biases
    (gates * hidden,), and the projection (state, hidden) of an LSTM that has one."""

    given: Value
    carried: Value
    biases: tuple[Value, ...] = ()
    projection: Value | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Emits what each step does, at time `at`; temporaries have a row for each step where there are several."""

    e: Emitter
    count: int = 1

    @property
    def at(self) -> Index:
        return axes((self.count,))[0][0]

    def axes(self, *groups: Sequence[int]) -> list[Point]:
        """Indices for a nest below the loop over time."""
        return axes((self.count,), *groups)[1:]

    def row(self, shape: Sequence[int]) -> Buffer:
        """A new temporary, of the type that sums are formed in, for what a step computes."""
        if self.count == 1:
            return self.e.temporary(shape, self.e.accumulator())
        return self.e.temporary((self.count, *shape), self.e.accumulator()).part(self.at)

    def product(self, x: Value, weight: Value) -> Value:
        """x (batch, k) times the transpose of weight (n, k)."""
        into = self.row((x.shape[0], weight.shape[0]))
        x, weight = converted(x, into.dtype), converted(weight, into.dtype)
        point, inner = self.axes(into.shape, x.shape[1:])
        term = Binary("*", x.element((point[0], *inner)), weight.element((point[1], *inner)))
        self.e.assign(into.at(point), "+=", term, point, inner)
        return into.value

    def fill(self, into: Buffer, element: Callable[[Point], Expr]) -> Value:
        (point,) = self.axes(into.shape)
        self.e.assign(into.at(point), "=", element(point), point)
        return into.value

    def summed(self, width: int, *terms: Value) -> Value:
        """The sum of terms whose last axis is at least `width` long, as far as that; biases have no other axis."""
        into = self.row((terms[0].shape[0], width))
        return self.fill(into, partial(_sum, [converted(term, into.dtype) for term in terms]))


def _sum(terms: Sequence[Value], point: Point) -> Expr:
    """The sum of terms at a point, each read at as many of its last indices as it has axes."""
    elements = [term.element(point[len(point) - len(term.shape) :]) for term in terms]
    result = elements[0]
    for element in elements[1:]:
        result = Binary("+", result, element)
    return result


def _gate(total: Value, number: int, width: int, point: Point) -> Expr:
    """The element of gate `number`, whose columns follow those of the gates before it."""
    return total.element((*point[:-1], point[-1] + number * width))


State = tuple[Value, ...]
Step = Callable[[Steps, Value, State, Weights, tuple[Buffer, ...]], None]
"""Emits a step: from what the inputs contribute (batch, gates * hidden), states and weights, into the new states."""


def _simple(text: str, s: Steps, given: Value, state: State, w: Weights, into: tuple[Buffer, ...]) -> None:
    """h' = f(W x + b + R h + c)"""
    carried = s.product(state[0], w.carried)
    terms = [converted(term, carried.dtype) for term in _interleaved(given, carried, w.biases)]
    s.fill(into[0], lambda p: formula(text, x=_sum(terms, p)))


def _interleaved(given: Value, carried: Value, biases: tuple[Value, ...]) -> tuple[Value, ...]:
    """Both parts of a sum, each followed by its bias."""
    return (given, biases[0], carried, biases[1]) if biases else (given, carried)


def _lstm(s: Steps, given: Value, state: State, w: Weights, into: tuple[Buffer, ...]) -> None:
    """Gates i, f, g, o: c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c'), or its projection."""
    hidden, width = state[1], state[1].shape[-1]
    carried = s.product(state[0], w.carried)
    total = s.summed(4 * width, *_interleaved(given, carried, w.biases))
    hidden = converted(hidden, total.dtype)

    def cell(p: Point) -> Expr:
        opened = [formula(LOGISTIC, x=_gate(total, number, width, p)) for number in (0, 1)]
        return formula(
            "f*c+i*tanh(g)", f=opened[1], c=hidden.element(p), i=opened[0], g=_gate(total, 2, width, p)
        )  # fmt: skip

    cells = converted(s.fill(into[1], cell), total.dtype)

    def output(p: Point) -> Expr:
        return formula("o*tanh(c)", o=formula(LOGISTIC, x=_gate(total, 3, width, p)), c=cells.element(p))

    if w.projection is None:
        s.fill(into[0], output)
        return
    projected = s.product(s.fill(s.row(cells.shape), output), w.projection)
    s.fill(into[0], projected.element)


def _gru(s: Steps, given: Value, state: State, w: Weights, into: tuple[Buffer, ...]) -> None:
    """Gates r, z, n: n = tanh(W x + b + σ(r) (R h + c)), h' = n + σ(z) (h - n)."""
    width = state[0].shape[-1]
    carried = s.product(state[0], w.carried)
    total = s.summed(2 * width, *_interleaved(given, carried, w.biases))
    dtype = total.dtype
    given, before = converted(given, dtype), converted(state[0], dtype)
    biases = [converted(bias, dtype) for bias in w.biases]

    def shifted(part: Value, bias: int, p: Point) -> Expr:
        value = _gate(part, 2, width, p)
        return Binary("+", value, _gate(biases[bias], 2, width, p[-1:])) if biases else value

    def new(p: Point) -> Expr:
        reset = formula(LOGISTIC, x=_gate(total, 0, width, p))
        return formula("tanh(x+r*h)", x=shifted(given, 0, p), r=reset, h=shifted(carried, 1, p))

    candidate = s.fill(s.row(state[0].shape), new)

    def mixed(p: Point) -> Expr:
        update = formula(LOGISTIC, x=_gate(total, 1, width, p))
        return formula("n+z*(h-n)", n=candidate.element(p), z=update, h=before.element(p))

    s.fill(into[0], mixed)


STEPS: dict[str, Step] = {"rnn_tanh": partial(_simple, TANH), "rnn_relu": partial(_simple, RELU), "gru": _gru}


def _layer(e: Emitter, step: Step, x: Value, state: State, w: Weights, backwards: bool) -> tuple[Buffer, ...]:
    """Emits all steps over x (time, batch, input); the states (time + 1, batch, ...) in the order of the steps."""
    times, batch, _ = x.shape
    dtype = e.accumulator()
    given = e.temporary((times, batch, w.given.shape[0]), dtype)
    point, inner = axes(given.shape, x.shape[2:])
    time = Index((), times - 1) - point[0] if backwards else point[0]
    x, weight = converted(x, dtype), converted(w.given, dtype)
    term = Binary("*", x.element((time, point[1], *inner)), weight.element((point[2], *inner)))
    e.assign(given.at(point), "+=", term, point, inner)
    rows = tuple(e.temporary((times + 1, *part.shape), e.dtype()) for part in state)
    for part, row in zip(state, rows, strict=True):
        start = row.part(Index())
        (point,) = axes(start.shape)
        e.assign(start.at(point), "=", converted(part, row.dtype).element(point), point)
    s = Steps(e, times)
    with e.loop(s.at):
        before = tuple(row.part(s.at).value for row in rows)
        step(s, given.part(s.at).value, before, w, tuple(row.part(s.at + 1) for row in rows))
    return rows


def _in_time(rows: Buffer, backwards: bool) -> Value:
    """The states after each step, by time."""
    times = rows.shape[0] - 1
    return rows.value.view(
        (times, *rows.shape[1:]), lambda p: ((Index((), times) - p[0] if backwards else p[0] + 1), *p[1:])
    )


def _network(
    e: Emitter, step: Step, x: Value, state: State, weights: Sequence[Weights], directions: int, batch_first: bool
) -> tuple[Value | None, ...]:
    """All layers: the last one's outputs, and the last states of every layer and direction, stacked."""
    if batch_first:
        x = _swapped(x)
    last: list[tuple[Buffer, ...]] = []
    layers = len(weights) // directions
    for layer in range(layers):
        found: list[Buffer] = []
        for direction in range(directions):
            number = layer * directions + direction
            initial = tuple(_slot(part, number) for part in state)
            last.append(_layer(e, step, x, initial, weights[number], direction == 1))
            found.append(last[-1][0])
        outputs = [_in_time(rows, direction == 1) for direction, rows in enumerate(found)]
        at_end = layer == layers - 1 and e.uses(0)
        x = outputs[0] if directions == 1 else _side_by_side(e, outputs, at_end, batch_first)
    finals = (_final(e, [rows[n] for rows in last], n + 1) for n in range(len(state)))
    return (_swapped(x) if batch_first else x, *finals)


def _swapped(x: Value) -> Value:
    return x.view((x.shape[1], x.shape[0], *x.shape[2:]), lambda p: (p[1], p[0], *p[2:]))


def _slot(part: Value, number: int) -> Value:
    return part.view(part.shape[1:], lambda p: (Index((), number), *p))


def _side_by_side(e: Emitter, outputs: Sequence[Value], at_end: bool, batch_first: bool) -> Value:
    """Both directions in one tensor; the op's result where this is it."""
    times, batch, width = outputs[0].shape
    shape = (times, batch, 2 * width)
    into = e.result(0) if at_end else e.temporary(shape, e.dtype())
    swaps = at_end and batch_first
    for direction, output in enumerate(outputs):
        output = _swapped(output) if swaps else output
        (point,) = axes(output.shape)
        e.assign(into.at((*point[:2], point[2] + direction * width)), "=", output.element(point), point)
    return _swapped(into.value) if swaps else into.value


def _final(e: Emitter, rows: Sequence[Buffer], number: int) -> Value | None:
    """The last states of all layers and directions as result `number`; None where nothing reads it."""
    if not e.uses(number):
        return None
    if len(rows) == 1:
        return rows[0].value.view((1, *rows[0].shape[1:]), lambda p: (Index((), rows[0].shape[0] - 1), *p[1:]))
    into = e.result(number)
    for place, row in enumerate(rows):
        end = row.part(Index((), row.shape[0] - 1))
        (point,) = axes(end.shape)
        e.assign(into.at((Index((), place), *point)), "=", end.at(point), point)
    return into.value


def _weights(parameters: Sequence[Value], has_biases: bool, projects: bool) -> list[Weights]:
    """The flat list of parameters by layer and direction."""
    left = iter(parameters)
    found: list[Weights] = []
    for given in left:
        carried = next(left)
        biases = tuple(islice(left, 2)) if has_biases else ()
        found.append(Weights(given, carried, biases, next(left) if projects else None))
    return found


def _require_no_dropout(e: Emitter, dropout: float, training: bool, layers: int) -> None:
    if dropout and training and layers > 1:
        e.refuse("dropout in training draws random numbers")


@emits("rnn_tanh.input", "rnn_relu.input", "gru.input")
def recurrent(
    e: Emitter, x: Value, start: Value, parameters: Sequence[Value], has_biases: bool, layers: int, dropout: float,
    training: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Value | None, ...]:  # fmt: skip
    _require_no_dropout(e, dropout, training, layers)
    step = STEPS[e.op.split(".")[1]]
    weights = _weights(parameters, has_biases, projects=False)
    return _network(e, step, x, (start,), weights, 1 + bidirectional, batch_first)


@emits("lstm.input")
def lstm(
    e: Emitter, x: Value, start: Sequence[Value], parameters: Sequence[Value], has_biases: bool, layers: int,
    dropout: float, training: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Value | None, ...]:  # fmt: skip
    _require_no_dropout(e, dropout, training, layers)
    weights = _weights(parameters, has_biases, projects=start[0].shape[-1] != start[1].shape[-1])
    return _network(e, _lstm, x, tuple(start), weights, 1 + bidirectional, batch_first)


def _cell(e: Emitter, step: Step, x: Value, state: State, w: Weights, into: tuple[Buffer, ...]) -> State:
    s = Steps(e)
    step(s, s.product(x, w.given), state, w, into)
    return tuple(buffer.value for buffer in into)


@emits("rnn_tanh_cell", "rnn_relu_cell", "gru_cell")
def recurrent_cell(
    e: Emitter, x: Value, start: Value, given: Value, carried: Value, b: Value | None = None, c: Value | None = None
) -> Value:
    biases = (b, c) if b is not None and c is not None else ()
    step = STEPS[e.op.split(".")[1].removesuffix("_cell")]
    return _cell(e, step, x, (start,), Weights(given, carried, biases), (e.result(),))[0]


@emits("lstm_cell")
def lstm_cell(
    e: Emitter, x: Value, start: Sequence[Value], given: Value, carried: Value, b: Value | None = None,
    c: Value | None = None,
) -> State:  # fmt: skip
    biases = (b, c) if b is not None and c is not None else ()
    into = (e.result(0), e.result(1))
    return _cell(e, _lstm, x, tuple(start), Weights(given, carried, biases), into)
