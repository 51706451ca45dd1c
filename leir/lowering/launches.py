"""What the host does for a nest, without machine code: a row of launches, which Python makes.

TVM's own host code costs more to compile than to replace: LLVM takes 4 ms a nest, a launch some microseconds. It is
needed where conditions on the host, or very many iterations, decide which kernels run.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tvm import tirx
from tvm.ir import Call

from leir.lowering.functions import operator

MOST = 1024  # launches of one nest that Python makes
_DEFAULT, _STREAMS = 0, 32
_streams: list[Any] = []  # of this process's GPU


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: `taken` are the places of the kernel's tensors among the function's; `numbers` follow them.

    They are the host's loop variables that the kernel takes, then its grid and block, as `tirx.kernel_launch_params`
    of the kernel names them.
    """

    kernel: str
    taken: tuple[int, ...]
    numbers: tuple[int, ...]


def launches(function: tirx.PrimFunc) -> tuple[Launch, ...] | None:
    """The launches of a host function in order; None where it does anything else, or makes more than `MOST`."""
    places = {parameter.name: place for place, parameter in enumerate(function.params)}
    found: list[Launch] = []
    for call, values in _calls(function.body, {}):
        if call is None or len(found) == MOST:
            return None
        name, *arguments = list[Any](call.args)
        taken = tuple(places[argument.args[0].name] for argument in arguments if isinstance(argument, Call))
        numbers = (values[n] if isinstance(n, tirx.Var) else int(n) for n in arguments[len(taken) :])
        found.append(Launch(str(name.value), taken, tuple(numbers)))
    return tuple(found)


def _calls(statement: Any, values: Mapping[Any, int]) -> Iterator[tuple[Call | None, Mapping[Any, int]]]:
    """The calls that launch, with the loop variables around each; None for whatever else is done."""
    match statement:
        case tirx.SeqStmt():
            for inner in statement.seq:
                yield from _calls(inner, values)
        case tirx.For():
            first, extent = _number(statement.min), _number(statement.extent)
            for value in range(first, first + extent):
                below = list(islice(_calls(statement.body, {**values, statement.loop_var: value}), MOST + 1))
                if not below:  # in no other iteration either
                    break
                yield from below
        case tirx.Evaluate(value=Call() as call) if call.op.same_as(operator("tirx.call_ffi_kernel")):
            yield call, values
        case tirx.DeclBuffer() | tirx.Evaluate(value=tirx.IntImm()):  # another view of a parameter; no kernel at all
            pass
        case _:
            yield None, values


def _number(constant: Any) -> int:
    return int(constant)


def in_turn(launched: Sequence[Launch], kernels: Any) -> Callable[..., None]:
    """The launches as a function of the addresses of the nest's tensors. `kernels`: the module of the kernels."""
    found = [(kernels[launch.kernel], launch.taken, launch.numbers) for launch in launched]

    def launch_all(*addresses: Any) -> None:
        for kernel, taken, numbers in found:
            kernel(*[addresses[place] for place in taken], *numbers)

    return launch_all


def run_side_by_side(
    calls: Sequence[tuple[Callable[..., None], tuple[str, ...]]], runs: Sequence[Mapping[str, Any]], device: Any
) -> None:
    """Calls every function in order for each of some independent runs, and waits for the end of all.

    `calls`: a function with the names of what it takes; `runs`: what each run gives by name. A kernel of a few threads
    leaves a GPU empty, so each run has a stream. They advance together: nothing waits behind another run's later call.
    """
    while len(_streams) < min(len(runs), _STREAMS):
        _streams.append(device.create_raw_stream())
    own = _streams[: len(runs)]
    try:
        for function, taken in calls:
            for number, given in enumerate(runs):
                device.set_raw_stream(own[number % len(own)])
                function(*[given[name] for name in taken])
    finally:
        device.set_raw_stream(_DEFAULT)
    for stream in own:
        device.sync(stream)
