"""The pool's tasks that judge an answer before it runs: its text, its program, its step.

What the answer is to blame for comes back as data, {"outcome": {status, code, message}, ...}. An error that is raised
is the task's: a state that does not parse, a source that does not translate.
"""

from dataclasses import asdict
from math import prod
from typing import Any

from leir.analysis.access import tensors
from leir.analysis.kernels import BYTES
from leir.canonical import state_id
from leir.check import check_source, require_well_formed
from leir.edit import iterations_around, walk
from leir.parser import ParseError, parse, parse_source
from leir.printer import to_text
from leir.syntax import Alloc, Equation, Program
from stepTP.answer import NotAnAnswer, read_answer
from stepTP.verify.report import failed, passed, short
from strategies.base import Refused
from strategies.catalog import StepError, names, parse_step

_LONGEST = 1 << 15  # characters of a program, or four times those of the state before
_EQUATIONS = 500  # or four times those of the state before
_FINDINGS = 20  # diagnostics that a report shows
_FACTS = 40  # facts that a report shows


def read(payload: dict[str, Any]) -> dict[str, Any]:
    """{"outcome", "answer": {strategy, args, leir} or None} of a reply, `text`."""
    try:
        answer = read_answer(payload["text"])
    except NotAnAnswer as problem:
        return {"outcome": failed(problem.code, problem.reason).model_dump(), "answer": None}
    return {"outcome": passed().model_dump(), "answer": answer.model_dump()}


def plain(payload: dict[str, Any]) -> str:
    """The plain program of PyTorch `code`; `file` is what errors call it."""
    from stepTP.frontend import translated  # torch takes seconds to load, and most answers need none of it here

    return to_text(translated(payload["code"], payload["file"])[1].program)


def inspect(payload: dict[str, Any]) -> dict[str, Any]:
    """{"outcome", "diagnostics", "leir" as printed, "state_id", "work"} of the answer's program, `leir`, at `state`.

    "work" is {"iterations", "bytes"}, each as a pair: the program's and the state's.
    """
    before = _state(payload["state"])
    text = payload["leir"]
    shown: dict[str, Any] = {"diagnostics": [], "leir": None, "state_id": None, "work": None}
    if len(text) > max(_LONGEST, 4 * len(payload["state"])):
        return shown | {"outcome": failed("too-large", f"{len(text)} characters of LEIR").model_dump()}
    try:
        source = parse_source(text, "answer")
    except ParseError as error:
        return shown | {"outcome": failed("parse-error", str(error)).model_dump()}
    program = source.program
    equations = _equations(program)
    if equations > max(_EQUATIONS, 4 * _equations(before)):
        return shown | {"outcome": failed("too-large", f"{equations} equations").model_dump()}
    if (program.inputs, program.outputs) != (before.inputs, before.outputs):
        outcome = failed("other-signature", "inputs and outputs are not those of the state before")
        return shown | {"outcome": outcome.model_dump()}
    found = check_source(source)
    if found:
        first = found[0]
        message = f"{first.line}:{first.column}: {first.diagnostic.message}"
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        shown["diagnostics"] = [
            {"code": f.diagnostic.code, "message": short(f.diagnostic.message), "line": f.line, "column": f.column}
            for f in found[:_FINDINGS]
        ]
        return shown | {"outcome": failed(first.diagnostic.code, message + more).model_dump()}
    work = {
        "iterations": (_iterations(program), _iterations(before)),
        "bytes": (_bytes(program), _bytes(before)),
    }
    return shown | {
        "outcome": passed().model_dump(),
        "leir": to_text(program),
        "state_id": state_id(program),
        "work": work,
    }


def take(payload: dict[str, Any]) -> dict[str, Any]:
    """{"outcome", "facts", "bit_exact", "leir", "state_id"} of `step` at `state`; `strategies`: those allowed, or None.

    "leir" and "state_id" are of the program that the step gives, None where it gives none.
    """
    before = _state(payload["state"])
    name = payload["step"]["strategy"]
    shown: dict[str, Any] = {"facts": [], "bit_exact": None, "leir": None, "state_id": None}
    if name not in names():
        return shown | {"outcome": failed("unknown-strategy", f"no strategy is called {name!r}").model_dump()}
    if payload["strategies"] is not None and name not in payload["strategies"]:
        return shown | {"outcome": failed("strategy-not-allowed", f"{name} is not asked for").model_dump()}
    try:
        applied = parse_step(payload["step"]).apply(before)
    except StepError as error:
        return shown | {"outcome": failed("bad-arguments", str(error)).model_dump()}
    except Refused as refused:
        facts = [*refused.held, refused.fact]
        outcome = failed(refused.fact.name, refused.fact.evidence)
        return shown | {"outcome": outcome.model_dump(), "facts": _shown(facts)}
    return shown | {
        "outcome": passed().model_dump(),
        "facts": _shown(list(applied.facts)),
        "bit_exact": applied.bit_exact,
        "leir": to_text(applied.program),
        "state_id": state_id(applied.program),
    }


def lower(payload: dict[str, Any]) -> None:
    """Compiles `leir` for each of `targets`, and runs nothing."""
    from leir.lowering import compile_cuda, compile_llvm

    program = parse(payload["leir"])
    for target in payload["targets"]:
        if target == "llvm":
            compile_llvm([program], poison=True)
        else:
            compile_cuda([program], contraction=False)


def _state(text: str) -> Program:
    """The state before. Raises ParseError, IllFormed."""
    program = parse(text, "state")
    require_well_formed(program)
    return program


def _shown(facts: list[Any]) -> list[dict[str, Any]]:
    return [{**asdict(fact), "evidence": short(fact.evidence)} for fact in facts[-_FACTS:]]


def _equations(program: Program) -> int:
    return sum(isinstance(statement, Equation) for _, statement in walk(program))


def _iterations(program: Program) -> int:
    """How often equations run and elements of allocations begin. Guards are left out: they are tested as often."""
    return sum(
        iterations_around(program, path) * (prod(s.shape) if isinstance(s, Alloc) else 1)
        for path, s in walk(program)
        if isinstance(s, Equation | Alloc)
    )


def _bytes(program: Program) -> int:
    """Of all tensors."""
    return sum(prod(tensor.shape) * BYTES[tensor.dtype] for tensor in tensors(program).values())
