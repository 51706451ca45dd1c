"""What installed packages add by entry points: each name once, and the objects once they are asked for."""

import re
from collections.abc import Collection, Iterable
from importlib.metadata import EntryPoint

_VALUE = re.compile(r"\w+(\.\w+)*:\w+")


class PackageError(Exception):
    """An installed package adds what cannot be used. The message is one line: the package, the cause, the remedy."""


def by_name(
    points: Iterable[EntryPoint], kind: str, name: re.Pattern[str], taken: Collection[str]
) -> dict[str, EntryPoint]:
    """Entry points by name, sorted; `kind` is what messages call one.

    Raises PackageError for a name that `name` does not match, that is `taken` by stepTP, or that is there twice,
    and for a value that is not `module:name`.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(points, key=lambda point: (point.name, package_of(point), point.value)):
        remedy = "rename it there, or uninstall the package"
        if not name.fullmatch(point.name):
            raise PackageError(f"{package_of(point)}: {point.name!r} is no name of a {kind}: {remedy}")
        if not _VALUE.fullmatch(point.value):
            raise PackageError(f"{package_of(point)}: {kind} {point.name} is at {point.value!r}: write it MODULE:NAME")
        if point.name in taken:
            raise PackageError(f"{package_of(point)}: stepTP has a {kind} {point.name} itself: {remedy}")
        if point.name in found:
            packages = f"{package_of(found[point.name])} and {package_of(point)}"
            raise PackageError(f"{packages}: both add a {kind} {point.name}: rename one, or uninstall its package")
        found[point.name] = point
    return found


def loaded(point: EntryPoint, kind: str) -> object:
    """What an entry point names. Raises PackageError where importing it fails."""
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        shown = f'python -c "from {point.module} import {point.attr}" shows where'
        raise PackageError(f"{package_of(point)}: {kind} {point.name} does not load, {cause}: {shown}") from error


def package_of(point: EntryPoint) -> str:
    """How messages call the package of an entry point."""
    return f"package {point.dist.name if point.dist else re.split(r'[.:]', point.value)[0]}"
