"""What the checker accepts stays within its tensors on a machine whose integers wrap around."""

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from leir.analysis.types import Weak, type_of
from leir.check import check
from leir.edit import dtypes, walk
from leir.parser import parse
from leir.syntax import Access, Binary, Call, Cast, DType, Equation, Expr, Guard, Integer, Program, Unary, Variable

LARGE = (2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)
SMALL = (1, 2, 3, 5, 8, 40)
BITS: dict[str, int] = {"i8": 8, "i32": 32, "i64": 64}
SIZE = 32
# K holds 0, 1, 2, 3 in i64, and J in i32: the checker knows their bounds.
FRAME = (
    "in A_8;out C_8;K^{i64,g}_4;J^{i32,g}_4;Z^{f32,g}_{SIZE};L^8_i[C_i=A_i;]L^4_i[K_i=i;J_i=i;]"
    "L^4_i(GUARD)[Z_{INDEX}=1.0;]"
).replace("SIZE", str(SIZE))


def term(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(("i", "i", "K_i", "J_i", "cast(i64,J_i)", str(draw.choice(SMALL)), str(draw.choice(LARGE))))
    left, right = term(draw, depth - 1), term(draw, depth - 1)
    match draw.randrange(8):
        case 0:
            return f"max({left},{right})"
        case 1:
            return f"min({left},{right})"
        case 2:
            return f"abs({left})"
        case 3 | 4:
            return f"({left}){draw.choice(('//', '%'))}{draw.choice((*SMALL, *LARGE))}"
        case 5:
            return f"({left})*{draw.choice((*SMALL, *LARGE, *LARGE))}"
        case _:
            return f"({left}){draw.choice('+-')}({right})"


def undone(draw: random.Random) -> str:
    """A large factor, and what takes it back where integers have no end."""
    factor, inner = draw.choice(LARGE), term(draw, 1)
    back = draw.choice((f"//{factor}", f"-({inner})*{factor - 1}", f"%{factor}", f"//{factor}%{draw.choice(SMALL)}"))
    return f"(({inner})*{factor}){back}"


def program(draw: random.Random) -> str:
    index = draw.choice((term, lambda d, _: undone(d)))(draw, 3)
    if draw.random() < 0.4:
        index = f"min(max({index},0),{SIZE - 1})"
    if draw.random() < 0.3:
        index = f"({index})*{draw.choice(SMALL)}"
    left = draw.choice((term, lambda d, _: undone(d)))(draw, 2)
    guard = f"{left}{draw.choice(('<', '<=', '==', '>='))}{draw.choice(SMALL)}"
    if draw.random() < 0.5:
        guard = f"{index}<{SIZE}&&{index}>=0"
    return FRAME.replace("GUARD", guard).replace("INDEX", index)


def machine(expression: Expr, values: Mapping[str, int], types: Mapping[str, DType]) -> int:
    """The value where every operation wraps around in its type."""

    def of(part: Expr) -> int:
        return machine(part, values, types)

    match expression:
        case Integer(value):
            return value
        case Variable(name) | Access(name):
            return values[name]
        case Cast(dtype, operand):
            return wrapped(of(operand), dtype)
        case Unary("-", operand):
            result = -of(operand)
        case Call("abs", (operand,)):
            result = abs(of(operand))
        case Call("max" | "min" as name, (left, right)):
            result = (max if name == "max" else min)(of(left), of(right))
        case Binary("&&", left, right):
            return int(bool(of(left)) and bool(of(right)))
        case Binary(op, left, right):
            a, b = of(left), of(right)
            compared = {"<": a < b, "<=": a <= b, "==": a == b, ">=": a >= b}
            if op in compared:
                return int(compared[op])
            result = {"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0, "%": a % b if b else 0}[op]
        case _:
            raise AssertionError(expression)
    kind = type_of(expression, types)
    return result if isinstance(kind, Weak) or kind not in BITS else wrapped(result, kind)  # floats: as they are


def wrapped(value: int, dtype: DType) -> int:
    bits = BITS[dtype]
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def leaves(found: Program) -> bool:
    """Whether some iteration writes outside Z."""
    types = dtypes(found)
    guard = next(s for _, s in walk(found) if isinstance(s, Guard))
    (store,) = guard.body
    assert isinstance(store, Equation)
    for i in range(4):
        values = {"i": i, "K": i, "J": i}
        if machine(guard.condition, values, types) and not 0 <= machine(store.target.indices[0], values, types) < SIZE:
            return True
    return False


@pytest.mark.parametrize("seed", range(3))
def test_what_is_accepted_stays_within_its_tensors(seed: int) -> None:
    draw = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(150):
        text = program(draw)
        found = parse(text)
        codes = {diagnostic.code for diagnostic in check(found)}
        seen.update(codes or {"accepted"})
        if not codes:
            assert not leaves(found), text
    assert seen["accepted"] > 40 and seen["integer-overflow"] > 5, seen
