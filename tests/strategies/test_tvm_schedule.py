"""A second opinion: TVM's own `Schedule` on perfect nests, asked what the loop strategies are asked.

Both see one nest of one equation, TVM as a block. Where the question is the same, both accept or both refuse. They
differ by design in what `REASONS` lists, which is asserted too: no other difference occurs.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule, ScheduleError

from leir.check import check
from leir.edit import walk
from leir.interp import interpret
from leir.lowering.sblocks import sblock_function
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Equation, Loop, Path, Program
from strategies.base import Refused
from strategies.catalog import parse_step
from tests.programs import keyed, random_inputs

Primitive = Callable[[Schedule, list], object]

# Why the two may differ, as a text that starts with who accepts.
REASONS = {
    "ours: the nest reads what it writes": "TVM takes no block that reads its own target apart from an accumulation, "
    "and orders nothing in it; the dependences here are exact",
    "ours: a maximum starts from -inf": "TVM knows a maximum by the lowest finite float that it starts "
    "from, and does not find it where that is -inf",
    "tvm: strides": "a vector's accesses move by 0 or 1 element here, by any number in TVM",
}


def nest(seed: int) -> Program:
    """A perfect nest of 2 or 3 loops below one equation: a map, a sum, a maximum, or a recurrence with a start."""
    draw = keyed("perfect nest", seed)
    extents = {name: draw.choice((4, 6, 8)) for name in "ijk"}
    i, j, k = (extents[name] for name in "ijk")
    order = draw.sample("ijk", 3)
    header = f"L^{{{','.join(str(extents[name]) for name in order)}}}_{{{','.join(order)}}}"
    body, inputs, output = draw.choice((
        ("C_{i,j}+=A_{i,k}*W_{k,j};", f"A_{{{i},{k}}},W_{{{k},{j}}}", f"C_{{{i},{j}}}"),
        ("C_{j}max=A_{i,k}-W_{k,j};", f"A_{{{i},{k}}},W_{{{k},{j}}}", f"C_{{{j}}}"),
        ("C_{i,j,k}=A_{k,j}*W_{i,k};", f"A_{{{k},{j}}},W_{{{i},{k}}}", f"C_{{{i},{j},{k}}}"),
        ("C_{j,k,i}=A_{i,j}+W_{k};", f"A_{{{i},{j}}},W_{{{k}}}", f"C_{{{j},{k},{i}}}"),
        ("C_{i}+=A_{i,j,k};", f"A_{{{i},{j},{k}}}", f"C_{{{i}}}"),
        ("C_{i,j+1,k}=C_{i,j,k}+A_{i,j};", f"A_{{{i},{j}}}", f"C_{{{i},{j + 1},{k}}}"),
        ("C_{i+1,j+1,k}=C_{i,j,k}*A_{i,k};", f"A_{{{i},{k}}}", f"C_{{{i + 1},{j + 1},{k}}}"),
        ("C_{i+1,j,k}=C_{i,j+1,k}*A_{i,k};", f"A_{{{i},{k}}}", f"C_{{{i + 1},{j + 1},{k}}}"),
    ))  # fmt: skip
    start = ""
    if "j+1" in body:
        shape = f"{i + ('i+1' in body)},{j + 1},{k}"
        start = f"L^{{{shape}}}_{{i,j,k}}[C_{{i,j,k}}=1.0;]"
    return parse(f"in {inputs};out {output};{start}{header}[{body}]")


def loops_of(program: Program) -> list[tuple[Path, Loop]]:
    """The loops of the last statement, from the outside in."""
    last = len(program.body) - 1
    return [(path, node) for path, node in walk(program) if path[0] == last and isinstance(node, Loop)]


def questions(program: Program) -> list[tuple[dict, Primitive]]:
    """Steps, each with the primitive of TVM that asks the same."""
    paths = [list(path) for path, _ in loops_of(program)]
    result: list[tuple[dict, Primitive]] = []

    def ask(strategy: str, primitive: Primitive, **args: object) -> None:
        result.append(({"strategy": strategy, "args": args}, primitive))

    for n, path in enumerate(paths):
        ask("loop_split", lambda s, loops, n=n: s.split(loops[n], [None, 2]), path=path, factor=2)
        ask("loop_split", lambda s, loops, n=n: s.split(loops[n], [None, 3]), path=path, factor=3)
        ask("loop_parallelization", lambda s, loops, n=n: s.parallel(loops[n]), path=path)
        ask("loop_unrolling", lambda s, loops, n=n: s.unroll(loops[n]), path=path)
        ask("loop_binding", lambda s, loops, n=n: s.bind(loops[n], "blockIdx.x"), path=path, kind="bx")
        for m in range(n + 1, len(paths)):
            swapped = [m, *range(n + 1, m), n]
            ask(
                "loop_reorder",
                lambda s, loops, o=swapped: s.reorder(*(loops[x] for x in o)),
                outer=path,
                inner=paths[m],
            )
            ask("loop_tiling", tiles(n, m, 2, 3), outer=path, inner=paths[m], outer_tile=2, inner_tile=3)
    for n in range(len(paths) - 1):
        ask("loop_fusion", lambda s, loops, n=n: s.fuse(loops[n], loops[n + 1]), path=paths[n])
    ask("loop_vectorization", lambda s, loops: s.vectorize(loops[-1]), path=paths[-1])
    last = next(node for _, node in reversed(list(walk(program))) if isinstance(node, Equation))
    for n, (path, loop) in enumerate(loops_of(program)):
        args = {"path": list(path), "tensor": "C", "parts": loop.extent}
        if last.op != "=":
            result.append(
                ({"strategy": "reduction_factorization", "args": args}, lambda s, loops, n=n: s.rfactor(loops[n], 0))
            )
    return result


def tiles(outer: int, inner: int, *sizes: int) -> Primitive:
    """Splits two loops, and puts the parts where `loop_tiling` does: tile loops outside, what lies between below."""

    def primitive(schedule: Schedule, loops: list) -> None:
        parts = [schedule.split(loops[n], [None, size]) for n, size in zip((outer, inner), sizes, strict=True)]
        (x, u), (y, v) = parts
        schedule.reorder(x, y, *loops[outer + 1 : inner], u, v)

    return primitive


def accepted_by_tvm(function: object, primitive: Primitive, block: str) -> Schedule | None:
    schedule = Schedule(function)
    try:
        primitive(schedule, schedule.get_loops(schedule.get_sblock(block)))
    except ScheduleError:
        return None
    return schedule


@pytest.mark.slow
def test_loop_strategies_agree_with_tvm(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(24):
        program = nest(seed)
        assert not check(program)
        function = sblock_function(program)
        block = "C" if len(program.body) == 1 else "C_1"
        reads_own = len(program.body) > 1
        for step, primitive in questions(program):
            schedule = accepted_by_tvm(function, primitive, block)
            refusal = ""
            try:
                parse_step(step).apply(program)
            except Refused as refused:
                refusal = refused.fact.name
            key = f"{step['strategy']}: both {'refuse' if refusal else 'accept'}"
            if refusal == "strides-are-zero-or-one" and schedule is not None:
                key = "tvm: strides"
            elif not refusal and schedule is None and reads_own:
                key = "ours: the nest reads what it writes"
            elif not refusal and schedule is None and "max=" in to_text(program) and "reduction" in step["strategy"]:
                key = "ours: a maximum starts from -inf"
            elif bool(refusal) != (schedule is None):
                wrong.append(f"{step} on {to_text(program)}: {refusal or 'accepted'} here")
            counts[key] += 1
    with capsys.disabled():
        print("\n" + "\n".join(f"{count:5} {key}" for key, count in sorted(counts.items())))
    assert not wrong, "\n".join(wrong)
    assert {key for key in counts if ": both" not in key} == set(REASONS)
    assert all(
        counts[f"{name}: both accept"] for name in ("loop_split", "loop_reorder", "loop_tiling", "loop_parallelization")
    )
    refused = ("loop_reorder", "loop_tiling", "loop_parallelization", "loop_binding", "reduction_factorization")
    assert all(counts[f"{name}: both refuse"] for name in refused)


@pytest.mark.slow
def test_what_tvm_schedules_computes_the_same() -> None:
    compared = 0
    for seed in range(12):
        program = nest(seed)
        if len(program.body) > 1:
            continue
        function, inputs = sblock_function(program), random_inputs(program, seed, "integers")
        expected = interpret(program, inputs)["C"]
        draw = keyed("scheduled", seed)
        apart = ("loop_binding", "loop_vectorization")  # TVM runs no GPU kernel on a CPU, and vectors differ by strides
        chosen = draw.sample([q for q in questions(program) if q[0]["strategy"] not in apart], 3)
        for step, primitive in chosen:
            schedule = accepted_by_tvm(function, primitive, "C")
            if schedule is None:
                continue
            after = parse_step(step).apply(program).program
            buffers = [tvm.runtime.tensor(inputs[d.tensor]) for d in program.inputs]
            result = tvm.runtime.tensor(np.zeros_like(expected))
            tvm.compile(schedule.mod, target="llvm")["main"](*buffers, result)
            assert np.array_equal(result.numpy(), expected)
            assert np.array_equal(interpret(after, inputs)["C"], expected)
            compared += 1
    assert compared >= 12
