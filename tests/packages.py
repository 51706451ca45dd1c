"""Packages that add strategies and families, as an installer leaves them."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stepTP import sources
from strategies import catalog, index

_CACHES = (index.outside, index.names, index.inverses, catalog.strategy, sources.outside)


def install(folder: Path) -> None:
    """What an installer writes of a project beside its packages."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    register(folder, project["name"], project["entry-points"])


def register(folder: Path, package: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """A package's name, its version and its entry points, by group."""
    about = folder / f"{package}-0.1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
    text = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in added.items())
        for group, added in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(text))


@pytest.fixture
def fresh() -> Iterator[None]:
    """What packages add is asked for anew, in the test and after it."""
    for cached in _CACHES:
        cached.cache_clear()
    yield
    for cached in _CACHES:
        cached.cache_clear()
