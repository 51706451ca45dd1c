"""Expressions planted in two nests, in disguise, are found whole; and splitting proposes every part that computes."""

import random
from collections.abc import Iterator

import pytest

from leir.check import check
from leir.edit import accesses, expression_at, walk
from leir.names import tensor_names
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Access, Binary, Call, Equation, Expr, Path, Place, Program, Select, Unary, operands
from strategies.base import Applied
from strategies.graph.common_subexpression_elimination import CommonSubexpressionElimination
from strategies.graph.expression_splitting import ExpressionSplitting
from tests.programs import keyed, random_program
from tests.strategies.disguises import DISGUISES, Variant
from tests.strategies.walks import tried

LEAVES = ("A_{i,j}", "W_j", "X_i", "A_{i,7-j}", "0.5")
AROUND = ("{}", "{}*A_{{i,j}}", "tanh({})+1.0", "X_i+{}", "{}/2.0")
WORN = ("reordered", "split", "shifted", "commuted", "renamed")


def expression(draw: random.Random, depth: int) -> str:
    if depth == 0:
        return draw.choice(LEAVES)
    one, other = expression(draw, depth - 1), expression(draw, depth - 1)
    forms = (f"({one}+{other})", f"({one}*{other})", f"exp({one})", f"max({one},{other})")
    return draw.choice((*forms, f"if_then_else(i<j,{one},{other})"))


def planted(seed: int) -> tuple[Program, int]:
    """A program in disguise with one expression in two nests, another between them, and the expression's size."""
    draw = keyed("planted", seed)
    value = f"tanh({expression(draw, draw.choice((1, 2)))}-A_{{i,j}})"
    one, other = (draw.choice(AROUND).format(value) for _ in range(2))
    loops = draw.choice(("L^{8,8}_{i,j}", "L^{8,8}_{j,i}"))
    program = parse(
        f"in A_{{8,8}},W_8,X_8;out C_{{8,8}},D_{{8,8}},E_{{8,8}}; L^{{8,8}}_{{i,j}}[C_{{i,j}}={one};]"
        f"L^{{8,8}}_{{i,j}}[E_{{i,j}}=A_{{i,j}}*3.0;] {loops}[D_{{i,j}}={other};]"
    )
    alone = parse(f"in A_{{8,8}},W_8,X_8;out C_{{8,8}};L^{{8,8}}_{{i,j}}[C_{{i,j}}={value};]")
    variant = Variant(program, {tensor: tensor for tensor in tensor_names(program)})
    for worn in sorted(draw.sample(WORN, 3), key=WORN.index):
        changed = DISGUISES[worn](variant, draw)
        if changed is not None and not check(changed.program):
            variant = changed
    return variant.program, size(expression_at(alone, Place((0, 0, 0), (1,))))


def size(part: Expr) -> int:
    """Nodes outside of subscripts."""
    return 1 if isinstance(part, Access) else 1 + sum(map(size, operands(part)))


@pytest.mark.parametrize("seed", range(10))
def test_what_stands_in_two_nests_is_found_whole(seed: int) -> None:
    program, wanted = planted(seed)
    steps = CommonSubexpressionElimination.candidates(program)
    sizes = [
        size(expression_at(program, Place(step.path, step.within)))
        for step in steps
        if step.before == 1 and isinstance(tried(step, program), Applied)
    ]
    assert max(sizes, default=0) >= wanted, to_text(program)


@pytest.mark.parametrize("seed", range(5))
def test_every_part_that_computes_from_tensors_is_proposed_at_every_place_on_its_path(seed: int) -> None:
    program = random_program(seed)
    proposed = {(step.path, step.within, step.before) for step in ExpressionSplitting.candidates(program)}
    for path, node in walk(program):
        if isinstance(node, Equation):
            for within, part in computed(node.value, (1,)):
                is_copy = within == (1,) and node.op == "="
                if any(accesses(part)) and not is_copy:
                    assert {(path, within, before) for before in range(1, len(path) + 1)} <= proposed


def computed(part: Expr, within: Path) -> Iterator[tuple[Path, Expr]]:
    """The operations of a value, subscripts left out."""
    if isinstance(part, Binary | Call | Select | Unary):
        yield within, part
    if not isinstance(part, Access):
        for number, below in enumerate(operands(part)):
            yield from computed(below, (*within, number))
