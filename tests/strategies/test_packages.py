"""What packages add: names that text can be read by, each once, and objects that a build can use; else, one line."""

import sys
from pathlib import Path

import pytest

from leir.parser import parse
from stepTP.narrate.ground import ungrounded
from stepTP.narrate.next_step import _named_by  # pyright: ignore[reportPrivateUsage]
from strategies import catalog, index
from strategies.packages import PackageError
from tests.packages import fresh, register
from tests.stepTP.test_cli import Steptp, steptp

__all__ = ["fresh", "steptp"]

GROUP = index.ENTRY_POINTS
FAMILIES = "steptp.families"
MODULE = '''"""Turns a loop.

Leads to: loop_fusion, other_turn.

Inverse: loop_turn, loop_turn2 and loop_split.
"""
from typing import ClassVar
from strategies.base import Strategy
class LoopTurn(Strategy):
    name: ClassVar[str] = "loop_turn"
    level: ClassVar[str] = "math"
    bit_exact: ClassVar[str] = "always"
    choice = change = effect = ("It turns.", "The loop turns.")
    path: tuple[int, ...]
'''
CONFIG = "name: one\nseed: 0\nsources: {families: [mlp], per_family: 1}\nwalk: {depth: 1, strategies: [loop_split]}\n"


class Site:
    """A folder of packages that the running Python finds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self, package: str, text: str, name: str = "loop_turn", value: str = "LoopTurn", group: str = GROUP
    ) -> None:
        """A package with one module, and one entry point to it."""
        (self.folder / f"{package}.py").write_text(text, encoding="utf-8")
        register(self.folder, package, {group: {name: value if ":" in value else f"{package}:{value}"}})


@pytest.fixture
def site(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    del fresh
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    for name in ("kit", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return Site(folder)


@pytest.mark.parametrize(
    ("module", "value", "said"),
    [
        ("raise RuntimeError('no\\nlibrary')", "LoopTurn",  "RuntimeError: no library: "
         'python -c "from kit import LoopTurn" shows where'),
        ("import nowhere_at_all", "LoopTurn", "does not load, ModuleNotFoundError: No module named 'nowhere_at_all': "),
        ("raise SystemExit(3)", "LoopTurn", "strategy loop_turn does not load, SystemExit: 3: "),
        ("def (", "LoopTurn", "strategy loop_turn does not load, SyntaxError: "),
        (MODULE, "Loop", "does not load, AttributeError: module 'kit' has no attribute 'Loop'"),
        (MODULE, "nowhere_at_all:Loop", "does not load, ModuleNotFoundError: "),
        (MODULE, "kit:two words", "strategy loop_turn is at 'kit:two words': write it MODULE:NAME"),
        ("LoopTurn = 3", "LoopTurn", "kit:LoopTurn must be a Strategy with name = 'loop_turn'"),
        (MODULE.replace('"loop_turn"', '"turn_loop"'), "LoopTurn", "must be a Strategy with name = 'loop_turn'"),
        (MODULE, "Strategy", "kit:Strategy must be a Strategy with name = 'loop_turn'"),
        (MODULE.replace('"math"', '"maths"'), "LoopTurn", "must have a `level`, one of graph, operator, memory, math"),
        (MODULE.replace('"always"', "True"), "LoopTurn", "must have a `bit_exact`, one of always, never, depends"),
        (MODULE.replace("choice = ", ""), "LoopTurn", "kit:LoopTurn must have sentences, `choice`"),
        (MODULE.replace("path:", "path2:"), "LoopTurn", "argument path2: give it lower-case letters, "),
    ],
)  # fmt: skip
def test_a_strategy_that_cannot_be_used_is_one_line(
    steptp: Steptp, site: Site, tmp_path: Path, module: str, value: str, said: str
) -> None:
    """In a list, and before a build, of whichever strategies, begins."""
    site.add("kit", module, value=value)
    config = tmp_path / "one.yaml"
    config.write_text(CONFIG)
    for command in (("strategies", "list"), ("build", config, "--out", tmp_path / "run")):
        shown = steptp.fails(*command)
        assert shown.startswith("package kit: ") and said in shown
    assert not list(tmp_path.glob("run/*.jsonl"))


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise RuntimeError('no library')", "family rows does not load, RuntimeError: no library: "),
        ("LoopTurn = 3", "kit:LoopTurn must be a Family with name = 'rows'"),
        ("from stepTP.templates.centred_rows import FAMILY as LoopTurn", "must be a Family with name = 'rows'"),
    ],
)
def test_a_family_that_cannot_be_used_is_one_line(
    steptp: Steptp, site: Site, tmp_path: Path, module: str, said: str
) -> None:
    site.add("kit", module, name="rows", group=FAMILIES)
    config = tmp_path / "one.yaml"
    config.write_text(CONFIG)
    for command in (("sources", "list"), ("build", config, "--out", tmp_path / "run")):
        shown = steptp.fails(*command)
        assert shown.startswith("package kit: ") and said in shown


@pytest.mark.parametrize(
    "name", ["or", "a", "loop", "none", "loop_2", "loop2_turn", "Loop_Turn", "loop-turn", "größe_x", "loop_"]
)
def test_names_that_reasoning_cannot_be_read_by_are_refused(steptp: Steptp, site: Site, name: str) -> None:
    site.add("kit", MODULE, name=name)
    said = f"package kit: {name!r} is no name of a strategy: rename it there, or uninstall the package"
    assert steptp.fails("strategies", "list") == said


@pytest.mark.parametrize("name", ["Rows", "rows-2", "2rows", "../rows"])
def test_names_that_no_family_can_have_are_refused(steptp: Steptp, site: Site, name: str) -> None:
    site.add("kit", MODULE, name=name, group=FAMILIES)
    assert f"package kit: {name!r} is no name of a family: " in steptp.fails("sources", "list")


def test_a_name_is_of_one_package(steptp: Steptp, site: Site) -> None:
    """Of stepTP, where it has the name; nor does the order in which packages are found decide between them."""
    site.add("kit", MODULE)
    assert steptp.json("strategies", "list")[-1]["name"] == "loop_turn"
    site.add("other", MODULE)
    index.outside.cache_clear()
    index.names.cache_clear()
    said = "package kit and package other: both add a strategy loop_turn: rename one, or uninstall its package"
    assert steptp.fails("strategies", "list") == said
    site.add("kit", MODULE, name="loop_split")
    assert "package kit: stepTP has a strategy loop_split itself: " in steptp.fails("strategies", "list")
    site.add("kit", MODULE, name="mlp", group=FAMILIES)
    assert "package kit: stepTP has a family mlp itself: " in steptp.fails("sources", "list")


def test_a_package_that_is_found_twice_is_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("kit", MODULE)
    monkeypatch.syspath_prepend(str(site.folder.parent / "site" / ".." / "site"))
    assert index.names()[-1] == "loop_turn"


def test_the_cause_is_kept_for_who_repairs_it(site: Site) -> None:
    site.add("kit", "1 / 0")
    with pytest.raises(PackageError) as found:
        catalog.strategy("loop_turn")
    assert isinstance(found.value.__cause__, ZeroDivisionError)


def test_names_are_read_as_whole_words(site: Site) -> None:
    """On pages and in reasoning: loop_turn is in neither loop_turns nor loop_turn2, nor apart in aparts."""
    site.add("kit", MODULE)
    assert index.inverses("loop_turn") == ("loop_turn", "loop_split")
    assert _named_by("loop_turn") == (("loop_fusion",), ("loop_split",))
    assert index.named_in("loop_split, loop_turns, loop_turn2; loop_turn(path=(0)), loop_split") == (
        "loop_split",
        "loop_turn",
    )
    assert index.without_names("aparts and apart, by loop_turn(path=(0))") == "aparts and  , by  (path=(0))"
    program = "in A_8;out C_8;\nL^8_i[C_i=A_i;]\n"
    assert parse(program).body
    assert ungrounded("The step loop_turn(path=(0)) is togetherx.", program, program, []) == ()
    assert ungrounded("The step loop_turn(path=(0)) needs x.", program, program, []) == ("x",)
