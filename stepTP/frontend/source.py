"""PyTorch programs in KernelBench's form: a file with `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`.

A module is taken as it was built, that is in training mode unless the file says otherwise: so KernelBench runs it.
Its parameters and its inputs are drawn from keyed generators of their own, so that neither depends on what ran before.
"""

import hashlib
import importlib.util
import linecache
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

import torch

from stepTP.frontend.translation import Inputs
from stepTP.given.constants import ConstantError
from stepTP.given.constants import with_constants as changed

Result = TypeVar("Result")


class SourceError(Exception):
    """A file that is no usable PyTorch program: `file`, `line` (0 where none is known), `reason`."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        self.file = file
        self.line = line
        self.reason = reason
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")


@dataclass(frozen=True, slots=True)
class LoadedSource:
    """A module, and one draw of its inputs: arguments in order, or by name where `get_inputs` gives a dict."""

    module: torch.nn.Module
    inputs: Inputs
    code: str  # as it ran, its constants replaced
    file: str


def load_source(
    reference: str | Path, overrides: Mapping[str, Any] | None = None, seed: int = 0, *, evaluation: bool = False
) -> LoadedSource:
    """The program in a file, or an importable `package.module:Class` whose module has `get_inputs` too.

    `overrides` replaces constants that the file assigns at its top level. `evaluation` switches the module to
    evaluation mode. Raises SourceError.
    """
    module, colon, name = str(reference).partition(":")
    if colon and not Path(str(reference)).exists() and all(part.isidentifier() for part in module.split(".")):
        return _importable(module, name, overrides or {}, seed, evaluation)
    try:
        code = Path(reference).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(str(reference), 0, f"cannot be read: {error}") from None
    return load_text(code, str(reference), overrides, seed, evaluation=evaluation)


def load_text(
    code: str,
    file: str = "<source>",
    overrides: Mapping[str, Any] | None = None,
    seed: int = 0,
    name: str = "Model",
    *,
    evaluation: bool = False,
) -> LoadedSource:
    """The program that `code` writes; `file` is what errors call it. See `load_source`. Raises SourceError."""
    digest = hashlib.sha256(code.encode()).hexdigest()
    return _load(ModuleType(f"source_{digest[:16]}"), code, file, overrides or {}, seed, name, evaluation)


def text_of_module(reference: str) -> str:
    """The text of the file that holds an importable `package.module:Class`. Raises SourceError."""
    module, _, name = reference.partition(":")
    origin = _spec(module, name).origin
    assert origin is not None
    return Path(origin).read_text(encoding="utf-8")


def _importable(module: str, name: str, overrides: Mapping[str, Any], seed: int, evaluation: bool) -> LoadedSource:
    spec = _spec(module, name)
    assert spec.origin is not None
    code = Path(spec.origin).read_text(encoding="utf-8")
    return _load(importlib.util.module_from_spec(spec), code, spec.origin, overrides, seed, name, evaluation)


def _spec(module: str, name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(module)
    except ImportError as error:
        raise SourceError(f"{module}:{name}", 0, str(error)) from None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise SourceError(f"{module}:{name}", 0, f"no Python file is importable as {module}")
    return spec


def _load(
    module: ModuleType,
    code: str,
    file: str,
    overrides: Mapping[str, Any],
    seed: int,
    name: str,
    evaluation: bool,
) -> LoadedSource:
    module.__file__ = file
    code = with_constants(code, file, overrides)
    compiled = _compiled(code, file)
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    replaced = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # dataclasses look their module up while the file runs
    try:
        _called(lambda: exec(compiled, module.__dict__), file, seed, "import")
    finally:
        if replaced is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = replaced
    for wanted in (name, "get_inputs", "get_init_inputs"):
        if wanted not in vars(module):  # hasattr would run the file's own __getattr__
            raise SourceError(file, 0, f"defines no {wanted}: it needs {name}, get_inputs() and get_init_inputs()")
    model = getattr(module, name)
    if not (isinstance(model, type) and issubclass(model, torch.nn.Module)):
        raise SourceError(file, 0, f"{name} is no subclass of torch.nn.Module")
    arguments = _called(module.get_init_inputs, file, seed, "get_init_inputs")
    built = _called(lambda: _built(model, arguments), file, seed, name)
    given = _called(module.get_inputs, file, seed, "get_inputs")
    inputs = dict(given) if isinstance(given, Mapping) else tuple(given)
    return LoadedSource(built.eval() if evaluation else built, inputs, code, file)


def _built(model: type[torch.nn.Module], arguments: Any) -> torch.nn.Module:
    """KernelBench's files give positional arguments as a list, or keyword arguments as a dict."""
    return model(**arguments) if isinstance(arguments, Mapping) else model(*arguments)


def with_constants(code: str, file: str, constants: Mapping[str, Any]) -> str:
    """The text of a program with other values of constants that it assigns at its top level. Raises SourceError."""
    try:
        return changed(code, constants)
    except ConstantError as error:
        raise SourceError(file, 0, str(error)) from None
    except (SyntaxError, ValueError) as error:
        raise _no_python(file, error) from None


def _compiled(code: str, file: str) -> CodeType:
    try:
        return compile(code, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise _no_python(file, error) from None


def _no_python(file: str, error: Exception) -> SourceError:
    return SourceError(file, getattr(error, "lineno", 0) or 0, f"is no Python: {getattr(error, 'msg', error)}")


def _called(function: Callable[[], Result], file: str, seed: int, part: str) -> Result:
    """What the file's own code returns, under a generator keyed by (seed, part)."""
    key = hashlib.sha256(f"{seed}/{part}".encode()).digest()
    with (
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
    ):  # a tensor that is computed cannot be copied with its graph
        torch.manual_seed(int.from_bytes(key[:8], "big"))
        try:
            return function()
        except (Exception, SystemExit) as error:  # the file is not ours: it may raise anything
            lines = [f.lineno or 0 for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
            reason = f"{part} raises {type(error).__name__}: {str(error).strip() or 'no message'}".splitlines()[0]
            raise SourceError(file, lines[-1] if lines else 0, reason) from error
