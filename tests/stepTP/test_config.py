"""A configuration is read whole or refused with file, line, key and remedy."""

from pathlib import Path

import pytest

from stepTP.config import Config, ConfigError, config_hash, deciding, load_config, parse_config
from stepTP.pipeline import chosen_strategies


def test_defaults_fill_what_is_not_said() -> None:
    config = parse_config("name: a\nwalk: {depth: 2}")
    assert (config.walk.depth, config.walk.breadth, config.sources.families) == (
        2,
        Config(name="a").walk.breadth,
        "all",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nwalks: {}", "c.yaml:2: walks: unknown key: did you mean 'walk'?"),
        ("name: a\nwalk:\n  depht: 3", "c.yaml:3: walk.depht: unknown key: did you mean 'depth'?"),
        ("name: a\nwalk:\n  zzz: 3", "c.yaml:3: walk.zzz: unknown key: remove it; known here: depth, breadth"),
        ("seed: 1", "c.yaml:1: name: the key is missing: add `name: ...`"),
        ("name: a\nwalk:\n  depth: 0", "c.yaml:3: walk.depth: input should be greater than or equal to 1, found 0"),
        ("name: a\nwalk:\n  depth: deep", "c.yaml:3: walk.depth: input should be a valid integer"),
        ("name: a\nseed: 1\nseed: 2", "c.yaml:3: seed: the key stands here twice"),
        ("name: a\nwalk: [", "c.yaml:2:8: not YAML"),
        ("- a", "c.yaml: a configuration is a mapping"),
        ("", "c.yaml: a configuration is a mapping"),
        ("name: ../a", "c.yaml:1: name: string should match"),
        ("name: a\nverify: {targets: []}", "c.yaml:2: verify.targets: "),
        ("name: a\nverify: {targets: [rocm]}", "c.yaml:2: verify.targets.0: input should be 'llvm' or 'cuda'"),
        ("name: a\nverify: {timeout_s: .inf}", "c.yaml:2: verify.timeout_s: input should be less than"),
        ("name: a\nsources: {families: []}", "c.yaml:2: sources.families: tuple should have at least 1 item"),
        ("name: a\nwalk: {strategies: []}", "c.yaml:2: walk.strategies: tuple should have at least 1 item"),
        ("name: a\nfilter: {caps: {loop_split: -1}}", "c.yaml:2: filter.caps.loop_split: input should be greater"),
        (
            "name: a\nsearch: {search: bem}",
            "c.yaml:2: search.search: value error, there is no such search: choose of beam",
        ),
        ("name: a\nsearch:\n  policy: llm", "c.yaml:3: search.policy: value error, there is no such policy that needs"),
        ("name: a\ngrid: {factor: [2]}", "c.yaml:2: grid.factor: unknown key: did you mean 'factors'?"),
        ("name: a\ngrid:\n  factors:\n    - 1", "c.yaml:4: grid.factors.0: input should be greater than or equal to 2"),
        ("name: a\ngrid: {tiles: [8, 4]}", "c.yaml:2: grid.tiles: value error, sizes stand in ascending order"),
        ("name: a\ngrid: {parts: [2, 2]}", "c.yaml:2: grid.parts: value error, sizes stand in ascending order"),
        ("name: a\ngrid: {pads: 4}", "c.yaml:2: grid.pads: input should be a valid tuple, found 4"),
        ("name: a\ngrid: {lanes: 128}", "c.yaml:2: grid.lanes: input should be less than or equal to 64, found 128"),
        ("name: " + "[" * 10_000, "c.yaml: nests too deep"),
        ("name: a\nsources: {families: some}", "c.yaml:2: sources.families: input should be a valid tuple"),
    ],
)
def test_an_error_names_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(text, "c.yaml")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "latin.yaml")


def test_the_hash_follows_what_is_said() -> None:
    assert config_hash(parse_config("name: a")) == config_hash(parse_config("seed: 0\nname: a"))
    assert config_hash(parse_config("name: a")) != config_hash(parse_config("name: a\nseed: 1"))


def test_a_grid_that_is_the_default_changes_no_run() -> None:
    plain, same = parse_config("name: a"), parse_config("name: a\ngrid: {factors: [2, 3, 4, 8, 16, 32, 64]}")
    other = parse_config("name: a\ngrid: {factors: [2, 5], divisors: true}")
    assert deciding(plain) == deciding(same) and "grid" not in deciding(plain)
    assert deciding(other) == {**deciding(plain), "grid": {"factors": [2, 5], "divisors": True}}
    assert config_hash(plain) == config_hash(same) != config_hash(other)
    assert Config.model_validate(deciding(other)).grid == other.grid


BUILDS = [file for file in sorted((Path(__file__).parents[2] / "configs").glob("*.yaml")) if file.name != "search.yaml"]


@pytest.mark.parametrize("file", BUILDS, ids=lambda file: file.name)
def test_the_configurations_of_the_repository_are_read(file: Path) -> None:
    config = load_config(file)
    assert config.name == file.stem
    assert chosen_strategies(config)  # names that nobody has are errors
