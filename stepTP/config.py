"""The configuration of a build: YAML, checked key by key.

What decides the bytes of a result is here; how fast it comes (workers, the folder's place) is not.
"""

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from stepTP.search import OFFLINE, SEARCHES
from strategies.grid import Grid

Target = Literal["llvm", "cuda"]
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class ConfigError(ValueError):
    """A configuration cannot be used; the message names file, line, key and remedy."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Given(_Section):
    """How given programs are taken. `family` is what they are split and balanced by."""

    family: str = Field(default="given", pattern=r"^[a-z][a-z0-9_]*$")
    license: str = Field(min_length=1)  # of the files, as their rows will say
    set: dict[str, bool | int | float | str | list[int | float]] = Field(default_factory=dict)
    fit: int | None = Field(default=None, ge=1000)  # iterations to make them small for
    eval: bool = False  # in evaluation mode, where they are not built in it


class Folder(_Given):
    """All Python files of a folder. Where it lies changes no byte of a result."""

    path: str = Field(min_length=1)


class ImportedModule(_Given):
    """A class of an importable module."""

    module: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")  # package.module:Class


class Sources(_Section):
    """Which programs to start from."""

    families: Names | Literal["all", "none"] = "all"
    per_family: int = Field(default=3, ge=1, le=100_000)
    counts: dict[str, Annotated[int, Field(ge=1, le=100_000)]] = Field(default_factory=dict)  # of these families
    folders: tuple[Folder, ...] = ()
    modules: tuple[ImportedModule, ...] = ()


class Walk(_Section):
    """How far a walk goes; `stepTP.walk` explains the policy."""

    depth: int = Field(default=4, ge=1, le=64)
    breadth: int = Field(default=3, ge=1, le=10_000)  # states that are expanded at each depth
    per_strategy: int = Field(default=3, ge=1, le=10_000)  # legal steps kept of one strategy at one state
    attempts: int = Field(default=8, ge=1, le=100_000)  # candidates tried of one strategy at one state
    strategies_per_state: int | None = Field(default=None, ge=1)  # that give steps at one state; None: all that can
    always: tuple[str, ...] = ()  # strategies that are asked beyond that number
    opening: tuple[str, ...] = ("compute_inline",)  # strategies that are followed first, while a walk opens
    opening_steps: int = Field(default=0, ge=0, le=64)  # that a walk opens with at most
    longest: int | None = Field(default=None, ge=1)  # characters of a program that is expanded
    strategies: Names | Literal["all"] = "all"


class Verify(_Section):
    """On what programs are checked."""

    targets: tuple[Target, ...] = Field(default=("llvm",), min_length=1)
    draws: int = Field(default=1, ge=1, le=100)  # of each kind of input
    timeout_s: float = Field(default=300.0, gt=0, le=86_400)  # of one job; far above any, so that load decides nothing
    memory_mb: int = Field(default=3072, ge=2048)  # of one worker, of which torch and tvm take about 700


class Search(_Section):
    """Goal-directed trajectories beside the walk: `stepTP.search.goal` says how they are found."""

    share: float = Field(default=0.0, ge=0, le=1)  # of the programs, drawn by hash
    search: str = "beam"
    policy: str = "cost_model"
    target: Target = "cuda"  # whose costs are predicted
    evaluations: int = Field(default=40, ge=1, le=100_000)  # states
    width: int = Field(default=2, ge=1, le=1000)
    depth: int = Field(default=10, ge=1, le=64)
    attempts: int = Field(default=3, ge=1, le=1000)

    @field_validator("search")
    @classmethod
    def _is_a_search(cls, name: str) -> str:
        return _one_of(name, SEARCHES, "search")

    @field_validator("policy")
    @classmethod
    def _is_a_policy(cls, name: str) -> str:
        return _one_of(name, OFFLINE, "policy that needs nothing else")


def _one_of(name: str, known: tuple[str, ...], what: str) -> str:
    if name not in known:
        raise ValueError(f"there is no such {what}: choose of {', '.join(known)}")
    return name


class Filter(_Section):
    """What the second pass keeps; `stepTP.filter` explains the rules."""

    near_duplicates: int = Field(default=4, ge=1)  # rows kept of one step on programs equal up to names and sizes
    steps_back: float = Field(default=0.25, ge=0, le=1)  # share of a strategy's rows that take earlier steps back
    whole: tuple[str, ...] = ()  # strategies that are not capped: the hard ones
    cap_per_strategy: int | None = Field(default=None, ge=1)  # rows of one strategy in all
    caps: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)  # the same of these strategies
    max_share: float | None = Field(default=None, gt=0, le=1)  # of all rows, of a strategy that is not in `whole`
    min_share: float | None = Field(default=None, ge=0, lt=1)  # of all rows, of the rarest: others are capped for it
    min_rows: int | None = Field(default=None, ge=1)  # of a strategy; checked alone
    refusals_per_fact: int = Field(default=200, ge=1)  # refusals kept of each fact of each strategy


class Splits(_Section):
    """Which programs are kept from training; `stepTP.splits` explains how."""

    validation: float = Field(default=0.05, ge=0, lt=1)  # of the programs
    test: float = Field(default=0.05, ge=0, lt=1)
    test_families: tuple[str, ...] = ()  # whole families for the test split

    @model_validator(mode="after")
    def _leaves_something_to_train(self) -> Self:
        if self.validation + self.test >= 1:
            raise ValueError("validation and test leave no program to train on")
        return self


class Measure(_Section):
    """What is timed once the rows are there; see stepTP/verify/measure/README.md."""

    targets: tuple[Target, ...] = ()  # none: nothing is timed
    limit: int | None = Field(default=None, ge=1)  # states in all, of all sources in turn
    repeats: int = Field(default=30, ge=3)


class Config(_Section):
    """A whole build."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seed: int = Field(default=0, ge=0)
    sources: Sources = Sources()
    walk: Walk = Walk()
    grid: Grid = Grid()  # the sizes that steps of walk and search are tried with
    search: Search = Search()
    verify: Verify = Verify()
    filter: Filter = Filter()
    splits: Splits = Splits()
    measure: Measure = Measure()  # decides no byte of a run's files, and may change between two builds of one
    tokens: bool = True  # count tokens of LEIR and of the reasoning; needs the extra `tokens`
    lowered_tokens: float = Field(default=1.0, ge=0, le=1)  # share of the rows whose TIR and CUDA are counted too
    sources_per_shard: int = Field(default=4, ge=1)


def load_config(file: Path) -> Config:
    """The configuration in a YAML file. Raises ConfigError."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{file}: {error.strerror}: give the path of a YAML file, like configs/quickstart.yaml"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 (byte {error.start}): save it as UTF-8") from None
    return parse_config(text, str(file))


def parse_config(text: str, file: str = "<config>") -> Config:
    """The configuration that YAML text writes. Raises ConfigError."""
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except RecursionError:
        raise ConfigError(f"{file}: nests too deep: a configuration has sections and keys, no more") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(f"{file}{where}: not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: a configuration is a mapping of keys, like `name: quickstart`")
    twice = _repeated_key(tree)
    if twice is not None:
        raise ConfigError(f"{file}:{twice.start_mark.line + 1}: {twice.value}: the key stands here twice: keep one")
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_explain(error, tree, file)) from None


def deciding(config: Config) -> dict[str, Any]:
    """What of the configuration decides the bytes of a run, as JSON holds it: all but the measurements.

    Of the grid it is what differs from the default, and nothing where nothing does.
    """
    grid = config.grid.chosen()
    return {**config.model_dump(mode="json", exclude={"measure", "grid"}), **({"grid": grid} if grid else {})}


def config_hash(config: Config, described: dict[str, Any] | None = None) -> str:
    """SHA-256 of everything that decides the bytes of a run, or of another description of it."""
    asked = deciding(config) if described is None else described
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _repeated_key(node: yaml.Node | None) -> yaml.ScalarNode | None:
    """The first key of a mapping that stands there twice; YAML would silently take the last."""
    if not isinstance(node, yaml.MappingNode):
        return None
    seen: set[str] = set()
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen:
                return key
            seen.add(key.value)
        below = _repeated_key(value)
        if below is not None:
            return below
    return None


def _explain(error: ValidationError, tree: yaml.Node, file: str) -> str:
    """One line on the first thing that is wrong: where, which key, what to do."""
    first = error.errors(include_url=False)[0]
    key = [str(part) for part in first["loc"] if not re.search(r"[\[( ]", str(part))]  # a union names its types too
    place = f"{file}:{_line(tree, key)}: {'.'.join(key)}"
    if first["type"] == "extra_forbidden":
        known = _keys(key[:-1])
        near = difflib.get_close_matches(key[-1], known, n=1)
        remedy = f"did you mean '{near[0]}'?" if near else f"remove it; known here: {', '.join(known)}"
        return f"{place}: unknown key: {remedy}"
    if first["type"] == "missing":
        return f"{place}: the key is missing: add `{key[-1]}: ...`"
    return f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}, found {first['input']!r}"


def _keys(path: list[str]) -> list[str]:
    section: Any = Config
    for part in path:
        section = get_args(section)[0] if part.isdigit() else section.model_fields[part].annotation
    return list(section.model_fields)


def _line(tree: yaml.Node, key: list[str]) -> int:
    """The line of a key, or of the nearest section around it that the text holds."""
    node, line = tree, tree.start_mark.line
    for part in key:
        if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line
            continue
        if not isinstance(node, yaml.MappingNode):
            break
        found = [(k, v) for k, v in node.value if isinstance(k, yaml.ScalarNode) and k.value == part]
        if not found:
            break
        line, node = found[0][0].start_mark.line, found[0][1]
    return line + 1
