"""The pool task that gives a source other sizes, and takes the steps from it again there."""

from typing import Any

from leir.printer import to_text
from leir.syntax import Program
from stepTP.frontend import translated
from stepTP.frontend.source import with_constants
from strategies.base import Refused
from strategies.catalog import StepError, parse_step


def at_sizes(payload: dict[str, Any]) -> dict[str, Any]:
    """Payload: "code", "file" (what messages call it), "sizes" (constants of the code), "paths" (steps from the source
    to each state). Result: "torch_code", "leir" (the plain program), "states": {"leir", "problem"} for each path.

    `problem` says which step does not apply, and why; empty where all do. Raises SourceError, UnsupportedOp.
    """
    code = with_constants(payload["code"], payload["file"], payload["sizes"])
    _, translation = translated(code, payload["file"])
    reached: dict[str, Program | str] = {"[]": translation.program}
    states = [_state(reached, path) for path in payload["paths"]]
    return {"torch_code": code, "leir": to_text(translation.program), "states": states}


def _state(reached: dict[str, Program | str], path: list[dict[str, Any]]) -> dict[str, str]:
    found = _after(reached, path)
    return {"leir": "", "problem": found} if isinstance(found, str) else {"leir": to_text(found), "problem": ""}


def _after(reached: dict[str, Program | str], path: list[dict[str, Any]]) -> Program | str:
    """The program after the steps, or the problem of the first that does not apply; `reached`: those found before."""
    key = repr(path)
    if key not in reached:
        before = _after(reached, path[:-1])
        reached[key] = before if isinstance(before, str) else _applied(before, path)
    return reached[key]


def _applied(before: Program, path: list[dict[str, Any]]) -> Program | str:
    try:
        return parse_step(path[-1]).apply(before).program
    except (StepError, Refused) as error:
        return f"at these sizes step {len(path)}, {path[-1]['strategy']}, does not apply: {error}"
