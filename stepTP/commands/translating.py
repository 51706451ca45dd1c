"""The command translate: PyTorch files to LEIR, each in a worker process, so that a bad file costs itself only."""

import json as json_module
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any

import typer

from stepTP.commands.show import InputError, Json, NotText, name_of, print_json, print_table, read_text
from stepTP.given.constants import parse_value


def translate(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="PyTorch files, folders of them, or an importable module:Class; - is standard input.",
            metavar="PATH...",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for NAME.leir, NAME.json (names) and NAME.py (with its new constants) of verified files."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE for a constant of the file; may be given again.")
    ] = None,
    fit: Annotated[
        int | None, typer.Option(help="Make the file's sizes smaller until at most N iterations are left.", min=1000)
    ] = None,
    evaluation: Annotated[bool, typer.Option("--eval", help="Run modules in evaluation mode, not as built.")] = False,
    check: Annotated[bool, typer.Option(help="Check each translation against its module.")] = True,
    memory: Annotated[int, typer.Option(help="MiB that one file may take.", min=2048)] = 4096,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one file.", min=1)] = 300.0,
    json: Json = False,
) -> None:
    """Translate PyTorch modules and check each translation against its module. Exit code 1 if one is not verified.

    Files are Python programs, and they run: in a process of their own, whose time and memory are bounded. That is no
    sandbox: translate no file that you would not run.
    """
    from tqdm import tqdm

    from stepTP.verify.pool import Pool

    wanted_status = ("verified",) if check else ("verified", "translated")
    overrides = dict(override(text) for text in set_ or [])
    files = [file for path in paths for file in _files(path)]
    sources = [_source(file) for file in files]
    targets = _targets(files, out) if out else {}
    reports: list[dict[str, Any]] = []
    settings = {"overrides": overrides, "evaluation": evaluation, "fit": fit, "check": check}
    with Pool(min(workers, len(files)) if workers else None, timeout, memory << 20) as pool:
        asked = [
            source
            if isinstance(source, NotText)
            else pool.submit("stepTP.intake.translate", {"code": source, "file": name_of(file), **settings})
            for file, source in zip(files, sources, strict=True)
        ]
        for file, wanted in tqdm(zip(files, asked, strict=True), total=len(files), desc="translate", disable=None):
            answer = wanted.result() if isinstance(wanted, Future) else wanted
            report = answer if isinstance(answer, dict) else _failed(name_of(file), answer)
            reports.append({"file": name_of(file), **{key: report[key] for key in _KEYS}})
            if out and report["status"] in wanted_status:
                _write(targets[file], report)
    if json:
        print_json(reports)
    else:
        print_table(
            ("file", "ops", "nests", "iterations", "status", "max error", "seconds", "message"),
            list(map(_line, reports)),
        )
    if any(report["status"] not in wanted_status for report in reports):
        raise typer.Exit(1)


_KEYS = (
    "status", "cause", "leir", "names", "ops", "nests", "iterations", "max_abs_error", "constants", "translation_ms",
    "ms", "message",
)  # fmt: skip
_COLUMNS = ("file", "ops", "nests", "iterations", "status", "max error", "seconds", "message")


def _line(report: dict[str, Any]) -> tuple[object, ...]:
    """A file's line of the table."""
    error = report["max_abs_error"]
    return (
        report["file"],
        len(report["ops"] or ()),
        report["nests"] or 0,
        report["iterations"] or 0,
        report["status"],
        "" if error is None else f"{error:.1e}",
        round((report["ms"] or 0.0) / 1000, 1),
        report["message"] or _constants_text(report["constants"] or {}),
    )


def _constants_text(constants: dict[str, Any]) -> str:
    return " ".join(f"{name}={value!r}" for name, value in constants.items())


def _failed(file: str, failure: Any) -> dict[str, Any]:
    """The report on a file that is no text, whose worker was lost, or whose translation has a bug."""
    if isinstance(failure, NotText):
        message = str(failure)
    else:
        lighter = failure.kind in ("timeout", "memory")
        message = f"{file}: {failure.message}{': make it smaller with --set, or raise --timeout' if lighter else ''}"
    return {**dict.fromkeys(_KEYS), "status": "error", "message": message}


def _source(file: str) -> str | NotText | None:
    """The text of a file; None of an importable `module:Class`, which its worker reads. Raises InputError."""
    module, colon, name = file.partition(":")
    if colon and name.isidentifier() and all(p.isidentifier() for p in module.split(".")) and not Path(file).exists():
        sys.path.append(str(Path.cwd()))  # of which workers are told
        return None
    try:
        return read_text(file)
    except NotText as error:
        return error


def _files(path: str) -> list[str]:
    if path == "-" or not Path(path).is_dir():
        return [path]
    found = sorted(str(file) for file in Path(path).rglob("*.py"))
    if not found:
        raise InputError(f"{path}: no .py file in the folder: give PyTorch files, or a folder of them")
    return found


def override(text: str) -> tuple[str, Any]:
    """NAME=VALUE of an option --set, as a name and a value."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"--set {text}: write NAME=VALUE, like --set batch_size=4")
    return name, parse_value(value)


def _targets(files: list[str], out: Path) -> dict[str, Path]:
    """Where each file's LEIR goes, without its suffix. Raises InputError where two would go to one place."""
    targets: dict[str, Path] = {}
    for file in files:
        target = out / ("stdin" if file == "-" else Path(file).stem.rpartition(":")[2])
        if target in targets.values():
            raise InputError(f"{file}: a second file named {target.name}: {target}.leir holds one: translate it apart")
        targets[file] = target
    out.mkdir(parents=True, exist_ok=True)
    return targets


def _write(target: Path, report: dict[str, Any]) -> None:
    from stepTP.manifest import write_whole

    write_whole(target.with_name(target.name + ".leir"), report["leir"].encode())
    names = json_module.dumps(report["names"], indent=1) + "\n"
    write_whole(target.with_name(target.name + ".json"), names.encode())
    if report["constants"]:
        write_whole(target.with_name(target.name + ".py"), report["code"].encode())
