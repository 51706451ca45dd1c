"""The pool task that translates one PyTorch file and checks the translation against its module."""

import time
from typing import Any

from leir.canonical import state_id
from leir.check import require_well_formed
from leir.edit import iterations_around, walk
from leir.printer import to_text
from leir.syntax import Alloc, Equation, Program
from stepTP.frontend import (
    ExportFailed,
    SourceError,
    UnsupportedOp,
    load_source,
    translated,
    verify_translation,
)
from stepTP.frontend import translate as translate_module


def translate(payload: dict[str, Any]) -> dict[str, Any]:
    """The LEIR of a file in KernelBench's form.

    Payload: `code` (None where `file` is an importable `module:Class`), `file` (what messages call it), `overrides`
    (constants of the file to replace; optional), `evaluation` (whether to switch the module to evaluation mode; it runs
    as it was built if absent). Result:
    `status` ("verified", "mismatch", "unsupported", "refused" or "error"), `cause` (why it is not verified, in one
    word for reports to count by: `frontend.reference` lists those of a refusal), `leir`, `state_id`, `names`, `ops`,
    `updates`, `nests`, `iterations` (of all equations), `max_abs_error` (against the module in float64), `ms`,
    `message`; what is not known is None.
    """
    start = time.perf_counter()
    try:
        report = _translated(payload)
    except UnsupportedOp as error:
        report = {"status": "unsupported", "cause": "unsupported-op", "message": str(error)}
    except ExportFailed as error:
        report = {"status": "unsupported", "cause": "export-failed", "message": str(error)}
    except SourceError as error:
        report = {"status": "error", "cause": "source-error", "message": str(error)}
    took = round((time.perf_counter() - start) * 1000, 1)
    return {**dict.fromkeys(_KEYS), **report, "ms": took}


_KEYS = ("cause", "leir", "state_id", "names", "ops", "updates", "nests", "iterations", "max_abs_error")


def _translated(payload: dict[str, Any]) -> dict[str, Any]:
    code, file, overrides = payload["code"], payload["file"], payload.get("overrides")
    evaluation = payload.get("evaluation", False)
    if code is None:
        source = load_source(file, overrides, evaluation=evaluation)
        translation = translate_module(source.module, source.inputs)
    else:
        source, translation = translated(code, file, overrides, evaluation=evaluation)
    program = translation.program
    require_well_formed(program)
    verdict = verify_translation(translation, source.module, source.inputs)
    return {
        "status": verdict.status,
        "cause": verdict.cause or None,
        "leir": to_text(program),
        "state_id": state_id(program),
        "names": translation.names,
        "ops": sorted(translation.ops),
        "updates": translation.updates,
        "nests": sum(not isinstance(statement, Alloc) for statement in program.body),
        "iterations": _iterations(program),
        "max_abs_error": verdict.max_abs_error,
        "message": verdict.message,
    }


def _iterations(program: Program) -> int:
    """How often the equations run, together, guards left out of account."""
    return sum(iterations_around(program, path) for path, s in walk(program) if isinstance(s, Equation))
