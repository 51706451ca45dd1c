"""Arrays in one allocation of a device, as compiled functions take them; the CPU stands for the device."""

import gc

import numpy as np
import pytest
import tvm

from leir.arrays import array_type
from leir.lowering import compile_llvm
from leir.lowering import packed as module
from leir.lowering.execute import as_passed, from_bits
from leir.lowering.packed import Packed
from leir.parser import parse
from leir.syntax import DTYPES, DType
from tests.programs import random_inputs, random_program


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
    (executable,) = compile_llvm([program], optimised=True)
    given = np.arange(15).reshape(3, 5)
    buffers = executable.new_buffers({"A": (given % (2 if dtype == "bool" else 15)).astype(array_type(dtype))})
    packed = Packed([as_passed(t, buffers[t.name]) for t in executable.parameters], tvm.cpu())
    executable.module[executable.name](*packed.tensors)
    found = packed.take_back()[1]
    expected = given % 2 == 0 if dtype == "bool" else 2 * given
    assert np.array_equal(from_bits(found) if dtype == "bf16" else found, expected)


def test_random_programs_give_the_same_bits() -> None:
    for seed in range(20):
        program = random_program(seed)
        (executable,) = compile_llvm([program], optimised=True)
        inputs = random_inputs(program, seed)
        one, other = executable.new_buffers(inputs), executable.new_buffers(inputs)
        executable.run(one)
        arrays = [as_passed(tensor, other[tensor.name]) for tensor in executable.parameters]
        packed = Packed(arrays, tvm.cpu())
        executable.module[executable.name](*packed.tensors)
        for tensor, found in zip(executable.parameters, packed.take_back(), strict=True):
            back = from_bits(found) if tensor.dtype == "bf16" else found
            assert back.tobytes() == one[tensor.name].tobytes(), (seed, tensor.name)


def test_nothing_stays_lent() -> None:
    packed = Packed([np.zeros(4, np.float32), np.zeros(2, np.int64)], tvm.cpu())
    assert len(module._lent) >= 2
    del packed
    gc.collect()
    assert not module._lent
