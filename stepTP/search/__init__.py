"""Search over steps: an environment, policies that propose, searches that choose; README.md shows the whole.

A policy is one module of `policies/` with a class `POLICY`; a search is one module of `searches/` with a function
`search`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepTP.search.env import Environment
    from stepTP.search.protocol import Policy

SEARCHES = ("beam", "bfs", "chain", "dfs", "greedy", "mcts")
POLICIES = ("cost_model", "heuristic", "llm", "random", "scripted")
OFFLINE = ("cost_model", "heuristic", "random")  # that need nothing but the program


def search_of(name: str) -> "Callable[[Environment], None]":
    """The search of a name in `SEARCHES`."""
    return import_module(f"stepTP.search.searches.{name}").search


def policy_of(name: str, /, **options: Any) -> "Policy":
    """A policy of a name in `POLICIES`, with its own options."""
    return import_module(f"stepTP.search.policies.{name}").POLICY(**options)
