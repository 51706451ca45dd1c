"""Arguments are complete: what the grid leaves out is legal wherever the facts allow it, and keeps the meaning.

For each strategy on loops and memory, `SPACES` goes through all arguments that a program has a place for: every loop,
pair of loops, tensor, statement, axis and size, whether or not candidates propose it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any

import pytest

from leir.analysis.access import tensors
from leir.edit import accesses, expressions, perfect_nest, walk, walk_expression
from leir.parser import parse
from leir.syntax import AXES, SCOPES, Alloc, Equation, Guard, Loop, Path, Program
from strategies.base import Applied, Refused, Strategy
from strategies.catalog import strategy
from strategies.memory.layout_transformation import LayoutTransformation
from strategies.memory.set_storage_layout import SetStorageLayout
from strategies.operator.loop_reorder import LoopReorder
from tests.programs import keyed
from tests.strategies.judging import judge
from tests.strategies.meaning import why_not_same_values
from tests.strategies.walks import Trial, programs, tried

Arguments = Iterator[dict[str, Any]]
TRIED = 20  # steps of a strategy on a program, of those that candidates leave out
JUDGED = 4  # of these, how many that are legal

# Loops, tiles, parts and boxes that are larger than any that candidates propose.
LARGE = (
    """in A_{7,100},W_{100};out C_{7,100};
    L^{7,100}_{i,j}[C_{i,j}=A_{i,j}*W_j+1.0;]""",
    """in A_{3,1500};out C_3;
    L^{3,1500}_{i,k}[C_i max=A_{i,k};]""",
    """in A_{96,90};out C_{96,90};
    B^2_{bx}[L^{96,90}_{i,j}(i%2==bx)[C_{i,j}=A_{i,j}+A_{95-i,j};]]""",
    """in A_{20,18};out C_{18,20};
    L^{20,18}_{i,j}[D_{j,i}=A_{i,j}*2.0;]L^{20,18}_{i,j}[C_{j,i}=D_{j,i}+1.0;]""",
)


STARTS = [*programs(range(6)), *((f"large {number}", parse(text)) for number, text in enumerate(LARGE))]


def loops(program: Program) -> list[tuple[Path, Loop]]:
    return [(path, node) for path, node in walk(program) if isinstance(node, Loop)]


def pairs(program: Program) -> Iterator[tuple[Path, Loop, Path, Loop]]:
    for outer, node in loops(program):
        for inner, below in perfect_nest(node, outer)[1:]:
            if isinstance(below, Loop):
                yield outer, node, inner, below


def splits(program: Program) -> Arguments:
    for path, loop in loops(program):
        yield from ({"path": path, "factor": factor} for factor in range(2, loop.extent))


def tilings(program: Program) -> Arguments:
    for outer, one, inner, other in pairs(program):
        for a, b in product(range(2, one.extent), range(2, other.extent)):
            yield {"outer": outer, "inner": inner, "outer_tile": a, "inner_tile": b}


def reorders(program: Program) -> Arguments:
    yield from ({"outer": outer, "inner": inner} for outer, _, inner, _ in pairs(program))


def at_loops(program: Program) -> Arguments:
    yield from ({"path": path} for path, _ in loops(program))


def bindings(program: Program) -> Arguments:
    yield from ({"path": path, "kind": kind} for path, _ in loops(program) for kind in (*AXES, "serial"))


def kinds(*names: str) -> Callable[[Program], Arguments]:
    def of(program: Program) -> Arguments:
        yield from ({"path": path, "kind": kind} for path, _ in loops(program) for kind in (*names, "serial"))

    return of


def factorizations(program: Program) -> Arguments:
    for path, loop in loops(program):
        written = dict.fromkeys(e.target.tensor for _, e in walk(loop) if isinstance(e, Equation) and e.op != "=")
        for tensor, parts in product(written, range(2, loop.extent + 1)):
            yield {"path": path, "tensor": tensor, "parts": parts}


def caches(program: Program) -> Arguments:
    for path, node in walk(program):
        if isinstance(node, Loop | Guard):
            for tensor in dict.fromkeys(access.tensor for access in accesses(node)):
                for scope, side in product(("s", "l"), ("read", "write")):
                    yield {"path": path, "tensor": tensor, "scope": scope, "side": side}


def layouts(shape: tuple[int, ...], *, own: bool) -> Arguments:
    rank = range(len(shape))
    yield from ({"op": "swap", "axis": a, "by": b} for a in rank for b in rank if a != b)
    for axis, size in enumerate(shape):
        yield from ({"op": "split", "axis": axis, "by": by} for by in range(2, size) if own or size % by == 0)
        yield from ({"op": "pad", "axis": axis, "by": by} for by in (1, 2, 3, 7))
        if own:
            yield from ({"op": "fold", "axis": axis, "by": by} for by in range(1, size))
            yield from ({"op": "pad", "axis": axis, "by": -by} for by in range(1, size))
        if axis + 1 < len(shape):
            yield {"op": "merge", "axis": axis, "by": shape[axis + 1]}


def transformations(program: Program) -> Arguments:
    for at, tensor in product(range(len(program.body)), tensors(program).values()):
        yield from ({"at": at, "tensor": tensor.name, **layout} for layout in layouts(tensor.shape, own=False))


def storage_layouts(program: Program) -> Arguments:
    for tensor in tensors(program).values():
        yield from ({"tensor": tensor.name, **layout} for layout in layouts(tensor.shape, own=True))


def scopes(program: Program) -> Arguments:
    yield from ({"tensor": tensor, "scope": scope} for tensor in tensors(program) for scope in SCOPES)


def subscripts(program: Program) -> Arguments:
    for path, statement in walk(program):
        for number, whole in enumerate(() if isinstance(statement, Alloc) else expressions(statement)):
            for within, _ in walk_expression(whole, (number,)):
                yield {"path": path, "within": within}


SPACES: dict[str, Callable[[Program], Arguments]] = {
    "loop_binding": bindings,
    "loop_fusion": at_loops,
    "loop_parallelization": kinds("parallel"),
    "loop_reorder": reorders,
    "loop_split": splits,
    "loop_tiling": tilings,
    "loop_unrolling": kinds("unrolled"),
    "loop_vectorization": kinds("vectorised"),
    "reduction_factorization": factorizations,
    "cache_read_write": caches,
    "layout_transformation": transformations,
    "precompute_indices": subscripts,
    "set_storage_layout": storage_layouts,
    "set_storage_scope": scopes,
}


def left_out(cls: type[Strategy], program: Program) -> list[Strategy]:
    """The steps of a program that candidates leave out."""
    proposed = dict.fromkeys(cls.candidates(program))
    steps = (cls(**arguments) for arguments in SPACES[cls.name](program))
    return [step for step in dict.fromkeys(steps) if step not in proposed]


def swaps(order: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Swaps of two places, one after the other, that bring 0, 1, 2, ... into an order."""
    now = list(range(len(order)))
    for place, wanted in enumerate(order):
        other = now.index(wanted)
        if other != place:
            yield place, other
            now[place], now[other] = now[other], now[place]


# Facts that may refuse a size which candidates leave out: none is about the size itself.
JUDGES: dict[str, tuple[str, ...]] = {
    "loop_split": ("stays-well-formed",),
    "loop_tiling": ("flow-preserved", "stays-well-formed"),
    "reduction_factorization": (
        "loop-is-reduced-over", "result-lives-outside", "result-is-not-used-inside", "result-stays-in-place",
        "terms-may-be-regrouped", "stays-well-formed",
    ),
    "set_storage_layout": ("tensor-is-a-temporary", "flow-preserved", "stays-well-formed"),
    "layout_transformation": (
        "statement-is-there", "tensor-is-read", "tensor-is-global", "source-is-unchanged", "stays-well-formed",
    ),
}  # fmt: skip
# Legal steps that candidates leave out, at least; none where candidates propose whatever is legal.
LEGAL = {
    "loop_binding": 1, "loop_fusion": 0, "loop_parallelization": 1, "loop_reorder": 0, "loop_split": 60,
    "loop_tiling": 60, "loop_unrolling": 2, "loop_vectorization": 0, "reduction_factorization": 30,
    "cache_read_write": 5, "layout_transformation": 60, "precompute_indices": 5, "set_storage_layout": 30,
    "set_storage_scope": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", SPACES)
def test_what_candidates_leave_out_is_legal_where_facts_allow_it(name: str) -> None:
    counts: Counter[str] = Counter()
    for key, program in STARTS:
        steps = left_out(strategy(name), program)
        drawn = keyed(key, name).sample(steps, min(TRIED, len(steps))) if LEGAL[name] else steps
        trials = [Trial(program, step, tried(step, program)) for step in drawn]
        legal = [trial for trial in trials if isinstance(trial.outcome, Applied)]
        counts += judge(key, [*legal[:JUDGED], *(trial for trial in trials if isinstance(trial.outcome, Refused))])
    assert counts[f"{name} legal"] >= LEGAL[name] and (LEGAL[name] or not counts[f"{name} legal"]), counts
    refused = [fact for entry in counts if (fact := entry.partition(" refused, ")[2])]
    assert name not in JUDGES or all(fact in JUDGES[name] for fact in refused), counts


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_any_order_of_loops_and_of_dimensions_is_a_few_swaps_away(order: tuple[int, ...]) -> None:
    sizes, nest = (3, 4, 5, 2), "L^{3,4,5,2}_{i,j,k,u}"
    body = f"{nest}[D_{{i,j,k,u}}=A_{{i,j,k,u}}*2.0;]{nest}[C_{{i,j,k,u}}=D_{{i,j,k,u}}+1.0;]"
    program = parse(f"in A_{{3,4,5,2}};out C_{{3,4,5,2}};{body}")
    ordered = stored = copied = program
    for number, (a, b) in enumerate(swaps(order)):
        ordered = LoopReorder(outer=(0,) * (a + 1), inner=(0,) * (b + 1)).apply(ordered).program
        stored = SetStorageLayout(tensor="D", op="swap", axis=a, by=b).apply(stored).program
        source = ("A", *(node.target.tensor for _, node in walk(copied) if isinstance(node, Equation)))[number]
        copied = LayoutTransformation(at=number, tensor=source, op="swap", axis=a, by=b).apply(copied).program
    wanted = tuple(sizes[axis] for axis in order)
    assert tuple(loop.extent for _, loop in loops(ordered)[:4]) == wanted
    assert tensors(stored)["D"].shape == wanted
    (read,) = (e.value for _, e in walk(copied) if isinstance(e, Equation) and e.target.tensor == "D")
    assert [tensors(copied)[access.tensor].shape for access in accesses(read)] == [wanted]
    for after in (ordered, stored, copied):
        assert not why_not_same_values(program, after, True, "orders")
