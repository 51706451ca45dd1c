"""Given programs as sources of a build: what a folder or a module holds, each program once.

The main process only reads the files; they run in workers. Ids come from what a file says and how it is to be taken,
so that neither the place of a folder nor its other files matter.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from stepTP.config import ConfigError, Folder, ImportedModule
from stepTP.given.constants import ConstantError, with_constants
from stepTP.given.normal import normal_form
from stepTP.sources import SourceProgram

# Appended where evaluation mode is asked for: a row's text is then all that its program is.
_EVALUATION = """

_built = Model.__init__


def _built_for_evaluation(self, *args, **kwargs):
    _built(self, *args, **kwargs)
    self.eval()


Model.__init__ = _built_for_evaluation
"""


class Problem(BaseModel):
    """Why a file is no source. `cause` is kebab-case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: str
    message: str


class GivenProgram(SourceProgram):
    """`file` is its path in its folder, or `module:Class`; `fit` how many iterations it may have; `knobs` say where it
    is from and which of its constants were changed."""

    file: str
    license: str
    fit: int | None = None
    problem: Problem | None = None


def given_programs(folders: Sequence[Folder], modules: Sequence[ImportedModule]) -> list[SourceProgram]:
    """All programs of folders and modules, in order; one that repeats another has a problem. Raises ConfigError."""
    programs = [program for n, folder in enumerate(folders) for program in _of_folder(n, folder)]
    programs += [_of_module(n, module) for n, module in enumerate(modules)]
    first: dict[str, str] = {}
    result: list[SourceProgram] = []
    for program in programs:
        form = normal_form(program.torch_code) if program.problem is None else ""
        if form in first:
            message = f"{program.file}: the same program as {first[form]}, but for names and sizes"
            program = program.model_copy(update={"problem": Problem(cause="double", message=message)})
        elif form:
            first[form] = program.file
        result.append(program)
    return result


def as_it_ran(program: GivenProgram, answer: Mapping[str, Any]) -> GivenProgram:
    """The program with the constants that made it small, and its dtype; `answer` is the intake's."""
    return program.model_copy(
        update={
            "torch_code": answer["code"],
            "torch_sha": hashlib.sha256(answer["code"].encode()).hexdigest(),
            "dtype": answer["dtype"],
            "knobs": {**program.knobs, **_as_knobs(answer["constants"])},
        }
    )


def digest_of(folder: Path) -> str:
    """SHA-256 over the names and bytes of a folder's Python files."""
    state = hashlib.sha256()
    for name, data in _python_files(folder):
        state.update(f"{name}\0".encode() + hashlib.sha256(data).digest())
    return state.hexdigest()


def _of_folder(number: int, folder: Folder) -> Iterator[GivenProgram]:
    place = Path(folder.path)
    if not place.is_dir():
        raise ConfigError(f"sources.folders.{number}.path: no folder {folder.path}")
    files = list(_python_files(place))
    if not files:
        raise ConfigError(f"sources.folders.{number}.path: no .py file in {folder.path}")
    return (_program(folder, name, data) for name, data in files)


def _of_module(number: int, asked: ImportedModule) -> GivenProgram:
    module, _, name = asked.module.partition(":")
    sys.path.append(str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(module)
    except ImportError as error:
        raise ConfigError(f"sources.modules.{number}.module: {error}") from None
    finally:
        sys.path.pop()
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ConfigError(f"sources.modules.{number}.module: no Python file is importable as {module}")
    data = Path(spec.origin).read_bytes()
    return _program(asked, asked.module, data if name == "Model" else data + f"\n\nModel = {name}\n".encode())


def _python_files(folder: Path) -> Iterable[tuple[str, bytes]]:
    """Relative path and bytes of each Python file, sorted; packages' `__init__.py` hold no program."""
    found = sorted((file.relative_to(folder).as_posix(), file) for file in folder.rglob("*.py"))
    return ((name, file.read_bytes()) for name, file in found if file.name != "__init__.py")


def _program(asked: Folder | ImportedModule, file: str, data: bytes) -> GivenProgram:
    problem = None
    code = ""
    try:
        code = data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        code = with_constants(code, asked.set)
        normal_form(code)
    except UnicodeDecodeError as error:
        problem = f"{file}: not UTF-8 text (byte {error.start})"
    except ConstantError as error:
        problem = f"{file}: {error}"
    except (SyntaxError, ValueError, RecursionError) as error:
        problem = f"{file}:{getattr(error, 'lineno', 0) or 0}: is no Python: {getattr(error, 'msg', error)}"
    if asked.eval and problem is None:
        code += _EVALUATION
    identity = code if code else hashlib.sha256(data).hexdigest()
    digest = hashlib.sha256(f"{identity}\0{asked.fit}".encode()).hexdigest()
    return GivenProgram(
        id=f"{asked.family}-{digest[:12]}",
        family=asked.family,
        torch_code=code,
        torch_sha=hashlib.sha256(code.encode()).hexdigest(),
        dtype="f32",
        knobs={"file": file, "file_sha": hashlib.sha256(data).hexdigest(), **_as_knobs(asked.set)},
        file=file,
        license=asked.license,
        fit=asked.fit,
        problem=None if problem is None else Problem(cause="source-error", message=problem),
    )


def _as_knobs(constants: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    return {name: repr(value) if isinstance(value, list | tuple) else value for name, value in constants.items()}
