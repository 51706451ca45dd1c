"""The commands new strategy and new family: what they write works, and passes every check, before it is edited."""

import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer

from stepTP.commands.show import InputError, Json, print_json, read_text
from stepTP.manifest import write_whole

new = typer.Typer(no_args_is_help=True, help="A strategy or a source family to begin from.", rich_markup_mode=None)

Into = Annotated[
    Path | None,
    typer.Option(help="The folder of a package of your own, begun if there is none; by default, this checkout."),
]

_CHECKOUT = Path(__file__).parents[2]
_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["steptp"]

[tool.setuptools]
packages = ["{package}"]

[tool.setuptools.package-data]
{package} = ["*.txt"]
"""


class LevelChoice(StrEnum):
    graph = "graph"
    operator = "operator"
    memory = "memory"
    math = "math"


@new.command("strategy")
def new_strategy(
    name: Annotated[str, typer.Argument(help="Lower-case words, joined by underscores.")],
    level: Annotated[LevelChoice, typer.Option(help="Where it stands in the catalog.")] = LevelChoice.operator,
    into: Into = None,
    json: Json = False,
) -> None:
    """Write a strategy that works, with its cases."""
    from stepTP.templates import strategy_cases, strategy_class, strategy_module
    from strategies.index import ENTRY_POINTS, NAME, names

    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is no name of a strategy: give two words or more of lower-case letters, joined by _, as in "
            "loop_skewing"
        )
    _require_free(name, "strategy", names())
    root = into or _this_checkout()
    module, cases = strategy_module(name, level), strategy_cases()
    if _is_checkout(root):
        texts = {root / "strategies" / level / f"{name}.py": module, root / "tests" / "cases" / f"{name}.txt": cases}
        files = _write(texts)
        first = f"python {_word(root / 'scripts' / 'catalog.py')}"
    else:
        texts = {f"{name}.py": module, f"{name}.txt": cases}
        files = _add_to_package(root, ENTRY_POINTS, name, strategy_class(name), texts)
        first = f"pip install -e {_word(root)}"
    _report(files, [first, f"pytest {_word(_tests_for(root) / 'strategies')} -k '[{name}]'"], json)


@new.command("family")
def new_family(
    name: Annotated[str, typer.Argument(help="Lower-case words, joined by underscores.")],
    into: Into = None,
    json: Json = False,
) -> None:
    """Write a family of source programs that works."""
    from stepTP.sources import ENTRY_POINTS, NAME, families
    from stepTP.templates import family_module

    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name of a family: give lower-case letters and digits, with _ between words")
    if iskeyword(name):
        raise InputError(f"{name!r} is a word of Python, so that no module can be called so: choose another name")
    _require_free(name, "family", [family.name for family in families()])
    root = into or _this_checkout()
    if _is_checkout(root):
        files = _write({root / "stepTP" / "sources" / f"{name}.py": family_module(name)})
        first = []
    else:
        files = _add_to_package(root, ENTRY_POINTS, name, "FAMILY", {f"{name}.py": family_module(name)})
        first = [f"pip install -e {_word(root)}"]
    tests = _tests_for(root)
    check = [
        f"pytest {_word(tests / 'stepTP' / 'test_sources.py')} -k '[{name}]'",
        f"python {_word(tests.parent / 'scripts' / 'families.py')} {name}",
    ]
    _report(files, [*first, *check], json)


def _require_free(name: str, kind: str, taken: Collection[str]) -> None:
    if name in taken:
        raise InputError(f"there is a {kind} {name} already: choose another name")


def _this_checkout() -> Path:
    if not _is_checkout(_CHECKOUT):
        raise InputError("this steptp does not run from a checkout: name the folder of a package by --into")
    with suppress(ValueError):
        return _CHECKOUT.relative_to(Path.cwd())
    return _CHECKOUT


def _is_checkout(folder: Path) -> bool:
    parts = ("strategies/base.py", "stepTP/sources/__init__.py", "tests/cases")
    return all((folder / part).exists() for part in parts)


def _tests_for(root: Path) -> Path:
    """The tests that check what was written: of its checkout, of the one that runs, or of one that a person has."""
    return next((folder for folder in (root, _CHECKOUT) if _is_checkout(folder)), Path("CHECKOUT")) / "tests"


def _add_to_package(root: Path, group: str, name: str, value: str, texts: Mapping[str, str]) -> list[Path]:
    """Adds modules to the package in a folder, and an entry point to its project. Returns the files written.

    A folder without a project begins one, whose package has the folder's name. Raises InputError and OSError.
    """
    around = next((folder for folder in root.resolve().parents if _is_checkout(folder)), None)
    if around is not None:
        raise InputError(f"--into {root}: lies in the checkout {around}: name a folder outside it, or leave --into out")
    project = root / "pyproject.toml"
    begun = project.exists()
    package = _package_of(project) if begun else root / _package_name(root)
    if name in _table(_toml(project) if begun else {}, "project", "entry-points", group):
        raise InputError(f"{project}: has an entry point {name} already: choose another name")
    text = read_text(str(project)) if begun else _PYPROJECT.format(package=package.name)
    files = {} if begun else {package / "__init__.py": f'"""Strategies and source families of {package.name}."""\n'}
    files |= {package / file: content for file, content in texts.items()}
    files[project] = _with_entry_point(project, text, group, name, f"{package.name}.{name}:{value}")
    return _write(files, replaced=[project] if begun else [])


def _package_name(root: Path) -> str:
    """The name of the package that a folder begins."""
    name = re.sub(r"[-. ]", "_", root.resolve().name.lower())
    if not re.fullmatch(r"[a-z]\w*", name, re.ASCII) or iskeyword(name):
        raise InputError(f"--into {root}: no package can be called {name!r}: name the folder as one can be")
    spec = find_spec(name)
    if name in ("steptp", "tests") or (spec is not None and spec.origin is not None):
        raise InputError(f"--into {root}: there is a package {name} already: name the folder otherwise")
    return name


def _package_of(project: Path) -> Path:
    """The folder of a project's package: it has the project's name, and lies beside it or in `src`."""
    named = _table(_toml(project), "project").get("name", "")
    name = re.sub(r"[-.]", "_", str(named).lower())
    for folder in (project.parent / name, project.parent / "src" / name):
        if name and (folder / "__init__.py").is_file():
            return folder
    raise InputError(f"{project}: has no package {name or 'name'} beside it or in src: name a new folder")


def _with_entry_point(project: Path, text: str, group: str, name: str, value: str) -> str:
    """The text of a project with one more entry point, the first of its group. Everything else stays."""
    header = f'[project.entry-points."{group}"]'
    lines = text.splitlines()
    if header not in lines:
        lines += ["", header]
    at = lines.index(header) + 1
    changed = "\n".join([*lines[:at], f'{name} = "{value}"', *lines[at:]]) + "\n"
    try:
        tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        raise InputError(f"{project}: its entry points are written otherwise: give them a table {header}") from None
    return changed


def _toml(project: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(str(project)))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{project}: {error}: repair it, or name another folder") from None


def _table(data: Any, *keys: str) -> dict[str, Any]:
    """A table within tables; an empty one where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _write(files: Mapping[Path, str], replaced: Collection[Path] = ()) -> list[Path]:
    """Makes the files, and last puts new texts in the place of those that are `replaced`; all of it, or nothing.

    Returns them. Raises InputError where a file is there already, and OSError.
    """
    for file in files:
        if file not in replaced and (file.exists() or file.is_symlink()):
            raise InputError(f"{file}: is there already: choose another name, or move it away")
    made: list[Path] = []
    try:
        for file, text in files.items():
            if file not in replaced:
                for folder in reversed([folder for folder in file.parents if not folder.exists()]):
                    folder.mkdir()
                    made.append(folder)
                with file.open("x", encoding="utf-8") as content:
                    made.append(file)
                    content.write(text)
        for file in replaced:
            write_whole(file.resolve(), files[file].encode())  # a link to it stays one
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise
    return list(files)


def _report(files: Iterable[Path], check: Sequence[str], json: bool) -> None:
    if json:
        print_json({"written": [str(file) for file in files], "check": list(check)})
        return
    for file in files:
        print(f"wrote {file}")
    print("to check it:")
    for command in check:
        print(f"    {command}")


def _word(path: Path) -> str:
    return shlex.quote(str(path))
