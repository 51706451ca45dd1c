"""An oracle for the analyses: small programs run instance by instance in plain Python, every access noted.

It shares nothing with `leir.analysis` but the syntax tree. Only integers are evaluated: subscripts, guards and
conditions; what programs compute does not matter. Programs are random, and wrong in every way on purpose.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from leir.names import variable_sequence
from leir.parser import parse
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Call,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Select,
    Stmt,
    Unary,
    Variable,
    operands,
)


@dataclass(frozen=True)
class Event:
    """One access of one instance. `element` has the lifetime's iteration in front. `loops`: path and value of each."""

    statement: Path
    place: Place
    mode: Literal["read", "write", "update"]
    op: str
    tensor: str
    element: tuple[int, ...]
    indices: tuple[int, ...]
    loops: tuple[tuple[Path, Loop, int], ...]

    @property
    def values(self) -> tuple[int, ...]:
        return tuple(value for _, _, value in self.loops)


class Reads(Exception):
    """A condition or a subscript depends on data."""


def evaluate(expression: Expr, values: dict[str, int]) -> Any:
    """The number that an expression without accesses is. Raises Reads for one with them, and for calls of floats."""

    def of(operand: Expr) -> Any:
        return evaluate(operand, values)

    match expression:
        case Integer(value) | Real(value):
            return value
        case Variable(name):
            return values[name]
        case Unary("-", operand):
            return -of(operand)
        case Unary(_, operand):
            return not of(operand)
        case Binary("&&", left, right):
            return of(left) and of(right)
        case Binary("||", left, right):
            return of(left) or of(right)
        case Binary(op, left, right):
            a, b = of(left), of(right)
            return {
                "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b,
                "<": lambda: a < b, "<=": lambda: a <= b, ">": lambda: a > b, ">=": lambda: a >= b,
                "==": lambda: a == b, "!=": lambda: a != b,
            }[op]()  # fmt: skip
        case Call("max", (left, right)):
            return max(of(left), of(right))
        case Call("min", (left, right)):
            return min(of(left), of(right))
        case Call("abs", (operand,)):
            return abs(of(operand))
        case Select(condition, then, otherwise):
            return of(then if of(condition) else otherwise)
        case _:
            raise Reads


def events(program: Program) -> list[Event]:
    """Every access in the order of execution."""
    return list(_run(program.body, (), (), {}))


_Loops = tuple[tuple[Path, Loop, int], ...]


def _run(body: tuple[Stmt, ...], path: Path, loops: _Loops, life: dict[str, int]) -> Iterator[Event]:
    life = dict(life)
    for number, node in enumerate(body):
        here = (*path, number)
        values = {loop.variable: value for _, loop, value in loops}
        match node:
            case Loop():
                for value in range(node.first, node.first + node.extent):
                    yield from _run(node.body, here, (*loops, (here, node, value)), life)
            case Guard(condition):
                if evaluate(condition, values):
                    yield from _run(node.body, here, loops, life)
            case Alloc(tensor):
                life[tensor] = len(loops)
            case Equation(target, op, value):
                for within, access in _reached(value, (1,), values):
                    yield _event(here, within, access, "read", "", loops, life)
                yield _event(here, (0,), target, "write" if op == "=" else "update", op, loops, life)


def _event(path: Path, within: Path, access: Access, mode, op: str, loops: _Loops, life: dict[str, int]) -> Event:
    values = {loop.variable: value for _, loop, value in loops}
    indices = tuple(evaluate(index, values) for index in access.indices)
    lifetime = tuple(value for _, _, value in loops[: life.get(access.tensor, 0)])
    return Event(path, Place(path, within), mode, op, access.tensor, (*lifetime, *indices), indices, loops)


def _reached(expression: Expr, within: Path, values: dict[str, int]) -> Iterator[tuple[Path, Access]]:
    if isinstance(expression, Access):
        yield within, expression
    elif isinstance(expression, Select):
        number = 1 if evaluate(expression.condition, values) else 2
        yield from _reached(operands(expression)[number], (*within, number), values)
    else:
        for number, operand in enumerate(operands(expression)):
            yield from _reached(operand, (*within, number), values)


def affine_program(seed: str) -> Program:
    """A small random program with affine subscripts, guards, branches and lifetimes; often ill formed."""
    draw = random.Random(seed)
    names = variable_sequence()
    statements: list[str] = []
    for _ in range(draw.randint(1, 3)):
        statements += [_nest(draw, names, [], draw.randint(1, 3))]
    return parse("in A_{4},D_{4,3};out C_{4};" + "".join(statements))


def _nest(draw: random.Random, names: Iterator[str], scope: list[str], depth: int) -> str:
    variable = next(names)
    inner = [*scope, variable]
    first = f"={draw.randint(1, 2)}" if draw.random() < 0.2 else ""
    header = f"{draw.choice('LLP')}^{{{draw.randint(1, 4)}}}_{{{variable}{first}}}"
    body: list[str] = []
    local = f"R{variable}" if draw.random() < 0.25 else ""
    if local:
        body.append(f"{local}^{{f32,l}}_{{4}};")
    for _ in range(draw.randint(1, 2)):
        deeper = depth > 1 and draw.random() < 0.6
        body.append(_nest(draw, names, inner, depth - 1) if deeper else _equation(draw, inner, local))
    if all(part.endswith("};") and "=" not in part for part in body):
        body.append(_equation(draw, inner, local))
    return f"{header}{_guard(draw, inner)}[{''.join(body)}]"


def _guard(draw: random.Random, scope: list[str]) -> str:
    return f"({_condition(draw, scope)})" if draw.random() < 0.3 else ""


def _condition(draw: random.Random, scope: list[str]) -> str:
    text = f"{_index(draw, scope)}{draw.choice(['<', '<=', '>', '>=', '==', '!='])}{draw.randint(0, 3)}"
    if draw.random() < 0.3:
        other = f"{_index(draw, scope)}<{_index(draw, scope)}"
        return draw.choice([f"{text}&&{other}", f"{text}||{other}", f"!({text}&&{other})"])
    return text


def _index(draw: random.Random, scope: list[str]) -> str:
    v, w = draw.choice(scope), draw.choice(scope)
    return draw.choice(
        [v, v, v, v, f"{v}+1", f"{v}-1", f"{v}*2+{w}", f"{v}//2", f"{v}%2", f"({v}+{w})%3", f"3-{v}", f"max({v}-1,0)",
         f"min({v},2)", f"({v}*2+{w})//3", "0", "2", f"abs({v}-{w})", f"-{v}//-2", f"{v}%-3+2"]
    )  # fmt: skip


def _equation(draw: random.Random, scope: list[str], local: str) -> str:
    private = [local] if local else []
    written = draw.choice(["C", "C", "T", "W", *private * 3])
    read = draw.sample(["C", "T", "W", *private], k=draw.randint(0, 2))
    read = [tensor for tensor in read if tensor != written or draw.random() < 0.5]
    value = [f"A_{{{_index(draw, scope)}}}", *(_access(draw, tensor, scope) for tensor in read)]
    if draw.random() < 0.3:
        value[0] = f"if_then_else({_condition(draw, scope)},{value[0]},{value[-1]})"
    op = draw.choice(["=", "=", "=", "+=", "max="])
    if written in read:
        op = "="
    return f"{_access(draw, written, scope)}{' ' if op[0] == 'm' else ''}{op}{'*'.join(value)};"


def _access(draw: random.Random, tensor: str, scope: list[str]) -> str:
    count = 2 if tensor == "W" else 1
    return f"{tensor}_{{{','.join(_index(draw, scope) for _ in range(count))}}}"


def kernel_program(seed: str) -> Program:
    """A small random program of one kernel: blocks, phases, `s`, `g` and `l` tensors; often racing."""
    draw = random.Random(seed)
    blocks = draw.choice([[], ["bx"], ["bx"], ["by", "bx"]])
    scope = [*blocks]
    allocs = "S^{f32,s}_{8};R^{f32,l}_{3,4};" if blocks else ""
    phases = [_phase(draw, scope) for _ in range(draw.randint(1, 3))]
    if draw.random() < 0.4:
        phases = [f"L^{{2}}_{{k}}[{''.join(_phase(draw, [*scope, 'k']) for _ in range(2))}]", *phases[:1]]
    body = allocs + "".join(phases)
    for axis in reversed(blocks):
        body = f"B^{{{draw.randint(1, 2)}}}_{{{axis}}}[{body}]"
    return parse(f"in A_{{8}};out C_{{8}};{body}")


def _phase(draw: random.Random, scope: list[str]) -> str:
    blocks = any(name[0] == "b" for name in scope)
    if blocks and draw.random() < 0.15:
        return _kernel_equation(draw, scope, blocks, [])
    threads = draw.choice([["tx"], ["tx"], ["ty", "tx"]])
    inner = [*scope, *threads]
    count = draw.randint(1, 2)
    body = "".join(_kernel_equation(draw, inner, blocks, threads) for _ in range(count))
    if draw.random() < 0.3:
        body = f"L^2_{{m}}[{_kernel_equation(draw, [*inner, 'm'], blocks, threads)}]"
    if draw.random() < 0.2:
        body = f"({draw.choice(inner)}<1)[{body}]"
    first = "=1" if draw.random() < 0.15 else ""
    for axis in reversed(threads):
        body = f"B^{{{draw.randint(1, 3)}}}_{{{axis}{first}}}[{body}]"
    return body


def _kernel_equation(draw: random.Random, scope: list[str], blocks: bool, threads: list[str]) -> str:
    def access() -> str:
        tensor = draw.choice(["C", "T", *(["S", "S", "S", "R"] if blocks else [])])
        v, w = draw.choice([*threads * 3, *scope]), draw.choice(scope)
        index = draw.choice([v, v, v, f"{v}*3+{w}", f"{v}+1", f"2-{v}", f"{v}//2", "0"])
        return f"R_{{{v},{index}}}" if tensor == "R" else f"{tensor}_{{{index}}}"

    target, read = access(), access()
    op = draw.choice(["=", "=", "+="]) if target[0] != read[0] else "="
    return f"{target}{op}A_0*{read};"
