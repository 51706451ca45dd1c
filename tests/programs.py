"""Random well-formed programs, their inputs, and random trees that only have to be printable.

`random_program(seed)` builds a small program out of a few operators, each a nest or several: element-wise chains,
reductions, products, windows, reshapes, gathers, scans, masks, guarded tails, fused and staged kernels, and gives its
loops legal kinds. Values stay moderate and finite, so that executions can be compared. `distribution` says what a
collection of programs contains.
"""

import hashlib
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leir.edit import accesses, tensor_sequence, walk, walk_places
from leir.interp import array_type
from leir.interp.arithmetic import round_to
from leir.interp.tensors import tensors
from leir.parser import parse
from leir.syntax import RESERVED_WORDS, Access, Alloc, Binary, Equation, Guard, Integer, Loop, Program, Select

InputKind = Literal["normal", "integers", "wide"]


def keyed(*key: object) -> random.Random:
    """A generator of random numbers that depends on the key alone."""
    return random.Random(hashlib.sha256(repr(key).encode()).digest())


def random_program(seed: int | str) -> Program:
    """A well-formed program, the same for the same seed in every process."""
    return parse(random_text(seed), f"<random {seed}>")


def random_text(seed: int | str) -> str:
    """The text of `random_program(seed)`."""
    return _Builder(keyed("program", seed)).build()


def random_inputs(program: Program, seed: int | str, kind: InputKind = "normal") -> dict[str, NDArray[np.generic]]:
    """Arrays for a program's inputs, gather preconditions respected.

    `normal`: standard normal floats; `integers`: floats that are small integers, so that sums and products are exact;
    `wide`: magnitudes over many powers of two, signs of both kinds, some zeros. Integers are small, and indices where
    the program reads them in a subscript.
    """
    known = tensors(program)
    limits: dict[str, int] = {}
    for _, expression in walk_places(program):
        if not isinstance(expression, Access):
            continue
        shape = known[expression.tensor].shape
        for number, index in enumerate(expression.indices):
            if isinstance(index, Access) and shape is not None:
                limits[index.tensor] = min(limits.get(index.tensor, shape[number]), shape[number])
    result: dict[str, NDArray[np.generic]] = {}
    for declaration in program.inputs:
        key = hashlib.sha256(repr(("inputs", seed, kind, declaration.tensor)).encode()).digest()
        draw = np.random.default_rng(int.from_bytes(key[:8], "little"))
        if declaration.dtype == "bool":
            result[declaration.tensor] = draw.integers(0, 2, declaration.shape).astype(np.bool_)
        elif declaration.dtype in ("i8", "i32", "i64"):
            low, high = (0, limits[declaration.tensor]) if declaration.tensor in limits else (-5, 6)
            result[declaration.tensor] = draw.integers(low, high, declaration.shape).astype(
                array_type(declaration.dtype)
            )
        else:
            values = _floats(draw, declaration.shape, kind)
            if declaration.dtype == "bf16":
                result[declaration.tensor] = np.asarray(round_to("bf16", values), np.float32)
            else:
                result[declaration.tensor] = values.astype(array_type(declaration.dtype))
    return result


def _floats(draw: np.random.Generator, shape: tuple[int, ...], kind: InputKind) -> NDArray[np.float64]:
    match kind:
        case "normal":
            return np.asarray(draw.standard_normal(shape))
        case "integers":
            return np.asarray(draw.integers(-3, 4, shape), np.float64)
        case "wide":
            sizes = np.exp2(draw.uniform(-12, 6, shape)) * draw.choice([-1.0, 1.0], shape)
            return np.asarray(np.where(draw.random(shape) < 0.05, 0.0, sizes))


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    bound: int = 0  # integers: values are in 0..bound-1, where that is known by construction


@dataclass(frozen=True, slots=True)
class _Axis:
    """One logical index: its loops from the outside in (kind, variable, extent, first), its value, its guard."""

    loops: tuple[tuple[str, str, int, int], ...]
    index: str
    guard: str = ""


_FLOATS = ("f16", "bf16", "f32", "f64")
_ATTEMPTS = 30


class _Builder:
    """Builds the text of one program, operator by operator."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = tensor_sequence()
        self.variables = 0
        self.inputs: list[_Tensor] = []
        self.results: list[_Tensor] = []  # fully written global tensors, not inputs
        self.lines: list[str] = []
        self.declared: list[str] = []  # results that are declared even where they need not be
        self.first_use: dict[str, int] = {}  # temporary: the line before which it is declared
        self.dtype = self.pick({"f32": 14, "f64": 3, "f16": 1, "bf16": 1})

    def pick(self, weights: dict[str, int]) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def build(self) -> str:
        operators: dict[Callable[[], None], int] = {
            self.elementwise: 8, self.reduction: 7, self.softmax: 3, self.product: 4, self.window: 4, self.reshape: 3,
            self.gather: 6, self.scan: 3, self.concatenation: 2, self.masked: 3, self.fused: 4, self.in_place: 2,
            self.staged: 5, self.thread_sum: 3, self.register_tile: 3, self.tree: 2, self.tiled_product: 2,
            self.small_dtype: 3, self.integers: 3, self.time_steps: 2, self.scalar: 2, self.private_row: 3,
            self.two_sided: 2, self.transposed_stage: 2,
        }  # fmt: skip
        wanted = self.rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5))
        for _ in range(wanted):
            self.rng.choices(list(operators), list(operators.values()))[0]()
        return self.text()

    def text(self) -> str:
        own = [result for result in self.results if result.dtype == self.dtype]
        if not own:
            self.elementwise()
            own = [result for result in self.results if result.dtype == self.dtype]
        first = own[-1]
        others = [result for result in self.results if result is not first and self.chance(0.15)]
        outputs = [first, *others]
        for name, line in sorted(self.first_use.items(), key=lambda item: -item[1]):
            tensor = next(result for result in self.results if result.name == name)
            needed = tensor.dtype != self.dtype or name in self.declared
            if tensor not in outputs and (needed or self.chance(0.1)):
                shape = ",".join(map(str, tensor.shape))
                self.lines.insert(line, f"{name}^{{{tensor.dtype},g}}" + (f"_{{{shape}}};" if shape else ";"))
        if not self.inputs:
            self.input((2,))
        signature = f"in {','.join(map(_declaration, self.inputs))};out {','.join(map(_declaration, outputs))};"
        return "\n".join([signature, *self.lines]) + "\n"

    # names, sizes, operands

    def size(self) -> int:
        return self.rng.choices((1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16), (2, 4, 5, 7, 4, 5, 4, 6, 3, 2, 2))[0]

    def shape(self, least: int = 1, most: int = 3) -> tuple[int, ...]:
        rank = self.rng.choices(range(least, most + 1), [(3, 5, 2)[min(n, 2)] for n in range(most + 1 - least)])[0]
        return tuple(self.size() for _ in range(rank))

    def input(self, shape: tuple[int, ...], dtype: str = "", bound: int = 0) -> _Tensor:
        """An input, one that exists already where it fits."""
        dtype = dtype or (self.dtype if self.chance(0.8) else self.rng.choice(_FLOATS))
        fitting = [t for t in self.inputs if (t.shape, t.dtype, t.bound) == (shape, dtype, bound)]
        if fitting and self.chance(0.5):
            return self.rng.choice(fitting)
        tensor = _Tensor(next(self.names), dtype, shape, bound)
        self.inputs.append(tensor)
        return tensor

    def operand(self, shape: tuple[int, ...]) -> _Tensor:
        """A float tensor of this shape, an earlier result where there is one."""
        fitting = [t for t in self.results if t.shape == shape and t.dtype in _FLOATS]
        return self.rng.choice(fitting[-3:]) if fitting and self.chance(0.75) else self.input(shape)

    def any_operand(self, least: int = 1, most: int = 3) -> _Tensor:
        fitting = [t for t in self.results if least <= len(t.shape) <= most and t.dtype in _FLOATS]
        if fitting and self.chance(0.75):
            return self.rng.choice(fitting[-3:])
        return self.input(self.shape(least, most))

    def result(self, shape: tuple[int, ...], dtype: str = "", bound: int = 0) -> _Tensor:
        """The tensor that the next lines define; it is declared before them if it must be."""
        tensor = _Tensor(next(self.names), dtype or self.dtype, shape, bound)
        self.first_use[tensor.name] = len(self.lines)
        self.results.append(tensor)
        return tensor

    def variable(self, axis: str = "") -> str:
        self.variables += 1
        if axis:
            return axis + ("" if self.chance(0.7) else "abcdefgh"[self.variables % 8] + str(self.variables))
        name = self.rng.choice("ijkmnpqrst") + str(self.variables)
        return name if name not in RESERVED_WORDS else f"j{self.variables}"

    # loops

    def axes(self, sizes: Sequence[int], free: Sequence[bool], kernel: bool = True) -> list[_Axis]:
        """Logical indices over `sizes`; those that are `free` carry no dependence and may get any kind."""
        result: list[_Axis] = []
        bound = ["bx", "by", "tx", "ty"] if kernel and any(free) and self.chance(0.18) else []
        only_threads = self.chance(0.1)
        for size, is_free in zip(sizes, free, strict=True):
            kind = "L"
            axis = ""
            if is_free and bound and self.chance(0.85):
                kind = "B"
                axis = bound.pop(0)
                if only_threads and axis.startswith("b") and len(bound) >= 2:
                    axis = bound.pop(1) if axis == "bx" else axis
            elif (
                is_free and not bound and self.chance(0.12) and not any("B" in loop for a in result for loop in a.loops)
            ):
                kind = "P"
            elif self.chance(0.07) and size <= 8:
                kind = "U"
            if axis:
                result.append(_Axis(((kind, self.variable(axis), size, 0),), ""))
                result[-1] = _Axis(result[-1].loops, result[-1].loops[0][1])
            elif size > 2 and self.chance(0.15):
                factor = self.rng.randint(2, min(size, 5))
                outer, inner = self.variable(), self.variable()
                loops = ((kind, outer, -(-size // factor), 0), ("L", inner, factor, 0))
                index = f"({outer}*{factor}+{inner})"
                result.append(_Axis(loops, index, f"{index}<{size}" if size % factor else ""))
            elif self.chance(0.08):
                first = self.rng.randint(1, 3)
                name = self.variable()
                result.append(_Axis(((kind, name, size, first),), f"({name}-{first})"))
            else:
                name = self.variable()
                result.append(_Axis(((kind, name, size, 0),), name))
        return result

    def nest(self, axes: Sequence[_Axis], equation: str, guard: str = "", vector: int = -1) -> str:
        """A perfect nest over the axes' loops, outer parts first where that is drawn; axis `vector` may become V."""
        loops = [(axis, loop) for axis in axes for loop in axis.loops]
        if any(loop[0] == "B" for _, loop in loops):
            loops.sort(
                key=lambda item: 0 if item[1][0] == "B" and item[1][1][0] == "b" else 1 if item[1][0] == "B" else 2
            )
        elif self.chance(0.3):
            split = [loop for axis, loop in loops if loop is axis.loops[0]]
            inner = [loop for axis, loop in loops if loop is not axis.loops[0]]
            loops = [(axes[0], loop) for loop in (*split, *inner)]
        headers = [loop for _, loop in loops]
        if vector >= 0 and headers and self.chance(0.2):
            last = headers[-1]
            if last in axes[vector].loops and last[0] == "L" and 2 <= last[2] <= 64:
                headers[-1] = ("V", *last[1:])
        claims = [claim for claim in (*(axis.guard for axis in axes), guard) if claim]
        guards = "&&".join(f"({claim})" if "||" in claim else claim for claim in claims)
        return f"{_header(headers)}{f'({guards})' if guards else ''}[{equation}]" if headers or guards else equation

    def add(self, line: str) -> None:
        self.lines.append(line)

    # expressions

    def leaf(self, tensor: _Tensor, indices: Sequence[str]) -> str:
        return tensor.name + (f"_{{{','.join(indices)}}}" if tensor.shape else "")

    def expression(self, leaves: Sequence[str], depth: int = 2) -> str:
        """A float expression of moderate size that uses every leaf."""
        leaves = list(leaves)
        text = self.unary(leaves[0], depth)
        for leaf in leaves[1:]:
            other = self.unary(leaf, depth - 1)
            form = self.rng.choice(
                ("{a}+{b}", "{a}-{b}", "{a}*{b}", "max({a},{b})", "min({a},{b})", "{a}/(1.0+abs({b}))",
                 "if_then_else({a}>{b},{a},{b}*0.5)", "if_then_else({a}>0.25&&{b}<1.0,{b},{a})",
                 "if_then_else(!({a}<={b})||{b}==0.0,{a}+1,{b}-2)", "{a}+{b}*0.5")
            )  # fmt: skip
            text = f"({form.format(a=text, b=other)})"
        return text

    def unary(self, text: str, depth: int) -> str:
        if depth <= 0 or self.chance(0.4):
            return text
        form = self.rng.choice(
            ("tanh({x})", "exp(-abs({x}))", "{x}*0.5", "({x}+1.0)", "({x}-3)", "sqrt(abs({x})+1.0)", "log1p(abs({x}))",
             "erf({x})", "sin({x})", "cos({x}*0.25)", "max({x},0.0)", "-{x}", "abs({x})", "floor({x})",
             "round({x}*2.0)", "1.0/(1.0+exp(-min({x},20.0)))", "({x}/4.0)", "expm1(min({x},1.0))", "log(abs({x})+1.5)", "{x}**2",
             "(abs({x})+0.5)**-1", "cast(f32,{x})", "cast(f16,{x})", "cast(bf16,{x})", "(2*3-5)*{x}", "min({x},1e2)")
        )  # fmt: skip
        return self.unary(f"({form.format(x=text)})", depth - 1)

    # operators

    def elementwise(self) -> None:
        shape = self.shape(0 if self.chance(0.05) else 1)
        axes = self.axes(shape, [True] * len(shape))
        indices = [axis.index for axis in axes]
        leaves = [self.leaf(self.operand(shape), indices)]
        if self.chance(0.5):
            leaves.append(self.leaf(self.operand(shape), indices))
        if self.chance(0.4) and shape:
            kept = sorted(self.rng.sample(range(len(shape)), self.rng.randint(1, len(shape))))
            broadcast = self.operand(tuple(shape[n] for n in kept))
            leaves.append(self.leaf(broadcast, [indices[n] for n in kept]))
        if self.chance(0.1) and indices:
            leaves.append(f"({self.rng.choice(indices)}*0.125)")
        value = self.expression(leaves)
        target = self.result(shape)
        self.add(self.nest(axes, f"{self.leaf(target, indices)}={value};", vector=len(axes) - 1))

    def reduction(self) -> None:
        source = self.any_operand(1, 3)
        shape = source.shape
        reduced = sorted(self.rng.sample(range(len(shape)), self.rng.randint(1, len(shape))))
        free = [n not in reduced for n in range(len(shape))]
        axes = self.axes(shape, free)
        indices = [axis.index for axis in axes]
        op = self.pick({"+=": 6, "max=": 3, "min=": 2, "*=": 1})
        value = self.expression([self.leaf(source, indices)], 1)
        if op == "*=":
            value = f"(1.0+0.125*tanh({value}))"
        kept = [n for n in range(len(shape)) if free[n]]
        target = self.result(tuple(shape[n] for n in kept))
        guard = ""
        if self.chance(0.25):
            n = self.rng.choice(reduced)
            limit = self.rng.randint(1, shape[n])
            guard = self.rng.choice(
                (f"{indices[n]}<{limit}", f"{indices[n]}<=0||{indices[n]}%2==1", f"{indices[n]}*2<=8")
            )
            if kept and self.chance(0.4):
                guard = f"{indices[n]}<={indices[self.rng.choice(kept)]}"
        order = list(range(len(shape)))
        if self.chance(0.4):
            self.rng.shuffle(order)
        left = self.leaf(target, [indices[n] for n in kept])
        ordered = [axes[n] for n in order]
        self.add(self.nest(ordered, f"{left} {op}{value};", guard))
        if self.chance(0.15) and op == "+=":
            other = self.input(target.shape)
            more = self.axes(target.shape, [True] * len(kept))
            where = [axis.index for axis in more]
            self.add(self.nest(more, f"{self.leaf(target, where)}+={self.leaf(other, where)};"))

    def softmax(self) -> None:
        rows, columns = self.size(), self.size()
        source = self.operand((rows, columns))
        largest, total = self.result((rows,)), self.result((rows,))
        for step in range(3):
            i, j = self.axes((rows, columns), (True, step == 2))
            x = self.leaf(source, [i.index, j.index])
            m, s = self.leaf(largest, [i.index]), self.leaf(total, [i.index])
            if step == 0:
                self.add(self.nest([i, j], f"{m} max={x};"))
            elif step == 1:
                self.add(self.nest([i, j], f"{s}+=exp({x}-{m});"))
            else:
                target = self.result((rows, columns))
                equation = f"{self.leaf(target, [i.index, j.index])}=exp({x}-{m})/{s};"
                self.add(self.nest([i, j], equation, vector=1))

    def product(self) -> None:
        rows, columns, inner = self.size(), self.size(), self.size()
        a, w = self.operand((rows, inner)), self.operand((inner, columns))
        axes = self.axes((rows, columns, inner), (True, True, False))
        i, j, k = (axis.index for axis in axes)
        target = self.result((rows, columns))
        if self.chance(0.4) and not any(loop[0] == "B" for axis in axes for loop in axis.loops):
            self.rng.shuffle(axes)
        left, right = self.leaf(a, [i, k]), self.leaf(w, [k, j])
        self.add(self.nest(axes, f"{self.leaf(target, [i, j])}+={left}*{right};"))
        if self.chance(0.5):
            bias = self.operand((columns,))
            i2, j2 = self.axes((rows, columns), (True, True))
            where = [i2.index, j2.index]
            total = self.expression([f"({self.leaf(target, where)}+{self.leaf(bias, [j2.index])})"], 1)
            final = self.result((rows, columns))
            self.add(self.nest([i2, j2], f"{self.leaf(final, where)}={total};", vector=1))

    def window(self) -> None:
        channels, width, taps = self.rng.randint(1, 4), self.rng.randint(3, 12), self.rng.randint(1, 3)
        stride, padding = self.rng.randint(1, 2), self.rng.randint(0, 1)
        outer = (width + 2 * padding - taps) // stride + 1
        a = self.operand((channels, width))
        c, o, r = self.axes((channels, outer, taps), (True, True, False))
        where = f"{o.index}*{stride}+{r.index}" + (f"-{padding}" if padding else "")
        read = self.leaf(a, [c.index, where])
        pool = self.chance(0.4)
        w = self.operand((channels, taps))
        target = self.result((channels, outer))
        left = self.leaf(target, [c.index, o.index])
        if pool and padding:
            value = f"if_then_else({where}>=0&&{where}<{width},{read},-inf)" if taps > 1 or width > 1 else "0.0"
            self.add(self.nest([c, o, r], f"{left} max=max({value},-100.0);"))
            return
        value = read if not padding else f"if_then_else({where}>=0&&{where}<{width},{read},0.0)"
        if pool:
            self.add(self.nest([c, o, r], f"{left} {self.rng.choice(('max=', 'min=', '+='))}{value};"))
            return
        self.add(self.nest([c, o, r], f"{left}+={value}*{self.leaf(w, [c.index, r.index])};"))

    def reshape(self) -> None:
        a, b = self.rng.randint(1, 6), self.rng.randint(1, 6)
        factors = [n for n in range(1, a * b + 1) if a * b % n == 0]
        rows = self.rng.choice(factors)
        source = self.operand((rows, a * b // rows))
        i, j = self.axes((a, b), (True, True))
        flat = f"({i.index}*{b}+{j.index})"
        columns = source.shape[1]
        read = self.leaf(source, [f"{flat}//{columns}", f"{flat}%{columns}"])
        target = self.result((a, b))
        equation = f"{self.leaf(target, [i.index, j.index])}={self.expression([read], 1)};"
        self.add(self.nest([i, j], equation, vector=1))
        if self.chance(0.3):
            (f,) = self.axes((a * b,), (True,))
            back = self.result((a, b))
            where = [f"{f.index}//{b}", f"{f.index}%{b}"]
            self.add(self.nest([f], f"{self.leaf(back, where)}={self.leaf(target, where)}*2.0;"))

    def gather(self) -> None:
        source = self.any_operand(1, 2)
        self.declared.append(source.name)  # an input index's precondition is a declared size
        count, size = self.size(), source.shape[0]
        form = self.rng.choice(("input", "input", "clamped", "modulo", "temporary", "guarded"))
        dtype = self.rng.choice(("i32", "i64"))
        if form == "temporary":
            table = self.result((count,), dtype, size)
            (t,) = self.axes((count,), (True,))
            step, offset = self.rng.randint(0, 5), self.rng.randint(0, 5)
            self.add(self.nest([t], f"{self.leaf(table, [t.index])}=({t.index}*{step}+{offset})%{size};"))
        else:
            table = self.input((count,), dtype, size if form == "input" else 0)
        axes = self.axes((count, *source.shape[1:]), [True] * len(source.shape))
        rest = [axis.index for axis in axes[1:]]
        index = self.leaf(table, [axes[0].index])
        guard_start = ""
        match form:
            case "clamped":
                index = self.rng.choice((f"max(min({index},{size - 1}),0)", f"min(max({index},0),{size - 1})"))
            case "modulo":
                index = f"{index}%{size}"
            case "guarded":
                guard_start = f"{index}>=0&&{index}<{size}"
            case _:
                pass
        read = self.leaf(source, [index, *rest])
        if guard_start:
            read = f"if_then_else({guard_start},{read},{self.rng.choice(('0.0', '1', '-1.5'))})"
        target = self.result((count, *source.shape[1:]))
        indices = [axis.index for axis in axes]
        self.add(self.nest(axes, f"{self.leaf(target, indices)}={self.expression([read], 1)};", vector=len(axes) - 1))
        if form == "modulo" and self.chance(0.3) and len(source.shape) == 1:  # a scatter with an accumulation
            (z,) = self.axes((size,), (True,))
            into = self.result((size,))
            self.add(self.nest([z], f"{self.leaf(into, [z.index])}=0.0;"))
            (s,) = self.axes((count,), (False,))
            at = f"{self.leaf(table, [s.index])}%{size}"
            self.add(self.nest([s], f"{self.leaf(into, [at])}+={self.leaf(target, [s.index])};"))

    def scan(self) -> None:
        rows, columns = self.size(), self.rng.randint(2, 8)
        source = self.operand((rows, columns))
        (i,) = self.axes((rows,), (True,), kernel=False)
        target = self.result((rows, columns))
        start = f"{self.leaf(target, [i.index, '0'])}={self.leaf(source, [i.index, '0'])};"
        self.add(self.nest([i], start))
        (i,) = self.axes((rows,), (True,), kernel=False)
        j = self.variable()
        last = self.leaf(target, [i.index, f"{j}-1"])
        new = self.leaf(source, [i.index, j])
        value = self.rng.choice((f"{last}*0.5+{new}", f"max({last},{new})", f"if_then_else({new}>0.0,{last},{new})"))
        equation = f"{self.leaf(target, [i.index, j])}={value};"
        axes = [i, _Axis((("L", j, columns - 1, 1),), j)]
        if self.chance(0.5) and not i.guard and len(i.loops) == 1:
            axes.reverse()
        self.add(self.nest(axes, equation))

    def concatenation(self) -> None:
        first, second, columns = self.size(), self.size(), self.size()
        target = self.result((first + second, columns))
        for rows, offset in ((first, 0), (second, first)):
            source = self.operand((rows, columns))
            i, j = self.axes((rows, columns), (True, True))
            left = self.leaf(target, [f"{i.index}+{offset}" if offset else i.index, j.index])
            value = self.expression([self.leaf(source, [i.index, j.index])], 1)
            self.add(self.nest([i, j], f"{left}={value};", vector=1))

    def masked(self) -> None:
        shape = (self.size(), self.size())
        source = self.operand(shape)
        mask = self.result(shape, "bool")
        i, j = self.axes(shape, (True, True))
        x = self.leaf(source, [i.index, j.index])
        claim = self.rng.choice(
            (f"{x}>0.0", f"{j.index}<={i.index}", f"{x}<0.5&&{i.index}!=1", f"!({x}>={i.index}*0.1)")
        )
        self.add(self.nest([i, j], f"{self.leaf(mask, [i.index, j.index])}={claim};"))
        i, j = self.axes(shape, (True, True))
        where = [i.index, j.index]
        x, m = self.leaf(source, where), self.leaf(mask, where)
        target = self.result(shape)
        value = self.rng.choice((f"if_then_else({m},{x},-1e4)", f"{x}*{m}", f"{m}+{x}", f"if_then_else(!{m},0,{x})"))
        self.add(self.nest([i, j], f"{self.leaf(target, where)}={value};", vector=1))

    def fused(self) -> None:
        rows, columns = self.size(), self.size()
        source = self.operand((rows, columns))
        i, j, k = self.variable(), self.variable(), self.variable()
        kind = "L" if self.chance(0.7) else "P"
        if self.chance(0.5):
            middle, target = self.result((rows, columns)), self.result((rows, columns))
            x = self.leaf(source, [i, j])
            m = self.leaf(middle, [i, j])
            first = f"{m}={self.expression([x], 1)};"
            second = f"{self.leaf(target, [i, j])}={self.expression([m, x], 1)};"
            self.add(f"{kind}^{{{rows}}}_{{{i}}}L^{{{columns}}}_{{{j}}}[{first}{second}]")
            return
        total, target = self.result((rows,)), self.result((rows, columns))
        t = self.leaf(total, [i])
        first = f"L^{{{columns}}}_{{{j}}}[{t} max={self.leaf(source, [i, j])};]"
        value = f"{self.leaf(source, [i, k])}-{t}"
        second = f"L^{{{columns}}}_{{{k}}}[{self.leaf(target, [i, k])}=exp({value});]"
        self.add(f"{kind}^{{{rows}}}_{{{i}}}[{first}{second}]")

    def in_place(self) -> None:
        shape = self.shape(1, 2)
        source = self.operand(shape)
        target = self.result(shape)
        for step in range(2):
            axes = self.axes(shape, [True] * len(shape))
            where = [axis.index for axis in axes]
            own = self.leaf(target, where)
            if step == 0:
                self.add(self.nest(axes, f"{own}={self.leaf(source, where)};"))
            else:
                equation = self.rng.choice((f"{own}={own}*0.5-1.0;", f"{own} max=0.0;", f"{own}={own}*{own};",
                                            f"{own}+={self.leaf(source, where)};"))  # fmt: skip
                guard = f"{where[0]}>0" if self.chance(0.4) else ""
                self.add(self.nest(axes, equation, guard))

    def staged(self) -> None:
        """A shared tile that one phase fills and another reads in another order."""
        blocks, threads = self.rng.randint(1, 5), self.rng.choice((1, 2, 4, 6, 8))
        source = self.operand((blocks, threads))
        target = self.result((blocks, threads))
        tile = next(self.names)
        b, t, u = self.variable("bx"), self.variable("tx"), self.variable("tx")
        pad = threads + self.rng.randint(0, 1)
        first = f"B^{{{threads}}}_{{{t}}}[{tile}_{{{t}}}={self.leaf(source, [b, t])};]"
        value = self.rng.choice((f"{tile}_{{{threads - 1}-{u}}}", f"{tile}_{{{u}}}+{tile}_{{({u}+1)%{threads}}}"))
        second = f"B^{{{threads}}}_{{{u}}}[{self.leaf(target, [b, u])}={value}*2.0;]"
        self.add(f"B^{{{blocks}}}_{{{b}}}[{tile}^{{{self.wide()},s}}_{{{pad}}};{first}{second}]")

    def wide(self) -> str:
        """The dtype of a staged temporary: the one that the program computes in."""
        return "f32" if self.dtype in ("f16", "bf16") else self.dtype

    def thread_sum(self) -> None:
        """Each thread owns an accumulator in a register."""
        rows, columns, inner = self.size(), self.rng.choice((1, 2, 4, 8)), self.size()
        a, w = self.operand((rows, inner)), self.operand((inner, columns))
        target = self.result((rows, columns))
        r = next(self.names)
        b, t, k = self.variable("bx"), self.variable("tx"), self.variable()
        term = f"{self.leaf(a, [b, k])}*{self.leaf(w, [k, t])}"
        kind = "U" if inner <= 8 and self.chance(0.3) else "L"
        body = f"{r}^{{{self.wide()},l}};{kind}^{{{inner}}}_{{{k}}}[{r}+={term};]{self.leaf(target, [b, t])}={r};"
        self.add(f"B^{{{rows}}}_{{{b}}}B^{{{columns}}}_{{{t}}}[{body}]")

    def register_tile(self) -> None:
        """An `l` tensor of the block, its leading subscripts the threads, that lives across phases."""
        blocks, threads, width = self.rng.randint(1, 4), self.rng.choice((2, 4)), self.rng.randint(1, 4)
        source = self.operand((blocks, threads * width))
        target = self.result((blocks, threads))
        r = next(self.names)
        b, t, u = self.variable("bx"), self.variable("tx"), self.variable("tx")
        k, m = self.variable(), self.variable()
        where = [b, f"{t}*{width}+{k}"]
        first = f"B^{{{threads}}}_{{{t}}}L^{{{width}}}_{{{k}}}[{r}_{{{t},{k}}}={self.leaf(source, where)};]"
        second = (f"B^{{{threads}}}_{{{u}}}L^{{{width}}}_{{{m}}}[{self.leaf(target, [b, u])}"
                  f"{self.rng.choice(('+=', ' max='))}{r}_{{{u},{m}}};]")  # fmt: skip
        self.add(f"B^{{{blocks}}}_{{{b}}}[{r}^{{{self.wide()},l}}_{{{threads},{width}}};{first}{second}]")

    def tree(self) -> None:
        """A reduction tree in shared memory: phases of falling extents."""
        blocks, threads = self.rng.randint(1, 4), self.rng.choice((2, 4, 8))
        source = self.operand((blocks, threads))
        target = self.result((blocks,))
        s = next(self.names)
        b, t = self.variable("bx"), self.variable("tx")
        phases = [f"B^{{{threads}}}_{{{t}}}[{s}_{{{t}}}={self.leaf(source, [b, t])};]"]
        half = threads // 2
        op = self.rng.choice(("max({a},{b})", "{a}+{b}"))
        while half:
            v = self.variable("tx")
            value = op.format(a=f"{s}_{{{v}}}", b=f"{s}_{{{v}+{half}}}")
            phases.append(f"B^{{{half}}}_{{{v}}}[{s}_{{{v}}}={value};]")
            half //= 2
        phases.append(f"{self.leaf(target, [b])}={s}_0;")
        self.add(f"B^{{{blocks}}}_{{{b}}}[{s}^{{{self.wide()},s}}_{{{threads}}};{''.join(phases)}]")

    def tiled_product(self) -> None:
        """A blocked product with staged operands and an accumulator in registers."""
        tile = self.rng.choice((2, 3, 4))
        gy, gx, gk = self.rng.randint(1, 2), self.rng.randint(1, 2), self.rng.randint(1, 3)
        a, w = self.operand((gy * tile, gk * tile)), self.operand((gk * tile, gx * tile))
        target = self.result((gy * tile, gx * tile))
        s, t, r = next(self.names), next(self.names), next(self.names)
        wide, pad = self.wide(), tile + self.rng.randint(0, 1)
        k, m = self.variable(), self.variable()
        threads = f"B^{{{tile},{tile}}}_{{ty,tx}}"
        fill = (f"{threads}[{s}_{{ty,tx}}={self.leaf(a, [f'by*{tile}+ty', f'{k}*{tile}+tx'])};"
                f"{t}_{{ty,tx}}={self.leaf(w, [f'{k}*{tile}+ty', f'bx*{tile}+tx'])};]")  # fmt: skip
        use = f"{threads}L^{{{tile}}}_{{{m}}}[{r}_{{ty,tx}}+={s}_{{ty,{m}}}*{t}_{{{m},tx}};]"
        store = f"{threads}[{self.leaf(target, [f'by*{tile}+ty', f'bx*{tile}+tx'])}={r}_{{ty,tx}};]"
        allocs = (f"{s}^{{{wide},s}}_{{{tile},{pad}}};{t}^{{{wide},s}}_{{{tile},{pad}}};"
                  f"{r}^{{{wide},l}}_{{{tile},{tile}}};")  # fmt: skip
        self.add(f"B^{{{gy},{gx}}}_{{by,bx}}[{allocs}L^{{{gk}}}_{{{k}}}[{fill}{use}]{store}]")

    def small_dtype(self) -> None:
        """A temporary of another float type, and its use."""
        shape = self.shape(1, 2)
        source = self.operand(shape)
        dtype = self.rng.choice([d for d in _FLOATS if d != self.dtype])
        middle = self.result(shape, dtype)
        axes = self.axes(shape, [True] * len(shape))
        where = [axis.index for axis in axes]
        self.add(self.nest(axes, f"{self.leaf(middle, where)}={self.expression([self.leaf(source, where)], 1)};"))
        axes = self.axes(shape, [True] * len(shape))
        where = [axis.index for axis in axes]
        target = self.result(shape)
        value = self.expression([self.leaf(middle, where), self.leaf(source, where)], 1)
        self.add(self.nest(axes, f"{self.leaf(target, where)}={value};"))

    def integers(self) -> None:
        """Integer arithmetic with // and %, of loop variables and of inputs, then back to floats."""
        shape = self.shape(1, 2)
        dtype = self.rng.choice(("i32", "i64"))
        source = self.input(shape, self.rng.choice(("i32", "i64", "i8")))
        counts = self.result(shape, dtype)
        axes = self.axes(shape, [True] * len(shape))
        where = [axis.index for axis in axes]
        x, i = self.leaf(source, where), where[0]
        value = self.rng.choice(
            (f"cast(i32,{x})*3+{i}", f"{x}//3+{x}%3", f"({i}+7)//max({x},1)", f"{i}%max({x},2)-1", f"max({x},{i})",
             f"if_then_else({x}>{i},{x},-{i})", f"abs({x})+({x}==2)", f"{i}*{i}-{x}", f"{x}/2+1")
        )  # fmt: skip
        self.add(self.nest(axes, f"{self.leaf(counts, where)}={value};"))
        axes = self.axes(shape, [True] * len(shape))
        where = [axis.index for axis in axes]
        target = self.result(shape)
        n = self.leaf(counts, where)
        value = self.rng.choice((f"{n}*0.5", f"{n}/4", f"cast(f32,{n})", f"exp(-abs({n}*0.1))", f"sqrt(abs({n}))", n))
        self.add(self.nest(axes, f"{self.leaf(target, where)}={value};"))

    def time_steps(self) -> None:
        """A host loop around nests: a value that is refined step by step."""
        size, steps = self.rng.randint(3, 8), self.rng.randint(2, 4)
        source = self.operand((size,))
        state, new = self.result((size,)), self.result((size,))
        (i,) = self.axes((size,), (True,), kernel=False)
        self.add(self.nest([i], f"{self.leaf(state, [i.index])}={self.leaf(source, [i.index])};"))
        t, j, k = self.variable(), self.variable(), self.variable()
        left, right = f"{state.name}_{{max({j}-1,0)}}", f"{state.name}_{{min({j}+1,{size - 1})}}"
        first = f"{self.leaf(new, [j])}=({left}+{right})*0.5;"
        second = f"{self.leaf(state, [k])}={self.leaf(new, [k])};"
        kind = self.rng.choice(("L", "L", "P", "B"))
        a, b = (f"B^{{{size}}}_{{bx}}", f"B^{{{size}}}_{{bx}}") if kind == "B" else \
            (f"{kind}^{{{size}}}_{{{j}}}", f"{kind}^{{{size}}}_{{{k}}}")  # fmt: skip
        if kind == "B":
            first, second = first.replace(j, "bx"), second.replace(k, "bx")
        self.add(f"L^{{{steps}}}_{{{t}}}[{a}[{first}]{b}[{second}]]")

    def scalar(self) -> None:
        """A reduction to rank 0, and a use of it."""
        source = self.any_operand(1, 2)
        axes = self.axes(source.shape, [False] * len(source.shape))
        where = [axis.index for axis in axes]
        total = self.result(())
        self.add(self.nest(axes, f"{total.name}+={self.leaf(source, where)};"))
        axes = self.axes(source.shape, [True] * len(source.shape))
        where = [axis.index for axis in axes]
        target = self.result(source.shape)
        count = math.prod(source.shape)
        value = f"{self.leaf(source, where)}-{total.name}/{count}"
        self.add(self.nest(axes, f"{self.leaf(target, where)}={value};", vector=len(axes) - 1))

    def private_row(self) -> None:
        """An `l` tensor inside a nest without B."""
        rows, columns = self.size(), self.size()
        source = self.operand((rows, columns))
        target = self.result((rows, columns))
        r = next(self.names)
        i, j, k = self.variable(), self.variable(), self.variable()
        kind = self.rng.choice(("L", "P"))
        first = f"L^{{{columns}}}_{{{j}}}[{r}_{{{j}}}={self.expression([self.leaf(source, [i, j])], 1)};]"
        second = f"L^{{{columns}}}_{{{k}}}[{self.leaf(target, [i, k])}={r}_{{{columns - 1}-{k}}}+{k};]"
        self.add(f"{kind}^{{{rows}}}_{{{i}}}[{r}^{{{self.wide()},l}}_{{{columns}}};{first}{second}]")

    def two_sided(self) -> None:
        """A guard and its complement write one tensor."""
        shape = (self.size(), self.size())
        source = self.operand(shape)
        target = self.result(shape)
        cut = self.rng.randint(0, shape[1])
        for sign, value in (("<", "{x}*2.0"), (">=", "{x}-1.0")):
            i, j = self.axes(shape, (True, True))
            where = [i.index, j.index]
            x = self.leaf(source, where)
            self.add(self.nest([i, j], f"{self.leaf(target, where)}={value.format(x=x)};", f"{j.index}{sign}{cut}"))

    def transposed_stage(self) -> None:
        """A block with two thread axes, a padded shared tile, and a guarded edge."""
        rows, columns, tile = self.rng.randint(2, 7), self.rng.randint(2, 7), 4
        source = self.operand((rows, columns))
        target = self.result((columns, rows))
        s = next(self.names)
        gy, gx = -(-rows // tile), -(-columns // tile)
        r, c = f"by*{tile}", f"bx*{tile}"
        load = (f"B^{{{tile},{tile}}}_{{ty,tx}}({r}+ty<{rows}&&{c}+tx<{columns})"
                f"[{s}_{{ty,tx}}={self.leaf(source, [f'{r}+ty', f'{c}+tx'])};]")  # fmt: skip
        store = (f"B^{{{tile},{tile}}}_{{ty,tx}}({c}+ty<{columns}&&{r}+tx<{rows})"
                 f"[{self.leaf(target, [f'{c}+ty', f'{r}+tx'])}={s}_{{tx,ty}};]")  # fmt: skip
        self.add(f"B^{{{gy},{gx}}}_{{by,bx}}[{s}^{{{self.wide()},s}}_{{{tile},{tile + 1}}};{load}{store}]")


def _declaration(tensor: _Tensor) -> str:
    dtype = "" if tensor.dtype == "f32" else f"^{{{tensor.dtype}}}"
    return tensor.name + dtype + (f"_{{{','.join(map(str, tensor.shape))}}}" if tensor.shape else "")


def _header(loops: Sequence[tuple[str, str, int, int]]) -> str:
    return "".join(
        f"{kind}^{{{extent}}}_{{{name}{f'={first}' if first else ''}}}" for kind, name, extent, first in loops
    )


def describe(program: Program) -> dict[str, bool]:
    """What a program contains: the properties whose shares `distribution` prints."""
    statements = [statement for _, statement in walk(program)]
    expressions = [expression for _, expression in walk_places(program)]
    equations = [s for s in statements if isinstance(s, Equation)]
    allocs = [s for s in statements if isinstance(s, Alloc)]
    loops = [s for s in statements if isinstance(s, Loop)]
    nests = sum(isinstance(s, Loop) for s in program.body)
    gathers = any(
        isinstance(index, Access) or any(isinstance(a, Access) for a in accesses(index))
        for e in expressions if isinstance(e, Access) for index in e.indices
    )  # fmt: skip
    guards = any(isinstance(s, Guard) for s in statements)
    staged = any(a.scope != "g" for a in allocs)
    dtypes = {d.dtype for d in (*program.inputs, *program.outputs)} | {a.dtype for a in allocs}
    result = {
        "three nests": nests >= 3,
        "guard": guards,
        "gather": gathers,
        "s or l": staged,
        "three nests and a guard, gather, s or l": nests >= 3 and (guards or gathers or staged),
        "guard, gather, s or l": guards or gathers or staged,
        "if_then_else": any(isinstance(e, Select) for e in expressions),
        "// or %": any(isinstance(e, Binary) and e.op in ("//", "%") for e in expressions),
        "several outputs": len(program.outputs) > 1,
        "rank 0": any(not d.shape for d in (*program.inputs, *program.outputs)) or any(
            isinstance(e, Access) and not e.indices for e in expressions),
        "extent 1": any(loop.extent == 1 for loop in loops),
        "first value": any(loop.first for loop in loops),
        "phases": any(isinstance(s, Loop) and s.kind == "B" and sum(
            isinstance(b, Loop) and b.kind == "B" for b in s.body) > 1 for s in statements),
        "integer subscript literal": any(
            isinstance(e, Access) and any(isinstance(i, Integer) for i in e.indices) for e in expressions),
    }  # fmt: skip
    for kind in "PVUB":
        result[f"{kind} loop"] = any(loop.kind == kind for loop in loops)
    for op in ("+=", "*=", "max=", "min="):
        result[f"reduction {op}"] = any(equation.op == op for equation in equations)
    for dtype in ("f16", "bf16", "f64", "i8", "i32", "i64", "bool"):
        result[dtype] = dtype in dtypes
    return result


def distribution(programs: Iterable[Program]) -> str:
    """A table of shares: which part of the programs contains what."""
    described = [describe(program) for program in programs]
    names = described[0] if described else {}
    shares = [f"{sum(d[name] for d in described) / len(described):6.1%}  {name}" for name in names]
    return "\n".join([f"{len(described)} programs", *shares])
