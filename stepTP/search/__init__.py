"""Search over steps: an environment, policies that propose, searches that choose; README.md shows the whole.

A policy is one module of `policies/` with a class `POLICY`; a search is one module of `searches/` with a function
`search`. A module that is there is known, by its name.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepTP.search.env import Environment
    from stepTP.search.protocol import Policy


def _modules(folder: str) -> tuple[str, ...]:
    """The names of a folder's modules, sorted; none is loaded."""
    return tuple(sorted(module.name for module in iter_modules([str(Path(__file__).with_name(folder))])))


SEARCHES = _modules("searches")
POLICIES = _modules("policies")
OFFLINE = tuple(name for name in POLICIES if name not in ("llm", "scripted"))  # that need nothing but the program


def search_of(name: str) -> "Callable[[Environment], None]":
    """The search of a name in `SEARCHES`."""
    return import_module(f"stepTP.search.searches.{name}").search


def policy_of(name: str, /, **options: Any) -> "Policy":
    """A policy of a name in `POLICIES`, with its own options."""
    return import_module(f"stepTP.search.policies.{name}").POLICY(**options)
