"""The command translate: PyTorch files to LEIR, each in a worker process, so that a bad file costs itself only."""

import json as json_module
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any

import typer

from stepTP.commands.show import InputError, Json, NotText, name_of, print_json, print_table, read_text


def translate(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="PyTorch files, folders of them, or an importable module:Class; - is standard input.",
            metavar="PATH...",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for NAME.leir and NAME.json (the module's names) of verified files.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE for a constant of the file; may be given again.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one file.", min=1)] = 300.0,
    json: Json = False,
) -> None:
    """Translate PyTorch modules and check each translation against its module. Exit code 1 if one is not verified."""
    from tqdm import tqdm

    from stepTP.verify.pool import Pool

    overrides = dict(override(text) for text in set_ or [])
    files = [file for path in paths for file in _files(path)]
    sources = [_source(file) for file in files]
    targets = _targets(files, out) if out else {}
    reports: list[dict[str, Any]] = []
    with Pool(min(workers, len(files)) if workers else None, timeout) as pool:
        asked = [
            source
            if isinstance(source, NotText)
            else pool.submit("stepTP.intake.translate", {"code": source, "file": name_of(file), "overrides": overrides})
            for file, source in zip(files, sources, strict=True)
        ]
        for file, wanted in tqdm(zip(files, asked, strict=True), total=len(files), desc="translate", disable=None):
            answer = wanted.result() if isinstance(wanted, Future) else wanted
            report = answer if isinstance(answer, dict) else _failed(name_of(file), answer)
            reports.append({"file": name_of(file), **{key: report[key] for key in _KEYS}})
            if out and report["status"] == "verified":
                _write(targets[file], report)
    if json:
        print_json(reports)
    else:
        print_table(
            ("file", "status", "nests", "message"),
            [(r["file"], r["status"], r["nests"] or 0, r["message"]) for r in reports],
        )
    if any(report["status"] != "verified" for report in reports):
        raise typer.Exit(1)


_KEYS = ("status", "leir", "names", "ops", "nests", "iterations", "max_abs_error", "ms", "message")


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
    """NAME=VALUE of an option --set, as a name and a number, boolean or text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"--set {text}: write NAME=VALUE, like --set batch_size=4")
    try:
        constant = json_module.loads(value)
    except (ValueError, RecursionError):
        return name, value
    if isinstance(constant, list | dict):
        raise InputError(f"--set {text}: write a number, true, false, null or text after {name}=")
    return name, constant


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
