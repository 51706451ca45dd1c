"""Commands on one LEIR program: check, run, lower."""

import io
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepTP.commands.show import (
    InputError,
    Json,
    NotText,
    Target,
    name_of,
    print_json,
    print_table,
    read_text,
    require_place,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from leir.syntax import Program

    Arrays = dict[str, np.ndarray[Any, Any]]

SHOWN_WIDTH = 100  # characters of a line that a diagnostic shows; a nest may be one line of thousands


class Engine(StrEnum):
    interpreter = "interpreter"
    llvm = "llvm"
    cuda = "cuda"


def check(
    files: Annotated[list[str], typer.Argument(help="LEIR programs; - reads standard input.", metavar="FILE...")],
    json: Json = False,
) -> None:
    """Report everything that is wrong with programs. Exit code 0 when all are clean, else 1."""
    from leir.grammar import snippet

    texts = [_text_or_reason(file) for file in files]
    reports = [_check_one(file, text) for file, text in zip(files, texts, strict=True)]
    if json:
        print_json(reports)
    else:
        for report, text in zip(reports, texts, strict=True):
            for d in report["diagnostics"]:
                print(f"{report['file']}:{d['line']}:{d['column']}: {d['code']}: {d['message']}")
                if isinstance(text, str):
                    print(snippet(text, d["line"], d["column"], SHOWN_WIDTH))
        wrong = sum(not report["ok"] for report in reports)
        print(f"{len(reports) - wrong} clean, {wrong} not")
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def _text_or_reason(file: str) -> str | NotText:
    try:
        return read_text(file)
    except NotText as error:
        return error


def _check_one(file: str, text: str | NotText) -> dict[str, Any]:
    from leir.check import check_source
    from leir.parser import ParseError, parse_source

    name = name_of(file)
    try:
        if isinstance(text, NotText):
            raise text
        source = parse_source(text, name)
    except (ParseError, NotText) as error:
        found = [{"code": "parse-error", "message": error.reason, "line": error.line, "column": error.column}]
    else:
        found = [
            {"code": at.diagnostic.code, "message": at.diagnostic.message, "line": at.line, "column": at.column}
            for at in check_source(source)
        ]
    return {"file": name, "ok": not found, "diagnostics": found}


def well_formed(file: str) -> "Program":
    """The program in a file. Raises ParseError, or InputError with the first of its diagnostics."""
    from leir.check import check_source
    from leir.parser import parse_source

    source = parse_source(read_text(file), name_of(file))
    found = check_source(source)
    if found:
        first, more = found[0], len(found) - 1
        also = f" (and {more} more: steptp check {file})" if more else ""
        message = f"{first.diagnostic.code}: {first.diagnostic.message}"
        raise InputError(f"{name_of(file)}:{first.line}:{first.column}: {message}{also}")
    return source.program


def run(
    file: Annotated[str, typer.Argument(help="A LEIR program; - reads standard input.")],
    engine: Annotated[Engine, typer.Option(help="What executes it.")] = Engine.interpreter,
    inputs: Annotated[Path | None, typer.Option(help="An .npz of input arrays, named as in the signature.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the inputs where no --inputs are given.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Where to write the outputs as .npz.")] = None,
    json: Json = False,
) -> None:
    """Execute one program."""
    from leir.interp import InterpreterError

    program = well_formed(file)
    if out:
        require_place(out)
    arrays = _read_inputs(program, inputs) if inputs else _drawn_inputs(program, seed)
    execute = _executor(engine)
    try:
        if inputs and engine is not Engine.interpreter:
            _require_subscripts(program, arrays)
        start = time.perf_counter()
        outputs = execute(program, arrays)
    except InterpreterError as error:
        raise InputError(f"{name_of(file)}: {error}: give other {'--inputs' if inputs else '--seed'}") from None
    took = round((time.perf_counter() - start) * 1000, 3)
    if out:
        _write_arrays(out, outputs)
    if json:
        shown = {name: {"shape": list(a.shape), "dtype": str(a.dtype)} for name, a in outputs.items()}
        print_json({"file": name_of(file), "engine": engine.value, "outputs": shown, "ms": took})
        return
    rows = [(name, str(a.dtype), str(list(a.shape)), *_range(a)) for name, a in outputs.items()]
    print_table(("output", "dtype", "shape", "smallest", "largest"), rows)


def _range(array: "np.ndarray[Any, Any]") -> tuple[str, str]:
    return f"{array.min():.6g}", f"{array.max():.6g}"


def _executor(engine: Engine) -> "Callable[[Program, Arrays], Arrays]":
    """What runs a program on arrays. It is imported here, so that the time of a run is its own."""
    if engine is Engine.interpreter:
        from leir.interp import interpret

        return interpret
    from leir.lowering import NoDevice, execute

    def compiled(program: "Program", arrays: "Arrays") -> "Arrays":
        try:
            return execute(program, arrays, engine.value)
        except NoDevice:
            raise InputError("--engine cuda: no CUDA device here: use --engine llvm") from None

    return compiled


def _require_subscripts(program: "Program", arrays: "Arrays") -> None:
    """Subscripts that inputs decide stay within their tensors; compiled code would read on. Raises InterpreterError.

    Where the ranges of the inputs do not show it, the interpreter does.
    """
    from leir.check import input_ranges, preconditions
    from leir.interp import interpret

    allowed = input_ranges(program)
    deciding = {name for need in preconditions(program) for name in need.index}
    if any(name not in allowed or not _within(arrays[name], *allowed[name]) for name in deciding):
        interpret(program, arrays)


def _within(array: "np.ndarray[Any, Any]", low: int, high: int) -> bool:
    return bool(low <= array.min() and array.max() <= high)


def _drawn_inputs(program: "Program", seed: int) -> "Arrays":
    """Standard normal floats, and integers that the program's gathers can use."""
    from leir.check import input_ranges, preconditions
    from stepTP.verify.inputs import Draw, draw_inputs, free_profile

    allowed = input_ranges(program)
    for need in preconditions(program):
        if unknown := [name for name in need.index if name not in allowed]:
            message = f"no range of {unknown[0]} is known that keeps every subscript within {need.tensor}"
            raise InputError(f"{message}: give arrays by --inputs")
    profiles = [free_profile(declaration, allowed.get(declaration.tensor)) for declaration in program.inputs]
    return draw_inputs(profiles, Draw("normal", 0), seed, "run")


def _read_inputs(program: "Program", file: Path) -> "Arrays":
    """The arrays of an .npz, one for each input, of its shape and dtype. Raises InputError."""
    import zipfile

    import numpy as np

    from leir.arrays import array_type

    try:
        with file.open("rb") as opened:
            content = np.load(opened, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            with content:
                found = {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise InputError(f"{file}: no such file: give an .npz, or --seed N to draw inputs") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError):
        raise InputError(f"{file}: not an .npz of plain arrays: write it with numpy.savez") from None
    wanted = {d.tensor: d for d in program.inputs}
    for name in found:
        if name not in wanted:
            raise InputError(f"{file}: {name}: no such input: the program reads {', '.join(wanted)}")
    for name, declaration in wanted.items():
        if name not in found:
            raise InputError(f"{file}: {name}: the array is missing: the program reads {', '.join(wanted)}")
        array, dtype = found[name], np.dtype(array_type(declaration.dtype))
        if array.shape != declaration.shape or array.dtype != dtype:
            asked = f"{dtype} {list(declaration.shape)}"
            raise InputError(f"{file}: {name}: found {array.dtype} {list(array.shape)}, the program takes {asked}")
        if declaration.dtype == "bf16" and not _is_bf16(array):
            raise InputError(f"{file}: {name}: holds values that bf16 does not: round them to bf16 first")
    return found


def _is_bf16(array: "np.ndarray[Any, Any]") -> bool:
    """Whether every float32 is a value of bf16, which has the upper half of its bits."""
    import numpy as np

    return not (array.view(np.uint32) & 0xFFFF)[~np.isnan(array)].any()


def _write_arrays(file: Path, arrays: "Arrays") -> None:
    import numpy as np

    from stepTP.manifest import write_whole

    content, named = io.BytesIO(), dict[str, Any](arrays)
    np.savez(content, **named)
    write_whole(file, content.getvalue())


def lower(
    file: Annotated[str, typer.Argument(help="A LEIR program; - reads standard input.")],
    target: Annotated[Target, typer.Option(help="llvm prints TIR, cuda prints CUDA source.")] = Target.llvm,
    json: Json = False,
) -> None:
    """Print what a program becomes on a target; needs no GPU."""
    program = well_formed(file)
    if target is Target.cuda:
        from leir.lowering import cuda_source

        text = cuda_source(program)
    else:
        from leir.lowering import tir_text

        text = tir_text(program)
    if json:
        print_json({"file": name_of(file), "target": target.value, "text": text})
    else:
        print(text, end="" if text.endswith("\n") else "\n")
