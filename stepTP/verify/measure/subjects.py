"""What is timed, on buffers that stay on the device: a compiled program, and a PyTorch module run eagerly.

Both get the same input values in the same number of sets, each set in memory of its own, parameters included, and both
are started from Python and waited for in the same way. TVM and PyTorch share the GPU's default stream.
"""

import copy
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_flatten, tree_unflatten

from leir.lowering import Executable, Resident, place, synchronise
from stepTP.frontend import LoadedSource, translated
from stepTP.verify.compare import same_bits
from stepTP.verify.measure.timing import Clock, ClockName, Lapse, Unmeasured, WallClock
from stepTP.verify.task import Target

Array = NDArray[Any]
Inputs = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Rotation:
    """A subject: one start a set."""

    starts: tuple[Callable[[], object], ...]
    target: Target

    @property
    def sets(self) -> int:
        return len(self.starts)

    def start(self, number: int) -> None:
        self.starts[number]()

    def synchronise(self) -> None:
        if self.target == "cuda":
            synchronise("cuda")
            torch.cuda.synchronize()


@dataclass(frozen=True, slots=True)
class Wiring:
    """Where a module takes the inputs of its program. `parameters`: name of the input, and path in the module;
    `arguments`: names of the inputs that its tensors among the arguments are, in order."""

    parameters: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]


def loaded_and_wiring(code: str, file: str) -> tuple[LoadedSource, Wiring]:
    """A module, and where it takes inputs. Raises what translating raises."""
    loaded, translation = translated(code, file)
    # A tied weight's other paths lead to the same tensor.
    parameters = tuple((name, translation.paths(name)[0]) for name in translation.constants)
    return loaded, Wiring(parameters, translation.user_inputs)


class EventClock:
    """CUDA events around the work, on the stream that it runs on; read when the whole device is idle."""

    name: ClockName = "cuda-events"

    def time(self, work: Callable[[], None], synchronise: Callable[[], None]) -> Lapse:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        synchronise()
        begun = time.perf_counter_ns()
        first.record()
        work()
        last.record()
        launched = time.perf_counter_ns()
        synchronise()
        ended = time.perf_counter_ns()
        return Lapse(first.elapsed_time(last) / 1e3, (launched - begun) / 1e9, (ended - begun) / 1e9)


def clock_of(target: Target) -> Clock:
    return EventClock() if target == "cuda" else WallClock()


def resident_sets(executable: Executable, sets: Sequence[Inputs]) -> tuple[Resident, ...]:
    """The program on the buffers of each set; outputs and workspace are poisoned."""
    return tuple(place(executable, executable.new_buffers(inputs)) for inputs in sets)


def program_rotation(residents: Sequence[Resident], target: Target) -> Rotation:
    return Rotation(tuple(partial(r.function, *r.tensors) for r in residents), target)


def give_inputs(residents: Sequence[Resident], sets: Sequence[Inputs]) -> None:
    """Puts other inputs into the sets; outputs and workspace stay as the last run left them."""
    for resident, inputs in zip(residents, sets, strict=True):
        resident.write(inputs)


def require_fresh_outputs(resident: Resident, inputs: Inputs, outputs: tuple[str, ...]) -> None:
    """What the timed runs left in a set's outputs is what a run on its inputs, over poison, gives: bit for bit.

    Raises Unmeasured: a program that keeps results, skips runs or changes its inputs is as fast as it likes.
    """
    left = resident.read(outputs)
    resident.write(resident.executable.new_buffers(inputs))
    resident.start()
    again = resident.read(outputs)
    for name in outputs:
        if not same_bits(left[name], again[name]):
            raise Unmeasured(f"{name} after the timed runs is not what a run on its inputs gives")


def module_rotation(
    loaded: LoadedSource, wiring: Wiring, sets: Sequence[Inputs], target: Target, *, compiled: bool = False
) -> Rotation:
    """The source's own module, a copy a set, with the set's values as its parameters and arguments.

    `compiled`: through torch.compile, which compiles for all copies at once. Raises Unmeasured where it does not run on
    the device.
    """
    leaves, tree = tree_flatten(loaded.inputs)
    device = torch.device("cuda" if target == "cuda" else "cpu")
    starts: list[Callable[[], object]] = []
    try:
        for inputs in sets:
            module: Any = copy.deepcopy(loaded.module).to(device)
            parameters = module.named_parameters(remove_duplicate=False)
            own = dict(parameters) | dict(module.named_buffers(remove_duplicate=False))
            for name, path in wiring.parameters:
                if path in own:
                    with torch.no_grad():
                        own[path].copy_(torch.from_numpy(np.ascontiguousarray(inputs[name])).reshape(own[path].shape))
            if compiled:
                os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a worker starts no processes of its own
                module = torch.compile(module)
            given = iter(wiring.arguments)
            arguments = [
                torch.tensor(inputs[next(given)], dtype=leaf.dtype, device=device).reshape(leaf.shape)
                if isinstance(leaf, torch.Tensor)
                else leaf
                for leaf in leaves
            ]
            given_inputs = tree_unflatten(arguments, tree)
            by_name = isinstance(given_inputs, Mapping)
            starts.append(partial(module, **given_inputs) if by_name else partial(module, *given_inputs))
        for start in starts if compiled else starts[:1]:
            start()
    except (RuntimeError, TypeError) as error:
        how = "through torch.compile" if compiled else "eagerly"
        raise Unmeasured(f"the module does not run {how} on {target}: {str(error).splitlines()[0]}") from error
    return Rotation(tuple(starts), target)


@contextmanager
def timing_conditions(target: Target) -> Iterator[None]:
    """All processors that this process may use, no gradients, and float32 products in float32 (no TF32)."""
    processors = len(os.sched_getaffinity(0))
    threads, variable = torch.get_num_threads(), os.environ.get("TVM_NUM_THREADS")
    tf32 = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    os.environ["TVM_NUM_THREADS"] = str(processors)  # which TVM reads at each parallel loop
    torch.set_num_threads(processors)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32
        torch.set_num_threads(threads)
        if variable is None:
            del os.environ["TVM_NUM_THREADS"]
        else:
            os.environ["TVM_NUM_THREADS"] = variable
        if target == "cuda":
            torch.cuda.empty_cache()
