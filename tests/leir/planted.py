"""Errors planted into the code under test, one at a time, so that tests can show that they would catch them."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType


@contextmanager
def planted(module: str, name: str, right: str, wrong: str) -> Iterator[None]:
    """While it lasts, the function `name` of a module runs with `wrong` in the place of `right` in its text.

    `name` may be dotted (`Class.method`). The text `right` occurs in the function exactly once.
    """
    owner = importlib.import_module(module)
    function = _resolve(owner, name)
    source = inspect.getsource(function)
    assert source.count(right) == 1, f"{right!r} occurs {source.count(right)} times in {module}.{name}"
    path = Path(inspect.getfile(function))
    text = path.read_text(encoding="utf-8")
    assert source in text
    space = {"__name__": module, "__file__": str(path)}
    sys.modules[f"{module} (planted)"] = owner  # dataclasses look their module up by name
    exec(compile(text.replace(source, source.replace(right, wrong)), str(path), "exec"), space)
    broken = _resolve(space, name)
    kept = function.__code__
    _forget()
    function.__code__ = broken.__code__
    try:
        yield
    finally:
        function.__code__ = kept
        del sys.modules[f"{module} (planted)"]
        _forget()


def _resolve(owner: object, name: str) -> FunctionType:
    for part in name.split("."):
        owner = owner[part] if isinstance(owner, dict) else getattr(owner, part)
    found = inspect.unwrap(owner)  # type: ignore[arg-type]
    assert isinstance(found, FunctionType)
    return found


def _forget() -> None:
    """Empties every cache of the modules of the language and of the strategies."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("leir.", "strategies.")):
            for value in list(vars(module).values()):
                clear: Callable[[], None] | None = getattr(value, "cache_clear", None)
                if clear is not None:
                    clear()
