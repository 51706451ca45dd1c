"""Building the text of one random program: names, operands, loops with legal kinds, expressions of moderate size."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from leir.names import tensor_sequence
from leir.syntax import RESERVED_WORDS

FLOATS = ("f16", "bf16", "f32", "f64")


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    dtype: str
    shape: tuple[int, ...]
    bound: int = 0  # integers: values are in 0..bound-1, where that is known by construction


@dataclass(frozen=True, slots=True)
class Axis:
    """One logical index: its loops from the outside in (kind, variable, extent, first), its value, its guard."""

    loops: tuple[tuple[str, str, int, int], ...]
    index: str
    guard: str = ""


class Builder:
    """Builds the text of one program, operator by operator."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = tensor_sequence()
        self.variables = 0
        self.inputs: list[Result] = []
        self.results: list[Result] = []  # fully written global tensors, not inputs
        self.lines: list[str] = []
        self.declared: list[str] = []  # results that are declared even where they need not be
        self.first_use: dict[str, int] = {}  # temporary: the line before which it is declared
        self.dtype = self.pick({"f32": 14, "f64": 3, "f16": 1, "bf16": 1})

    def pick(self, weights: dict[str, int]) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def text(self) -> str:
        """The program's text; the first output is the last result of the program's own dtype."""
        first = [result for result in self.results if result.dtype == self.dtype][-1]
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
        signature = f"in {','.join(map(declaration, self.inputs))};out {','.join(map(declaration, outputs))};"
        return "\n".join([signature, *self.lines]) + "\n"

    def size(self) -> int:
        return self.rng.choices((1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16), (2, 4, 5, 7, 4, 5, 4, 6, 3, 2, 2))[0]

    def shape(self, least: int = 1, most: int = 3) -> tuple[int, ...]:
        rank = self.rng.choices(range(least, most + 1), [(3, 5, 2)[min(n, 2)] for n in range(most + 1 - least)])[0]
        return tuple(self.size() for _ in range(rank))

    def input(self, shape: tuple[int, ...], dtype: str = "", bound: int = 0) -> Result:
        """An input, one that exists already where it fits."""
        dtype = dtype or (self.dtype if self.chance(0.8) else self.rng.choice(FLOATS))
        fitting = [t for t in self.inputs if (t.shape, t.dtype, t.bound) == (shape, dtype, bound)]
        if fitting and self.chance(0.5):
            return self.rng.choice(fitting)
        tensor = Result(next(self.names), dtype, shape, bound)
        self.inputs.append(tensor)
        return tensor

    def operand(self, shape: tuple[int, ...]) -> Result:
        """A float tensor of this shape, an earlier result where there is one."""
        fitting = [t for t in self.results if t.shape == shape and t.dtype in FLOATS]
        return self.rng.choice(fitting[-3:]) if fitting and self.chance(0.75) else self.input(shape)

    def any_operand(self, least: int = 1, most: int = 3) -> Result:
        fitting = [t for t in self.results if least <= len(t.shape) <= most and t.dtype in FLOATS]
        if fitting and self.chance(0.75):
            return self.rng.choice(fitting[-3:])
        return self.input(self.shape(least, most))

    def result(self, shape: tuple[int, ...], dtype: str = "", bound: int = 0) -> Result:
        """The tensor that the next lines define; it is declared before them if it must be."""
        tensor = Result(next(self.names), dtype or self.dtype, shape, bound)
        self.first_use[tensor.name] = len(self.lines)
        self.results.append(tensor)
        return tensor

    def variable(self, axis: str = "") -> str:
        self.variables += 1
        if axis:
            return axis + ("" if self.chance(0.7) else "abcdefgh"[self.variables % 8] + str(self.variables))
        name = self.rng.choice("ijkmnpqrst") + str(self.variables)
        return name if name not in RESERVED_WORDS else f"j{self.variables}"

    def axes(self, sizes: Sequence[int], free: Sequence[bool], kernel: bool = True) -> list[Axis]:
        """Logical indices over `sizes`; those that are `free` carry no dependence and may get any kind."""
        result: list[Axis] = []
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
                result.append(Axis(((kind, self.variable(axis), size, 0),), ""))
                result[-1] = Axis(result[-1].loops, result[-1].loops[0][1])
            elif size > 2 and self.chance(0.15):
                factor = self.rng.randint(2, min(size, 5))
                outer, inner = self.variable(), self.variable()
                loops = ((kind, outer, -(-size // factor), 0), ("L", inner, factor, 0))
                index = f"({outer}*{factor}+{inner})"
                result.append(Axis(loops, index, f"{index}<{size}" if size % factor else ""))
            elif self.chance(0.08):
                first = self.rng.randint(1, 3)
                name = self.variable()
                result.append(Axis(((kind, name, size, first),), f"({name}-{first})"))
            else:
                name = self.variable()
                result.append(Axis(((kind, name, size, 0),), name))
        return result

    def nest(self, axes: Sequence[Axis], equation: str, guard: str = "", vector: int = -1) -> str:
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
        return f"{header(headers)}{f'({guards})' if guards else ''}[{equation}]" if headers or guards else equation

    def add(self, line: str) -> None:
        self.lines.append(line)

    def leaf(self, tensor: Result, indices: Sequence[str]) -> str:
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
             "round({x}*2.0)", "1.0/(1.0+exp(-min({x},20.0)))", "({x}/4.0)", "expm1(min({x},1.0))", "log(abs({x})+1.5)",
             "{x}**2", "(abs({x})+0.5)**-1", "cast(f32,{x})", "cast(f16,{x})", "cast(bf16,{x})", "(2*3-5)*{x}",
             "min({x},1e2)")
        )  # fmt: skip
        return self.unary(f"({form.format(x=text)})", depth - 1)

    def wide(self) -> str:
        """The dtype of a staged temporary: the one that the program computes in."""
        return "f32" if self.dtype in ("f16", "bf16") else self.dtype


def declaration(tensor: Result) -> str:
    """The tensor as the signature declares it."""
    dtype = "" if tensor.dtype == "f32" else f"^{{{tensor.dtype}}}"
    return tensor.name + dtype + (f"_{{{','.join(map(str, tensor.shape))}}}" if tensor.shape else "")


def header(loops: Sequence[tuple[str, str, int, int]]) -> str:
    """Loops as text, one a header."""
    return "".join(
        f"{kind}^{{{extent}}}_{{{name}{f'={first}' if first else ''}}}" for kind, name, extent, first in loops
    )
