"""Arrays in one allocation of a device, as compiled functions take them; the CPU stands for the device."""

import ctypes

import numpy as np
import pytest
import tvm

from leir.arrays import array_type
from leir.lowering import compile_nests
from leir.lowering import packed as module
from leir.lowering.execute import as_passed, from_bits
from leir.lowering.packed import Packed
from leir.parser import parse
from leir.syntax import DTYPES, DType, Program
from tests.programs import random_inputs, random_program


def run(program: Program, packed: Packed) -> None:
    (compiled,) = compile_nests([program], "llvm")
    addresses = {t.name: ctypes.c_void_p(a) for t, a in zip(compiled.parameters, packed.addresses, strict=True)}
    for function, taken in compiled.calls:
        function(*[addresses[name] for name in taken])


def test_arrays_come_back_as_they_went() -> None:
    floats = [np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.float16), np.arange(300) / 7]
    others = [np.array(True), np.arange(5, dtype=np.int64), np.zeros(0, np.int32), np.array([[False, True]])]
    arrays = [*floats, *others, np.ones(1, np.uint16)]
    packed = Packed(arrays, tvm.cpu())
    for array, back in zip(arrays, packed.take_back(), strict=True):
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert np.array_equal(back, array)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_take_every_dtype(dtype: DType) -> None:
    value = "!A_{i,j}" if dtype == "bool" else "A_{i,j}+A_{i,j}"
    program = parse(f"in A^{{{dtype}}}_{{3,5}};out C^{{{dtype}}}_{{3,5}};\nL^{{3,5}}_{{i,j}}[C_{{i,j}}={value};]\n")
    (compiled,) = compile_nests([program], "llvm")
    given = np.arange(15).reshape(3, 5)
    buffers = compiled.new_buffers({"A": (given % (2 if dtype == "bool" else 15)).astype(array_type(dtype))})
    packed = Packed([as_passed(t, buffers[t.name]) for t in compiled.parameters], tvm.cpu())
    run(program, packed)
    found = packed.take_back()[1]
    expected = given % 2 == 0 if dtype == "bool" else 2 * given
    assert np.array_equal(from_bits(found) if dtype == "bf16" else found, expected)


def test_random_programs_give_the_same_bits() -> None:
    for seed in range(20):
        program = random_program(seed)
        (compiled,) = compile_nests([program], "llvm")
        inputs = random_inputs(program, seed)
        one, other = compiled.new_buffers(inputs), compiled.new_buffers(inputs)
        compiled.run(one)
        packed = Packed([as_passed(tensor, other[tensor.name]) for tensor in compiled.parameters], tvm.cpu())
        run(program, packed)
        for tensor, found in zip(compiled.parameters, packed.take_back(), strict=True):
            back = from_bits(found) if tensor.dtype == "bf16" else found
            assert back.tobytes() == one[tensor.name].tobytes(), (seed, tensor.name)


def test_memory_is_used_again_and_never_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", {})
    first, second = (Packed([np.full(8, value)], tvm.cpu()) for value in (1.0, 2.0))
    assert first.addresses != second.addresses
    (ones,) = first.take_back()
    third = Packed([np.full(8, 3.0)], tvm.cpu())
    assert third.addresses == first.addresses
    assert ones.tolist() == [1.0] * 8 and second.take_back()[0].tolist() == [2.0] * 8
    assert third.take_back()[0].tolist() == [3.0] * 8


def test_arrays_are_aligned_and_large_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", {})
    monkeypatch.setattr(module, "_KEPT", 1024)
    packed = Packed([np.zeros(3, np.int8), np.zeros(65), np.zeros(2, np.int64)], tvm.cpu())
    start = packed.addresses[0]
    assert [address - start for address in packed.addresses] == [0, 256, 1024]
    packed.take_back()
    assert not module._kept
    Packed([np.zeros(3, np.int8)], tvm.cpu()).take_back()
    assert [size for _, size in module._kept] == [256]
