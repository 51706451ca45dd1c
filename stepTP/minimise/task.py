"""The pool's tasks that try a subject: one for each stage, so that a worker that is lost says which stage cost it.

None asks whether the checks have power (`stepTP.verify.power`): a small program seldom is a good test of outputs, and a
result that lies outside its tolerance is wrong all the same.
"""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.arrays import array_type
from leir.check import check as check_program
from leir.check import input_ranges
from leir.interp import interpret
from leir.lowering import compile_nests
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Program
from stepTP.verify.inputs import Draw, draw_inputs, free_profile
from stepTP.verify.prepare import prepare
from stepTP.verify.run import Runnable, observe
from stepTP.verify.task import SourceKey, are_bit_equal, first_unlike_output, origin_of
from strategies.base import Refused
from strategies.catalog import StepError, parse_step, strategy
from strategies.grid import DEFAULT

Arrays = dict[str, NDArray[Any]]


def check(payload: dict[str, Any]) -> dict[str, str]:
    """The diagnostics of `leir` and of `against` (None: there is none): the first message of each code."""
    found: dict[str, str] = {}
    for text in (payload["leir"], payload["against"]):
        for diagnostic in check_program(parse(text)) if text is not None else ():
            found.setdefault(diagnostic.code, diagnostic.message)
    return found


def take(payload: dict[str, Any]) -> dict[str, Any]:
    """What `check` finds, as "codes", and where that is nothing what `steps` lead to from `leir`.

    "states": the texts, the first being the program's own; "bit_exact": whether the last step keeps all bits;
    "problem": why the steps cannot be taken, "" where they can. A step without arguments is whatever its strategy
    proposes: all of that is tried, and leads nowhere.
    """
    shown: dict[str, Any] = {"codes": check(payload), "states": [payload["leir"]], "bit_exact": False, "problem": ""}
    if shown["codes"]:
        return shown
    program = parse(payload["leir"])
    against = program if payload["against"] is None else parse(payload["against"])
    if (program.inputs, program.outputs) != (against.inputs, against.outputs):
        return shown | {"problem": "the two programs have different signatures"}
    for step in payload["steps"]:
        try:
            if not step["args"]:
                _try_all(step["strategy"], program)
                return shown
            applied = parse_step(step).apply(program)
        except (StepError, Refused) as error:
            return shown | {"problem": str(error)}
        program = applied.program
        shown["states"].append(to_text(program))
        shown["bit_exact"] = applied.bit_exact
    return shown


def meaning(payload: dict[str, Any]) -> None:
    """Interprets `leir`, and `against` if there is one, on a draw of inputs, whatever the checker says of them.

    Raises InterpreterError and others where one has no meaning.
    """
    for text in (payload["leir"], payload["against"]):
        if text is not None:
            program = parse(text)
            allowed = input_ranges(program)
            profiles = [free_profile(declared, allowed.get(declared.tensor)) for declared in program.inputs]
            interpret(program, draw_inputs(profiles, Draw("normal", 0), 0, "minimise"))


def propose(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a `strategy` that are worth trying on `leir`."""
    return [step.to_json() for step in strategy(payload["strategy"]).proposed(parse(payload["leir"]), DEFAULT)]


def lower(payload: dict[str, Any]) -> None:
    """Compiles `programs` for `target` and runs nothing."""
    if payload["target"] != "interpreter":
        compile_nests([parse(text) for text in payload["programs"]], payload["target"])


def run(payload: dict[str, Any]) -> dict[str, str]:
    """{"cause", "message"} of the last of `programs`, on draws of inputs that are judged by the first, in float64.

    "cause" is "wrong-result", or "not-bit-exact" where `bit_exact` asks for the bits of the one before it, or "" where
    it computes what the first does. Raises Unverified where no draw can be judged, InterpreterError.
    """
    texts: list[str] = payload["programs"]
    first, last = texts[0], texts[-1]
    key = SourceKey(payload["id"], "", first, payload["draws"], payload["seed"])
    origin = origin_of(key)
    trials = prepare(origin.program, origin.reference, origin.profiles, key.id, key.draws, key.seed)
    runnable = dict(zip(texts, _runnable([parse(text) for text in texts], payload["target"]), strict=True))
    if first != last and (problem := observe(runnable[first], trials.trials).difference.problem):
        return {"cause": "", "message": f"the program that it is compared with is wrong by itself: {problem}"}
    conduct = observe(runnable[last], trials.trials)
    if conduct.difference.problem:
        return {"cause": "wrong-result", "message": conduct.difference.problem}
    if payload["bit_exact"]:
        before = observe(runnable[texts[-2]], trials.trials)
        if not are_bit_equal(conduct, before):
            return {"cause": "not-bit-exact", "message": first_unlike_output(trials.names, conduct, before)}
    return {"cause": "", "message": "it computes what it should"}


def explain(payload: dict[str, Any]) -> None:
    """The reasoning of `step` at `leir`, as for the row `id`, nothing else being known of the state."""
    from stepTP.narrate.task import explain as explain_step

    applied = parse_step(payload["step"]).apply(parse(payload["leir"]))
    explain_step(
        {
            "id": payload["id"],
            "before": payload["leir"],
            "step": payload["step"],
            "bit_exact": applied.bit_exact,
            "facts": [asdict(fact) for fact in applied.facts],
            "after": to_text(applied.program),
            "others": [],
            "refused": [],
            "grid": {},
            "count_tokens": "none",
        }
    )


def _try_all(name: str, program: Program) -> None:
    for step in strategy(name).proposed(program, DEFAULT):
        with suppress(Refused):
            step.apply(program)


class _Interpreted:
    """A program that the interpreter runs."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def new_buffers(self, inputs: Arrays) -> Arrays:
        return inputs | {d.tensor: np.zeros(d.shape, array_type(d.dtype)) for d in self.program.outputs}

    def run(self, buffers: Arrays) -> None:
        given = {d.tensor: buffers[d.tensor] for d in self.program.inputs}
        for name, array in interpret(self.program, given).items():
            buffers[name][...] = array


def _runnable(programs: list[Program], target: str) -> list[Runnable]:
    if target == "interpreter":
        return [_Interpreted(program) for program in programs]
    return [*compile_nests(programs, "cuda" if target == "cuda" else "llvm")]
