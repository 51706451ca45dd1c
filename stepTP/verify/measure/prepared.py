"""What is made of sources and programs before any is timed: compiled code, trials, the values of timing sets.

`prepare_source` and `prepare_program` are tasks for a pool that works while nothing is timed. They take what the timing
tasks take (`stepTP.verify.measure.task`), `prepare_program` also "compute_capability", of the machine. Their results go
with the payloads of timing tasks, as "source_facts" and "build". A timing task that is not given them makes the same
itself, and raises what making them raises.
"""

import base64
from collections import OrderedDict
from dataclasses import astuple, dataclass
from typing import Any

from leir.canonical import state_id
from leir.check import require_well_formed
from leir.lowering import (
    Executable,
    LinkError,
    architecture_of,
    compile_cuda,
    compile_library,
    compile_llvm,
    load_compiled,
)
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Program
from stepTP.verify.carry import packed, packed_arrays, unpacked, unpacked_arrays
from stepTP.verify.inputs import Draw, draw_inputs
from stepTP.verify.measure.baseline import bound_outermost
from stepTP.verify.measure.roofline import Work, least_work
from stepTP.verify.measure.subjects import Inputs, Wiring, loaded_and_wiring
from stepTP.verify.prepare import Trials
from stepTP.verify.task import SourceKey, Target, origin_of, prepared_trials

DIFFERENT_DRAWS = 4  # of input values; further sets repeat them in memory of their own
MOST_BYTES = 8 << 20  # of what is handed over of a source or a program; whoever times makes larger ones itself
_KEPT = 2  # sources: those of a table follow each other, and their arrays may be large


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What belongs to a source. `draws`: values for timing sets; `wiring`: None of a source without a module."""

    trials: Trials
    draws: tuple[Inputs, ...]
    wiring: Wiring | None


@dataclass(frozen=True, slots=True, eq=False)
class Build:
    """A program as it is timed. `binding`: where its GPU axes are from."""

    program: Program
    state_id: str
    binding: str
    work: Work
    executable: Executable


def prepare_source(payload: dict[str, Any]) -> dict[str, Any] | None:
    """The facts of a source as plain data; None where they are too large to be handed over."""
    facts = _made_facts(source_key(payload))
    trials, draws = packed(facts.trials), packed_arrays(facts.draws)
    if len(trials) + len(draws) > MOST_BYTES:
        return None
    return {
        "trials": base64.b64encode(trials).decode(),
        "draws": base64.b64encode(draws).decode(),
        "wiring": astuple(facts.wiring) if facts.wiring else None,
    }


def prepare_program(payload: dict[str, Any]) -> dict[str, Any]:
    """The build of a program as plain data; without a library where there is no linker, or where it is too large."""
    target: Target = payload["target"]
    program, binding = as_timed(payload["leir"], target)
    architecture = architecture_of(payload["compute_capability"]) if target == "cuda" else ""
    try:
        library = compile_library(program, target, architecture)
    except LinkError:
        library = b""
    return {
        "leir": to_text(program),
        "state_id": state_id(program),
        "binding": binding,
        "work": astuple(least_work(program)),
        "library": base64.b64encode(library).decode() if len(library) <= MOST_BYTES else "",
    }


def build_of(payload: dict[str, Any]) -> Build:
    """The build that a timing task was given, or makes. Raises ParseError, IllFormed, NoDevice, CudaCompileError."""
    target: Target = payload["target"]
    given = payload.get("build")
    if given is None:
        program, binding = as_timed(payload["leir"], target)
        return Build(program, state_id(program), binding, least_work(program), _compiled(program, target))
    program = parse(given["leir"])
    library = base64.b64decode(given["library"])
    executable = load_compiled(library, program, target) if library else _compiled(program, target)
    return Build(program, given["state_id"], given["binding"], Work(*given["work"]), executable)


def source_facts(key: SourceKey, given: dict[str, Any] | None) -> SourceFacts:
    """What a timing task was given of a source, or makes, kept for the next task. Raises what making it raises."""
    if key not in _FACTS:
        _FACTS[key] = _taken_facts(given) if given else _made_facts(key)
        while len(_FACTS) > _KEPT:
            _FACTS.popitem(last=False)
    _FACTS.move_to_end(key)
    return _FACTS[key]


_FACTS: OrderedDict[SourceKey, SourceFacts] = OrderedDict()


def source_key(payload: dict[str, Any]) -> SourceKey:
    """Which source a payload is about."""
    source = payload["source"]
    code = source.get("torch_code", "")
    return SourceKey(source["id"], code, payload["leir_source"], payload["draws"], payload["seed"])


def as_timed(leir: str, target: Target) -> tuple[Program, str]:
    """The program that is timed, and where its GPU axes are from. Raises ParseError, IllFormed."""
    program = parse(leir)
    require_well_formed(program)
    if target == "llvm":
        return program, "none"
    timed = bound_outermost(program)
    return timed, "own" if timed == program else "added"


def _compiled(program: Program, target: Target) -> Executable:
    if target == "cuda":
        return compile_cuda([program], contraction=True)[0]
    return compile_llvm([program], optimised=True)[0]


def _made_facts(key: SourceKey) -> SourceFacts:
    """Timing sets get normal numbers, no two neighbours alike; no zeros or denormals, but for masks."""
    trials = prepared_trials(key)
    normal = [trial.draw for trial in trials.trials if trial.draw.kind == "normal"]
    attempt = normal[0].attempt if normal else 0
    profiles = origin_of(key).profiles
    draws = [Draw("normal", 2 * n + 1, attempt) for n in range(DIFFERENT_DRAWS)]  # odd: parameters vary too
    drawn = tuple(draw_inputs(profiles, draw, key.seed, f"{key.id}/timing") for draw in draws)
    return SourceFacts(trials, drawn, loaded_and_wiring(key.torch_code, key.id)[1] if key.torch_code else None)


def _taken_facts(given: dict[str, Any]) -> SourceFacts:
    """The facts of `prepare_source`."""
    trials, draws = (base64.b64decode(given[name]) for name in ("trials", "draws"))
    wiring = given["wiring"]
    parameters, arguments = wiring or ((), ())
    made = Wiring(tuple((name, path) for name, path in parameters), tuple(arguments)) if wiring else None
    return SourceFacts(unpacked(trials), unpacked_arrays(draws), made)
