"""Imports go one way: leir <- strategies <- stepTP; tvm stays in the lowering, torch where PyTorch programs run."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("leir", "strategies", "stepTP")
FORBIDDEN = {"leir": ("strategies", "stepTP"), "strategies": ("stepTP",), "stepTP": ()}
# Library -> the folders that may import it, at any level of a function.
CONFINED = {
    "tvm": ("leir/lowering",),
    "torch": ("stepTP/frontend", "stepTP/verify", "stepTP/learn"),
    "lark": ("leir",),
    "islpy": ("leir/analysis", "leir/check"),
    "sympy": ("leir/analysis",),
}


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module's dotted name, and whether the import runs with the module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    deferred = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    deferred |= {
        id(node)
        for condition in ast.walk(tree)
        if isinstance(condition, ast.If) and ast.unparse(condition.test) == "TYPE_CHECKING"
        for node in ast.walk(condition)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, id(node) not in deferred) for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module, id(node) not in deferred
            case ast.ImportFrom():
                raise AssertionError(f"{path}:{node.lineno}: a relative import")
            case _:
                pass


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    place = path.relative_to(ROOT)
    for name, _ in imports(path):
        library = name.split(".")[0]
        assert library not in FORBIDDEN[place.parts[0]], f"{place} imports {name}"
        if library in CONFINED:
            allowed = CONFINED[library]
            assert any(place.is_relative_to(folder) for folder in allowed), f"{place} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_load_late(path: Path) -> None:
    """What the command line imports to start must not load what only some commands need."""
    place = path.relative_to(ROOT)
    heavy = {"tvm", "torch", "islpy", "sympy"}
    exempt = {"tvm": "leir/lowering", "torch": "stepTP"}
    for name, at_import in imports(path):
        library = name.split(".")[0]
        if at_import and library in heavy and not place.is_relative_to(exempt.get(library, "nowhere")):
            raise AssertionError(f"{place} imports {name} at module level")


def test_the_rules_see_the_code() -> None:
    """Were the folders renamed, the rules above would pass on nothing."""
    found = {path.relative_to(ROOT).parts[0] for path in modules()}
    assert found == set(PACKAGES)
    assert any(name == "lark" for name, _ in imports(ROOT / "leir" / "parser.py"))
