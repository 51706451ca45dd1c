"""What the host does for a nest on `cuda`: its launches by Python, as TVM's host code makes them."""

import re
from collections.abc import Iterator
from math import prod
from typing import Any

import pytest

from leir.analysis.kernels import kernels as kernels_of
from leir.lowering import launches as module
from leir.lowering.build import translate_kernels
from leir.lowering.launches import Launch, in_turn, launches, run_side_by_side
from leir.lowering.nests import Nest, launching, nests
from leir.parser import parse
from leir.syntax import Program
from tests.leir.test_kernels import PROGRAMS
from tests.programs import random_program

LOOPS = """\
in A_{4,8};out C_{4,8};
L^2_kL^2_{m=1}[B^2_{bx}B^4_{tx}[C_{k*2+m-1,bx*4+tx}=A_{k*2+m-1,bx*4+tx};]\
B^8_{tx}[C_{k*2+m-1,tx}=C_{k*2+m-1,tx}*2.0;]]
"""
GUARD = "in A_{4,8};out C_{4,8};\nL^4_k(k%2>=0)[B^8_{tx}[C_{k,tx}=A_{k,tx};]]\n"


def made(program: Program) -> Iterator[tuple[Nest, tuple[Launch, ...] | None, str]]:
    """The nests with their launches, and the CUDA source of all."""
    found = nests(program, "cuda")
    names = [f"nest_{number}" for number in range(len(found))]
    device, hosts = translate_kernels([launching(nest, name) for nest, name in zip(found, names, strict=True)])
    for nest, name in zip(found, names, strict=True):
        yield nest, launches(hosts[name]), device.inspect_source()


def test_host_loops_are_rows_of_launches() -> None:
    ((nest, row, _),) = made(parse(LOOPS))
    assert row is not None
    assert [name for name, _, _ in nest.tensors] == ["C", "A"]
    shown = [(launch.kernel, launch.taken, launch.numbers) for launch in row]
    for place, (k, m) in enumerate([(0, 1), (0, 2), (1, 1), (1, 2)]):
        assert shown[2 * place] == ("nest_0_kernel", (1, 0), (k, m, 2, 4))
        assert shown[2 * place + 1] == ("nest_0_kernel_1", (0,), (k, m, 8))
    assert len(shown) == 8


def test_conditions_of_the_host_are_left_to_tvm() -> None:
    ((_, row, _),) = made(parse(GUARD))
    assert row is None


@pytest.mark.parametrize(("extent", "by_python"), [(module.MOST, True), (module.MOST + 1, False)])
def test_very_many_launches_are_left_to_tvm(extent: int, by_python: bool) -> None:
    text = f"in A_{{{extent},8}};out C_{{{extent},8}};\nL^{{{extent}}}_kB^8_{{tx}}[C_{{k,tx}}=A_{{k,tx}};]\n"
    ((_, row, _),) = made(parse(text))
    assert (row is not None) == by_python


@pytest.mark.parametrize("name", [*PROGRAMS, *map(str, range(30))])
def test_launches_fit_their_kernels(name: str) -> None:
    """Tensors in the order of the kernel's parameters, then a number for each other parameter, then grid and block."""
    program = parse(PROGRAMS[name]) if name in PROGRAMS else random_program(int(name))
    for nest, row, source in made(program):
        alone = Program((), (), (nest.statement,))
        sizes = [(kernel.blocks, kernel.threads) for kernel in kernels_of(alone)]
        for launch in row or ():
            signature = re.search(rf"void (?:__launch_bounds__\(\d+\) )?{launch.kernel}\((.*)\) {{", source)
            assert signature, source
            parameters = re.findall(r"(\w+)(?:,|$)", signature[1])
            tensors = [f"{nest.tensors[place][0]}_ptr" for place in launch.taken]
            assert parameters[: len(tensors)] == tensors
            numbers = launch.numbers[len(parameters) - len(tensors) :]
            assert prod(numbers) in [blocks * threads for blocks, threads in sizes]


def test_a_row_calls_its_kernels_with_their_addresses() -> None:
    calls: list[tuple[Any, ...]] = []
    kernels = {name: lambda *given, name=name: calls.append((name, *given)) for name in ("one", "two")}
    in_turn([Launch("one", (1, 0), (4, 128)), Launch("two", (2,), (7, 1, 32))], kernels)("a", "b", "c")
    assert calls == [("one", "b", "a", 4, 128), ("two", "c", 7, 1, 32)]


class Device:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.made, self.current, self.waited = 0, 0, list[int]()

    def create_raw_stream(self) -> int:
        self.made += 1
        return self.made

    def set_raw_stream(self, stream: int) -> None:
        assert isinstance(stream, int)
        self.current = stream

    def sync(self, stream: int) -> None:
        self.waited.append(stream)


def test_runs_advance_together_each_on_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_streams", [])
    monkeypatch.setattr(module, "_STREAMS", 2)
    device, seen = Device(), list[tuple[Any, ...]]()
    calls = [
        (lambda *given: seen.append(("first", device.current, *given)), ("x", "y")),
        (lambda *given: seen.append(("second", device.current, *given)), ("y",)),
    ]
    run_side_by_side(calls, [{"x": n, "y": 10 * n} for n in range(3)], device)
    first = [("first", 1, 0, 0), ("first", 2, 1, 10), ("first", 1, 2, 20)]
    assert seen == [*first, ("second", 1, 0), ("second", 2, 10), ("second", 1, 20)]
    assert (device.made, device.current, device.waited) == (2, 0, [1, 2])
    run_side_by_side(calls, [{"x": 0, "y": 0}], device)
    assert (device.made, device.waited) == (2, [1, 2, 1])


def test_a_launch_that_fails_leaves_the_default_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_streams", [])
    device = Device()

    def fails() -> None:
        raise RuntimeError("no launch")

    with pytest.raises(RuntimeError, match="no launch"):
        run_side_by_side([(fails, ())], [{}], device)
    assert (device.made, device.current) == (1, 0)
