"""`steptp new`: what it writes is found and passes the checks of every strategy or family; what it cannot, it says."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from leir.parser import parse
from leir.printer import to_text
from stepTP import identity, sources
from stepTP.commands import scaffolding
from stepTP.expand import expand
from stepTP.intake import translate
from stepTP.narrate.recover import recover_step
from stepTP.narrate.task import explain
from stepTP.records import row_id
from stepTP.sources.draw import Draw
from stepTP.templates import strategy_class, strategy_module
from stepTP.templates.centred_rows import FAMILY
from strategies import catalog, index
from tests.packages import fresh, install
from tests.stepTP import test_sources
from tests.stepTP.test_cli import Steptp, steptp

__all__ = ["fresh", "steptp"]

ROOT = Path(__file__).parents[2]
BACKWARDS = "in A_{8,16};out C_{8,16};\nL^{8,16}_{i,j}[D_{i,j}=exp(A_{i,j});]\nL^{8,16}_{i,j}[C_{i,j}=D_{7-i,j}*2.0;]\n"


def python(*arguments: str | Path, path: Path, cwd: Path = ROOT) -> str:
    """The output of a Python that finds what is in `path` before all else; it must end well."""
    environment = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{cwd}"}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installed package with two strategies and a family."""
    folder = tmp_path_factory.mktemp("outside") / "my-additions"
    scaffolding.new_strategy("row_turning", into=folder)
    scaffolding.new_strategy("bit_exact", scaffolding.LevelChoice.math, into=folder)
    scaffolding.new_family("rows2", into=folder)
    install(folder)
    return folder


@pytest.fixture
def installed(fresh: None, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package, in this process."""
    del fresh
    monkeypatch.syspath_prepend(str(package))


@pytest.fixture
def registered(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The template as a strategy of another package, in this process."""
    del fresh
    point = EntryPoint("loop_reversal", "stepTP.templates.loop_reversal:LoopReversal", index.ENTRY_POINTS)
    monkeypatch.setattr(index, "entry_points", lambda group: [point] if group == index.ENTRY_POINTS else [])


@pytest.mark.usefixtures("installed")
def test_a_package_of_ones_own_is_found(steptp: Steptp) -> None:
    shown = steptp.json("strategies", "list")
    assert [(each["name"], each["level"]) for each in shown[-2:]] == [
        ("bit_exact", "math"),
        ("row_turning", "operator"),
    ]
    assert [each["name"] for each in steptp.json("sources", "list")].index("rows2") == len(sources.families()) - 1
    _, program, _ = steptp("sources", "show", "rows2")
    assert program.startswith("# rows2-") and "class Model(nn.Module):" in program


@pytest.mark.usefixtures("installed")
def test_a_step_of_it_is_taken(steptp: Steptp, tmp_path: Path) -> None:
    file = tmp_path / "backwards.leir"
    file.write_text(BACKWARDS)
    found = steptp.json("candidates", file, "--strategy", "row_turning")
    assert [(each["args"]["path"], each["legal"]) for each in found] == [
        ([0], True), ([0, 0], True), ([1], True), ([1, 0], True),
    ]  # fmt: skip
    after = steptp.json("apply", file, "--strategy", "row_turning", "--args", '{"path": [1]}')["leir"]
    assert after.splitlines()[-1] == "L^{8,16}_{i,j}[C_{7-i,j}=D_{i,j}*2.0;]"


def checked(output: str) -> int:
    """How many tests passed; none may be left out."""
    last = output.strip().splitlines()[-1]
    assert "skipped" not in last
    return int(last.split(" passed")[0].split()[-1])


def test_a_strategy_passes_the_checks_of_every_strategy(package: Path) -> None:
    """Cases, each fact in a refusal, meaning, sentences, disguises, in a process that finds what is installed."""
    modules = (f"tests/strategies/test_{name}.py" for name in ("cases", "sentences", "disguises"))
    words = "tests/strategies/test_catalog.py::test_every_strategy_has_its_page_and_its_words"
    chosen = "[bit_exact] or [row_turning] or its_words"
    assert checked(python("-m", "pytest", *modules, words, "-k", chosen, path=package)) == 2 * 7 + 1


@pytest.mark.usefixtures("installed")
def test_a_family_passes_the_checks_of_every_family() -> None:
    """The tests that take a family, called for this one."""
    test_sources.test_programs_differ_in_more_than_names_and_sizes("rows2")
    test_sources.test_programs_run_and_vary("rows2")
    test_sources.test_every_constant_and_argument_is_used("rows2")
    test_sources.test_knobs_are_those_of_the_text("rows2")
    test_sources.test_every_knob_is_listed_and_can_vary(sources.families()[-1])
    test_sources.test_families_have_pages()


@pytest.mark.slow
def test_an_installed_package_leaves_our_pages_as_they_are(package: Path) -> None:
    """What tests count and what pages say is of this repository; its family is found by the tests themselves, too."""
    modules = ("tests/strategies/test_catalog.py", "tests/stepTP/test_sources.py")
    names = ("up_to_date", "test_families_have_pages", "test_there_are_as_many_families_as_is_said")
    output = python("-m", "pytest", *modules, "-k", " or ".join(("[rows2]", *names)), path=package)
    assert checked(output) == 5 + len(names)


@pytest.mark.slow
def test_random_programs_keep_their_meaning(package: Path) -> None:
    judging = ("-m", "tests.strategies.judging", "--only", "row_turning", "--legal", "40", "--seed", "3")
    lines = python(*judging, path=package).splitlines()
    assert lines[-1].strip().startswith("4") and "row_turning; refused: " in lines[-1], lines


@pytest.mark.usefixtures("registered")
def test_its_reasoning_is_grounded_and_gives_the_step_back() -> None:
    asked = {"leir": BACKWARDS, "seed": 0, "source": "test", "strategies": ["loop_reversal"], "per_strategy": 9}
    found = expand({**asked, "attempts": 9, "wanted": None, "always": [], "grid": {}, "earlier": [], "back": []})
    assert len(found["steps"]) == 4
    for step in found["steps"]:
        told = {name: step[name] for name in ("strategy", "args")}
        payload = {"id": row_id(BACKWARDS, step["leir"], "0"), "grid": {}, "before": BACKWARDS, "step": told}
        payload |= {"bit_exact": step["bit_exact"], "facts": step["facts"], "after": step["leir"], "others": []}
        reasoning = explain({**payload, "refused": [], "count_tokens": "none"})["reasoning"]
        recovered = recover_step(reasoning, parse(BACKWARDS))
        assert recovered is not None and recovered.to_json() == told


@pytest.mark.usefixtures("registered")
def test_a_step_undoes_itself_and_opens_a_fusion() -> None:
    before, step = parse(BACKWARDS), catalog.parse_step('{"strategy": "loop_reversal", "args": {"path": [1]}}')
    after = step.apply(before).program
    assert to_text(step.apply(after).program) == BACKWARDS
    fusion = catalog.parse_step('{"strategy": "operator_fusion", "args": {"path": [0], "depth": 2}}')
    assert fusion.apply(after).bit_exact
    assert index.inverses("loop_reversal") == ("loop_reversal",)


@pytest.mark.parametrize("number", range(3))
def test_programs_of_a_family_translate(number: int) -> None:
    """And none of them is degenerate."""
    code = FAMILY.write(Draw(0, FAMILY.name, number))
    assert translate({"code": code, "file": "rows.py", "check": True})["status"] == "verified"


def test_what_packages_add_is_part_of_a_runs_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a package whole, and of a module by itself, without importing either."""

    def found() -> tuple[str, str]:
        return identity.catalog_hash(), identity.code_version()

    def appears(file: str, package: Any, module: str) -> None:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("raise ImportError\n")
        point = EntryPoint("one", f"{module}:NAME", package.ENTRY_POINTS)
        monkeypatch.setattr(package, "outside", lambda: {"one": point})

    monkeypatch.syspath_prepend(str(tmp_path))
    alone = found()
    appears("kit_of_families/rows.py", sources, "kit_of_families.rows")
    with_family = found()
    (tmp_path / "kit_of_families" / "drawn.py").write_text("")
    with_another = found()
    assert alone[0] == with_family[0] == with_another[0]
    assert len({alone[1], with_family[1], with_another[1]}) == 3
    appears("one_strategy.py", index, "one_strategy")
    with_strategy = found()
    (tmp_path / "one_strategy.py").write_text("")
    edited = found()
    assert (
        len({with_another[0], with_strategy[0], edited[0]}) == len({with_another[1], with_strategy[1], edited[1]}) == 3
    )
    monkeypatch.undo()
    assert found() == alone


@pytest.mark.slow
def test_a_checkout_takes_both(tmp_path: Path) -> None:
    """In a copy of this one, where the page of the catalog is written anew."""
    copy = tmp_path / "checkout"
    for folder in ("leir", "schedules", "strategies", "stepTP", "tests", "scripts"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    made = json.loads(python("-m", "stepTP.cli", "new", "strategy", "row_turning", "--json", path=copy, cwd=copy))
    assert made["written"] == ["strategies/operator/row_turning.py", "tests/cases/row_turning.txt"]
    assert made["check"] == ["python scripts/catalog.py", "pytest tests/strategies -k '[row_turning]'"]
    python("scripts/catalog.py", path=copy, cwd=copy)
    strategies = ("tests/strategies", "-k", "[row_turning] or test_catalog")
    assert checked(python("-m", "pytest", *strategies, path=copy, cwd=copy)) > 7
    made = json.loads(python("-m", "stepTP.cli", "new", "family", "rows2", "--json", path=copy, cwd=copy))
    assert made["written"] == ["stepTP/sources/rows2.py"]
    family = ("tests/stepTP/test_sources.py", "-k", "[rows2]")
    assert checked(python("-m", "pytest", *family, path=copy, cwd=copy)) == 5
    shutil.copy(ROOT / "pyproject.toml", copy)
    for command in (("check",), ("format", "--check")):
        python("-m", "ruff", *command, "--no-cache", "strategies", "stepTP/sources", path=copy, cwd=copy)


def test_every_name_gives_a_module_that_loads() -> None:
    """Names that the module uses itself among them."""
    for name in ("bit_exact", "class_var", "flow_preserved", "loop_reversal", "x_y"):
        space: dict[str, Any] = {"__name__": f"made_{name}"}
        exec(compile(strategy_module(name, "graph"), name, "exec"), space)
        made = space[strategy_class(name)]
        assert (made.name, made.level, made.bit_exact) == (name, "graph", "always")
        assert [step.name for step in made.candidates(parse(BACKWARDS))] == [name] * 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("strategy", "Loop_Turn"),
            "is no name of a strategy: give two words or more of lower-case letters, joined by _,",
        ),
        (("strategy", "loop-turn"), "'loop-turn' is no name of a strategy"),
        (("strategy", ""), "'' is no name of a strategy"),
        (("strategy", "or"), "'or' is no name of a strategy"),
        (("strategy", "loop"), "'loop' is no name of a strategy"),
        (("strategy", "loop_2"), "'loop_2' is no name of a strategy"),
        (("strategy", "loop_größe"), "'loop_größe' is no name of a strategy"),
        (("strategy", "_loop_turn"), "'_loop_turn' is no name of a strategy"),
        (("strategy", "loop_turn\n"), "is no name of a strategy"),
        (("strategy", "loop_split"), "there is a strategy loop_split already: choose another name"),
        (("family", "../rows"), "'../rows' is no name of a family"),
        (("family", "2rows"), "'2rows' is no name of a family: give lower-case letters and digits"),
        (("family", "lambda"), "'lambda' is a word of Python, so that no module can be called so"),
        (("family", "softmax"), "there is a family softmax already: choose another name"),
    ],
)
def test_names_that_cannot_be(steptp: Steptp, tmp_path: Path, arguments: tuple[str, str], said: str) -> None:
    assert said in steptp.fails("new", *arguments, "--into", tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_existing_files_are_left_alone(steptp: Steptp, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    assert steptp("new", "family", "row_sums", "--into", mine)[0] == 0
    held = {file: file.read_bytes() for file in mine.rglob("*.*") if file.is_file()}
    assert steptp.fails("new", "family", "row_sums", "--into", mine) == (
        f"{mine / 'pyproject.toml'}: has an entry point row_sums already: choose another name"
    )
    said = steptp.fails("new", "strategy", "row_sums", "--into", mine)
    assert said == f"{mine / 'mine' / 'row_sums.py'}: is there already: choose another name, or move it away"
    (mine / "mine" / "loop_turn.txt").symlink_to("nowhere")
    assert "loop_turn.txt: is there already" in steptp.fails("new", "strategy", "loop_turn", "--into", mine)
    (mine / "mine" / "loop_turn.txt").unlink()
    assert {file: file.read_bytes() for file in mine.rglob("*.*") if file.is_file()} == held
    assert "draw.py: is there already" in steptp.fails("new", "family", "draw")


def test_a_project_of_ones_own_keeps_what_it_says(steptp: Steptp, tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    (tmp_path / "src" / "my_kit").mkdir(parents=True)
    (tmp_path / "src" / "my_kit" / "__init__.py").write_text("")
    text = (
        '[project]\nname = "My.Kit"  # mine\n\n[project.entry-points."steptp.families"]\n# none yet\n\n[tool.x]\ny = 1'
    )
    project.write_text(text)
    assert steptp("new", "family", "rows", "--into", tmp_path)[0] == 0
    header = '[project.entry-points."steptp.families"]\n'
    assert project.read_text() == text.replace(header, f'{header}rows = "my_kit.rows:FAMILY"\n') + "\n"
    assert (tmp_path / "src" / "my_kit" / "rows.py").exists()
    assert steptp("new", "strategy", "loop_turn", "--into", tmp_path)[0] == 0
    points = tomllib.loads(project.read_text())["project"]["entry-points"]
    assert points == {
        "steptp.families": {"rows": "my_kit.rows:FAMILY"},
        "steptp.strategies": {"loop_turn": "my_kit.loop_turn:LoopTurn"},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project\n", "repair it, or name another folder"),
        ("", "has no package name beside it or in src: name a new folder"),
        ("project = 3\n", "has no package name beside it or in src"),
        ('[project]\nname = "else"\n', "has no package else beside it or in src: name a new folder"),
        (
            '[project]\nname = "kit"\nentry-points = {"steptp.families" = {}}\n',
            'its entry points are written otherwise: give them a table [project.entry-points."steptp.families"]',
        ),
        ('[project]\nname = "kit"\nentry-points = 3\n', "its entry points are written otherwise"),
    ],
)
def test_projects_that_cannot_be_added_to(steptp: Steptp, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text(text)
    assert said in steptp.fails("new", "family", "rows", "--into", tmp_path)
    assert (tmp_path / "pyproject.toml").read_text() == text and not (tmp_path / "kit" / "rows.py").exists()


def test_folders_that_cannot_be(steptp: Steptp, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "Not a directory" in steptp.fails("new", "family", "rows", "--into", tmp_path / "file")
    assert "Not a directory" in steptp.fails("new", "family", "rows", "--into", tmp_path / "file" / "mine")
    assert "no package can be called '2nd'" in steptp.fails("new", "family", "rows", "--into", tmp_path / "2nd")
    assert "no package can be called 'class'" in steptp.fails("new", "family", "rows", "--into", tmp_path / "class")
    for name in ("numpy", "stepTP", "tests", "leir", "json"):
        assert "already: name the folder otherwise" in steptp.fails("new", "family", "rows", "--into", tmp_path / name)
    said = steptp.fails("new", "family", "rows", "--into", ROOT / "configs" / "mine")
    assert said.endswith(f"lies in the checkout {ROOT}: name a folder outside it, or leave --into out")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file"]


def test_without_a_checkout_a_folder_is_asked_for(
    steptp: Steptp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaffolding, "_CHECKOUT", tmp_path)
    said = steptp.fails("new", "strategy", "loop_turn")
    assert said == "this steptp does not run from a checkout: name the folder of a package by --into"
    mine = tmp_path / "mine"
    assert steptp.json("new", "strategy", "loop_turn", "--into", mine) == {
        "written": [
            str(mine / name)
            for name in ("mine/__init__.py", "mine/loop_turn.py", "mine/loop_turn.txt", "pyproject.toml")
        ],
        "check": [f"pip install -e {mine}", "pytest CHECKOUT/tests/strategies -k '[loop_turn]'"],
    }


@pytest.mark.parametrize("stop", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_what_could_not_be_finished(
    steptp: Steptp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    """The disk is full, or Ctrl-C comes, when the project is to take the entry point."""
    mine = tmp_path / "mine"
    assert steptp("new", "family", "rows", "--into", mine)[0] == 0
    held = sorted(mine.rglob("*"))

    def write_whole(_file: Path, _data: bytes) -> None:
        raise stop

    monkeypatch.setattr(scaffolding, "write_whole", write_whole)
    code, _, err = steptp("new", "strategy", "loop_turn", "--into", mine)
    assert code == (2 if isinstance(stop, OSError) else 130) and err.count("\n") == 1
    assert sorted(mine.rglob("*")) == held


def test_nothing_is_left_of_a_package_that_could_not_be_begun(steptp: Steptp, tmp_path: Path) -> None:
    """Not a folder of it: the name of a file can be too long where those of the folders are not."""
    said = steptp.fails("new", "strategy", f"loop_{'n' * 300}", "--into", tmp_path / "those" / "mine")
    assert said.endswith("File name too long: name it shorter")
    assert list(tmp_path.iterdir()) == []


def test_a_project_that_is_a_link_stays_one(steptp: Steptp, tmp_path: Path) -> None:
    mine = tmp_path / "my kit"
    assert steptp("new", "family", "rows", "--into", mine)[0] == 0
    project = mine / "pyproject.toml"
    project.rename(tmp_path / "elsewhere.toml")
    project.symlink_to(tmp_path / "elsewhere.toml")
    assert steptp("new", "strategy", "loop_turn", "--into", mine)[0] == 0
    assert project.is_symlink() and 'loop_turn = "my_kit.loop_turn:LoopTurn"' in project.read_text()
