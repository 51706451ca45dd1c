"""Random integer programs whose conditions, choices and floor divisions nest in each other, reads guarded lazily."""

import random

from leir.parser import parse
from leir.syntax import Program


def random_nesting(rng: random.Random, depth: int) -> Program:
    """A program of two nests over eight elements, with expressions that nest about `depth` deep."""
    guard = _condition(rng, depth)
    choice = f"if_then_else({_condition(rng, depth)},C_i+1,{_number(rng, depth - 1)})"
    nests = f"L^8_i[C_i={_number(rng, depth)};]L^8_i({guard})[C_i={choice};]"
    return parse(f"in A^{{i64}}_8,D^{{i32}}_8;out C^{{i64}}_8;{nests}")


def _condition(rng: random.Random, depth: int) -> str:
    def condition(less: int) -> str:
        return _condition(rng, depth - less)

    def number(less: int) -> str:
        return _number(rng, depth - less)

    if depth <= 0:
        return rng.choice(("A_i>0", "i>3", "A_i==D_i", "D_i<2", "i%3==0"))
    match rng.randrange(9):
        case 0:
            return f"if_then_else({condition(1)},{condition(2)},{condition(3)})"
        case 1:
            return f"({condition(1)}&&{condition(2)})"
        case 2:
            return f"({condition(1)}||{condition(2)})"
        case 3:
            return f"(i>0&&A_{{i-1}}>{number(3)})"
        case 4:
            return f"(i>=7||A_{{i+1}}<{number(2)}||{condition(1)})"
        case 5:
            return f"(D_i!=0&&A_i//D_i>{number(2)})"
        case 6:
            return f"(!({condition(1)}))"
        case 7:
            return f"(({condition(1)})==({condition(2)}))"
        case _:
            return f"{number(1)}<{number(2)}"


def _number(rng: random.Random, depth: int) -> str:
    def number(less: int) -> str:
        return _number(rng, depth - less)

    if depth <= 0:
        return rng.choice(("A_i", "D_i", "i", "(i-2)", "(A_i+1)"))
    match rng.randrange(6):
        case 0:
            return f"if_then_else({_condition(rng, depth - 1)},{number(1)},{number(2)})"
        case 1:
            return f"({number(1)}//{rng.choice(('3', '-2', 'max(D_i,1)'))})"
        case 2:
            return f"({number(1)}%{rng.choice(('5', '-3', 'max(A_i,2)'))})"
        case 3:
            return f"if_then_else(i>0,A_{{max({number(2)},0)%8}},{number(1)})"
        case 4:
            return f"max({number(1)},{number(2)}-2)"
        case _:
            return f"({number(1)}+{number(3)})"
