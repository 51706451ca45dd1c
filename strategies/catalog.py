"""Finds the strategies, and reads steps from JSON.

A strategy of this repository is a module `strategies/<level>/<name>.py` with one `Strategy` subclass. Others come from
installed packages, through entry points of the group `steptp.strategies` that name a class. `strategies.index` knows
which there are; nothing is imported before it is asked for.
"""

import json
import re
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, cast, get_args

from pydantic import ValidationError

from strategies.base import Strategy
from strategies.index import LEVELS, WORDS, BitExact, level_of, names, outside
from strategies.packages import PackageError, loaded, package_of

__all__ = ["StepError", "names", "parse_step", "print_step", "strategies", "strategy"]


class StepError(Exception):
    """A step that cannot be read: no such strategy, or arguments that are not its own. The message is one line."""


@cache
def strategy(name: str) -> type[Strategy]:
    """The class of a strategy. Raises StepError for a name that nobody has, PackageError for what cannot be used."""
    if level := level_of(name):
        return _class_in(f"strategies.{level}.{name}", name, level)
    if name in outside():
        return _loaded(outside()[name])
    near = get_close_matches(name, names(), n=1)
    remedy = f"did you mean {near[0]!r}?" if near else "`steptp strategies list` shows them; is its package installed?"
    raise StepError(f"no strategy is called {name!r}: {remedy}")


def strategies() -> tuple[type[Strategy], ...]:
    """All of them, in the order of `names`."""
    return tuple(strategy(name) for name in names())


def parse_step(step: str | dict[str, Any]) -> Strategy:
    """The step that JSON text, or the data read from it, describes. Raises StepError."""
    try:
        data = json.loads(step) if isinstance(step, str) else step
    except json.JSONDecodeError as error:
        raise StepError(f"a step is a JSON object, {error}") from None
    if not isinstance(data, dict) or set(cast("dict[str, Any]", data)) != {"strategy", "args"}:
        raise StepError('a step is {"strategy": NAME, "args": {...}}, with no other key')
    name, args = cast("dict[str, Any]", data)["strategy"], cast("dict[str, Any]", data)["args"]
    if not isinstance(name, str) or not isinstance(args, dict):
        raise StepError('in a step, "strategy" is a name and "args" an object')
    try:
        return strategy(name).model_validate_json(json.dumps(args), strict=True)
    except ValidationError as error:
        problems = (f"{'.'.join(str(part) for part in e['loc']) or 'args'}: {e['msg']}" for e in error.errors())
        raise StepError(f"arguments of {name}: {'; '.join(problems)}") from None


def print_step(step: Strategy) -> str:
    """A step as one line of JSON, which `parse_step` reads back."""
    return json.dumps(step.to_json(), separators=(", ", ": "))


def _class_in(module: str, name: str, level: str) -> type[Strategy]:
    found = [
        value
        for value in vars(import_module(module)).values()
        if isinstance(value, type) and issubclass(value, Strategy) and value.__module__ == module
    ]
    if len(found) != 1 or (found[0].name, found[0].level) != (name, level):
        raise TypeError(f"{module} must define one Strategy, with name = {name!r} and level = {level!r}")
    return found[0]


def _loaded(point: EntryPoint) -> type[Strategy]:
    value, said = loaded(point, "strategy"), f"{package_of(point)}: {point.value}"
    if not isinstance(value, type) or not issubclass(value, Strategy) or getattr(value, "name", None) != point.name:
        raise PackageError(f"{said} must be a Strategy with name = {point.name!r}")
    for constant, options in (("level", LEVELS), ("bit_exact", get_args(BitExact))):
        if getattr(value, constant, None) not in options:
            raise PackageError(f"{said} must have a `{constant}`, one of {', '.join(options)}")
    for kind in ("choice", "change", "effect"):
        if not getattr(value, kind, None):
            raise PackageError(f"{said} must have sentences, `{kind}`")
    for argument in value.model_fields:
        if not re.fullmatch(WORDS, argument):
            raise PackageError(f"{said}: argument {argument}: give it lower-case letters, with _ between words")
    return value
