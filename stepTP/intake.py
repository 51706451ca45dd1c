"""The pool task that translates one PyTorch file and checks the translation against its module."""

import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from leir.canonical import state_id
from leir.check import require_well_formed
from leir.edit import iterations_around, walk
from leir.printer import to_text
from leir.syntax import Alloc, Equation, Program
from stepTP.frontend import (
    ExportFailed,
    LoadedSource,
    SourceError,
    Translation,
    UnsupportedOp,
    load_source,
    load_text,
    translated,
    verify_translation,
)
from stepTP.frontend import translate as translate_module
from stepTP.frontend.isolation import as_it_was
from stepTP.frontend.size import TooManyOps, estimate
from stepTP.frontend.source import text_of_module
from stepTP.given.fit import CannotFit, fit
from stepTP.structure import structure

# What PyTorch imports at its first export, once for all workers: they are forked from the process that imports this.
# It does no more than import: an export asks for a GPU, and a process that did cannot fork workers that use one.
with suppress(ModuleNotFoundError):  # in another version it may have another name
    import_module("torch.export._trace")


def translate(payload: dict[str, Any]) -> dict[str, Any]:
    """The LEIR of a file in KernelBench's form.

    Payload: `code` (None where `file` is an importable `module:Class`), `file` (what messages call it), `overrides`
    (constants of the file to replace; optional), `evaluation` (whether to switch the module to evaluation mode; it runs
    as it was built if absent), `fit` (make constants smaller until at most so many iterations are left), `check`
    (False: leave the translation unchecked). Result:
    `status` ("verified", "translated" where unchecked, "mismatch", "unsupported", "refused" or "error"), `cause` (why
    it is not verified, in one word for reports to count by: `frontend.reference` lists those of a refusal), `dtype` (of
    the first output), `leir`, `state_id`, `structure`, `names`, `ops`, `updates`, `nests`, `iterations` (of all
    equations), `max_abs_error` (against the module in float64), `code` (the file as it ran), `constants` (those that
    are not as in the file), `translation_ms` (processor time to load, export and translate it), `ms` (all in all),
    `message`; what is not known is None.
    """
    start = time.perf_counter()
    try:
        with as_it_was():
            report = _translated(payload)
    except UnsupportedOp as error:
        report = {"status": "unsupported", "cause": "unsupported-op", "message": str(error)}
    except ExportFailed as error:
        report = {"status": "unsupported", "cause": "export-failed", "message": str(error)}
    except SourceError as error:
        report = {"status": "error", "cause": "source-error", "message": str(error)}
    except CannotFit as error:
        report = {"status": "refused", "cause": "too-large", "message": str(error)}
    took = round((time.perf_counter() - start) * 1000, 1)
    return {**dict.fromkeys(_KEYS), **report, "ms": took}


_KEYS = (
    "cause", "dtype", "leir", "state_id", "structure", "names", "ops", "updates", "nests", "iterations",
    "max_abs_error", "code", "constants", "translation_ms",
)  # fmt: skip
_ROUNDS = 8  # how often a program that is larger than it was estimated to be is made smaller again


def _translated(payload: dict[str, Any]) -> dict[str, Any]:
    constants = dict(payload.get("overrides") or {})
    if payload.get("fit") is not None:
        constants, source, translation, translation_ms = _fitting(payload, constants)
    else:
        source, translation, translation_ms = _load(payload, constants)
    program = translation.program
    require_well_formed(program)
    report = {
        "status": "translated",
        "dtype": program.outputs[0].dtype,
        "leir": to_text(program),
        "state_id": state_id(program),
        "structure": structure(program),
        "names": translation.names,
        "ops": sorted(translation.ops),
        "updates": translation.updates,
        "nests": sum(not isinstance(statement, Alloc) for statement in program.body),
        "iterations": _iterations(program),
        "code": source.code,
        "constants": constants,
        "translation_ms": translation_ms,
        "message": "",
    }
    if not payload.get("check", True):
        return report
    verdict = verify_translation(translation, source.module, source.inputs)
    return report | {
        "status": verdict.status,
        "cause": verdict.cause or None,
        "max_abs_error": verdict.max_abs_error,
        "message": verdict.message,
    }


def _load(payload: dict[str, Any], constants: Mapping[str, Any]) -> tuple[LoadedSource, Translation, float]:
    """The source, its translation, and the milliseconds of processor time that both took."""
    start = time.process_time()
    evaluation = payload.get("evaluation", False)
    if payload["code"] is None:
        source = load_source(payload["file"], constants, evaluation=evaluation)
        translation = translate_module(source.module, source.inputs)
    else:
        source, translation = translated(payload["code"], payload["file"], constants, evaluation=evaluation)
    return source, translation, round((time.process_time() - start) * 1000, 1)


def _fitting(payload: dict[str, Any], given: dict[str, Any]) -> tuple[dict[str, Any], LoadedSource, Translation, float]:
    """The constants with which the program has at most the iterations that are wanted, and what `_load` gives of it.

    Raises CannotFit, and SourceError where it runs neither with its own sizes nor with smaller ones.
    """
    limit, code, evaluation = payload["fit"], payload["code"], payload.get("evaluation", False)
    failures: list[SourceError | TooManyOps] = []
    ran = False

    def load(values: Mapping[str, Any]) -> LoadedSource:
        if code is None:
            return load_source(payload["file"], {**given, **values}, evaluation=evaluation)
        return load_text(code, payload["file"], {**given, **values}, evaluation=evaluation)

    def size(values: Mapping[str, Any]) -> int | None:
        nonlocal ran
        try:
            iterations = estimate(lambda: load(values))
        except (SourceError, TooManyOps) as error:
            failures.append(error)
            return None
        ran = True
        return iterations

    text = code if code is not None else text_of_module(payload["file"])
    try:
        search, iterations = fit(text, limit, size, fixed=tuple(given)), 0
        for _ in range(_ROUNDS):
            constants = {**given, **search.values}
            source, translation, took = _load(payload, constants)
            iterations = _iterations(translation.program)
            if iterations <= limit:
                return constants, source, translation, took
            search.shrink(int(search.cost * 0.95 * limit / iterations))
    except CannotFit as error:
        first = failures[0] if failures else None
        if isinstance(first, SourceError) and not ran:  # it is wrong, not large
            raise first from None
        raise CannotFit(f"{payload['file']}: {error}" + (f" ({first})" if first else "")) from None
    raise CannotFit(f"{payload['file']}: {iterations} iterations are left: set its sizes")


def _iterations(program: Program) -> int:
    """How often the equations run, together, guards left out of account."""
    return sum(iterations_around(program, path) for path, s in walk(program) if isinstance(s, Equation))
