"""A published run: the rows that were there, in columns that others read, with a card whose figures are counted."""

import importlib.util
import json
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepTP import pipeline
from stepTP.commands.publishing import push
from stepTP.commands.show import InputError
from stepTP.config import parse_config
from stepTP.manifest import RunError
from stepTP.measurements import MeasureError, Request, measure_run, verified_as
from stepTP.publish import card
from stepTP.publish.card import HISTORY, WHAT
from stepTP.publish.features import columns_of, features_of, row_of
from stepTP.publish.folder import PublishedStep, PublishError, publish
from stepTP.publish.hub import upload
from stepTP.publish.published import identity_of, load_published, measurements_of
from stepTP.records import CONFIGS, SCHEMA_VERSION, TABLES, MeasurementRow, RephrasingRow, StepRow, to_line
from stepTP.stats import run_rows, statistics
from stepTP.verify.measure.speedup import bins_table
from strategies import index
from tests.stepTP.fakes import FakePool
from tests.stepTP.hub import TOKEN, Hub, running
from tests.stepTP.test_measurements import MACHINE, timing
from tests.stepTP.test_migrations import OLD

datasets = pytest.importorskip("datasets", reason="the extra `publish` is not installed")


def measurement(row: StepRow, **changes: Any) -> MeasurementRow:
    """A row of the table of measurements: the program after a step, twice as fast as before it."""
    data: dict[str, Any] = {
        "id": f"m-{row.id}", "source_id": row.source.id, "family": row.source.family, "subject": "program",
        "state_id": row.state_id_after, "parent_state_id": row.state_id_before, "strategy": row.strategy,
        "depth": row.depth, "target": "llvm", "sizes": {}, "measured_state_id": row.state_id_after, "binding": "none",
        "status": "ok", "message": "", "timing": timing(4.0), "roofline": None,
        "speedup_vs_parent": {"ratio": 2.0, "bin": "large-speedup", "within_noise": False},
        "speedup_vs_source": None, "speedup_vs_eager": None, "verification": [], "machine": MACHINE, "clocks": {},
        "tool_versions": {},
    }  # fmt: skip
    return MeasurementRow.model_validate(data | changes)


@pytest.fixture(scope="module")
def steps(small_run: Path) -> list[StepRow]:
    return [row for row in run_rows(small_run, "steps") if isinstance(row, StepRow)]


@pytest.fixture(scope="module")
def published(small_run: Path, steps: list[StepRow], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small run with three measurements, as a dataset."""
    noise = {"speedup_vs_parent": {"ratio": 1.1, "bin": "slight-speedup", "within_noise": True}}
    table = small_run / "measurements.jsonl"
    rows = [measurement(steps[0]), measurement(steps[1], **noise), measurement(steps[2], parent_state_id="another")]
    rows.append(measurement(steps[3], sizes={"rows": 512}))
    table.write_text("".join(map(to_line, rows)))
    folder = tmp_path_factory.mktemp("published") / "small"
    try:
        publish(small_run, folder, "Small")
    finally:
        table.unlink()
    return folder


@pytest.mark.parametrize("config", [*CONFIGS, "measurements"])
def test_rows_come_back(small_run: Path, published: Path, config: str) -> None:
    if config == "measurements":
        assert [row.id for row in measurements_of(published)] != []
        assert measurements_of(small_run) == []
        return
    rows = {row.id: row for row in run_rows(small_run, config)}
    found = list(run_rows(published, config))
    assert len(found) == len(rows)
    assert {row.id: row for row in found} == rows


def test_features_follow_from_the_models() -> None:
    found = features_of(PublishedStep)
    value = datasets.Value
    assert found["schema_version"] == found["depth"] == value("int64")
    assert found["args"] == found["names"] == found["held_out"] == value("string")
    assert found["bit_exact"] == value("bool")
    assert found["path"] == datasets.List({"strategy": value("string"), "args": value("string")})
    assert found["source"]["torch_code"] == value("string")
    assert found["verification"].feature["max_abs"] == value("float64")
    assert found["verification"].feature["inputs"] == datasets.List(value("string"))
    assert found["latency"].feature["median_us"] == value("float64")
    for shape in (*CONFIGS.values(), *TABLES.values()):
        assert list(features_of(shape)) == list(shape.model_fields)


def test_an_old_row_in_columns_is_read() -> None:
    old = json.loads(OLD.read_text().splitlines()[0])
    kept_as_text = ("args", "names", "tool_versions")
    columns = {name: json.dumps(value) if name in kept_as_text else value for name, value in old.items()}
    columns["path"] = [{**step, "args": json.dumps(step["args"])} for step in old["path"]]
    assert row_of(StepRow, columns).schema_version == SCHEMA_VERSION


def test_latencies_are_joined_to_their_steps(published: Path, steps: list[StepRow]) -> None:
    from pyarrow import parquet

    rows = [row for file in sorted(published.glob("steps/*.parquet")) for row in parquet.read_table(file).to_pylist()]
    latency = {row["id"]: row["latency"] for row in rows}
    (first,), (second,), (third,) = (latency[row.id] for row in steps[:3])
    assert (first["median_us"], first["speedup_vs_parent"], first["bin"]) == (4.0, 2.0, "large-speedup")
    assert (second["speedup_vs_parent"], second["bin"]) == (1.1, None)  # within noise
    assert (third["median_us"], third["speedup_vs_parent"], third["bin"]) == (4.0, None, None)  # of another parent
    timed = {(row.source.id, row.state_id_after) for row in steps[:3]}
    others = [row for row in steps[3:] if (row.source.id, row.state_id_after) not in timed]
    assert others
    assert not any(latency[row.id] for row in others)  # of other sizes, or not measured


def test_the_card_tells_what_is_there(small_run: Path, published: Path, steps: list[StepRow]) -> None:
    text = (published / "README.md").read_text()
    _, header, body = text.split("---\n", 2)
    data, manifest = yaml.safe_load(header), load_published(published)
    assert data["license"] == "apache-2.0"
    assert [config["config_name"] for config in data["configs"]] == list(manifest.rows)
    for config in data["configs"]:
        for entry in config["data_files"]:
            assert list(published.glob(entry["path"]))
    for info in data["dataset_info"]:
        counted = {split["name"]: split["num_examples"] for split in info["splits"]}
        assert counted == manifest.rows[info["config_name"]]
        size = sum(f.bytes for name, f in manifest.files.items() if name.startswith(f"{info['config_name']}/"))
        assert info["download_size"] == size
    found = statistics(small_run)
    for name, counts in found["strategies"].items():
        assert re.search(rf"\| `{name}` \| \w+ \| {counts['rows']} \| {counts['share']:.1%} \|", body)
    assert bins_table() in body
    assert f"{len(steps):,} steps by {len(found['strategies'])} strategies" in body
    identity = identity_of(published)
    assert identity == identity_of(small_run)
    for part in (identity.code_version, identity.config_hash[:12], "torch", "## Limits", "## Changelog", "a test"):
        assert part in body
    assert max(HISTORY) == SCHEMA_VERSION
    assert set(WHAT) == {*CONFIGS, *TABLES}
    assert "None" not in body
    assert not re.search(r"[{}]\w*\(", body.split("```")[0])


def test_the_card_says_which_strategies_are_of_other_packages(
    small_run: Path, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Other packages" not in (published / "README.md").read_text()
    own = index.level_of
    monkeypatch.setattr(card, "level_of", lambda name: None if name == "loop_split" else own(name))
    publish(small_run, tmp_path / "published", "Small")
    assert (
        "definitions are stepTP's own. Other packages add `loop_split`. The"
        in (tmp_path / "published" / "README.md").read_text()
    )


def test_rephrasings_that_failed_a_check_stay_at_home(small_run: Path, steps: list[StepRow], tmp_path: Path) -> None:
    row = RephrasingRow(
        id="r-0", step=steps[0].id, model="teacher", prompt="0" * 64, attempts=1, status="ok", message="",
        text="Other words.", prompt_tokens=None, completion_tokens=None,
    )  # fmt: skip
    refused = {"id": "r-1", "step": steps[1].id, "status": "refused", "message": "names what is not there"}
    failed = {"id": "r-2", "step": steps[2].id, "status": "failed", "message": "no answer", "text": ""}
    table = small_run / "rephrasings.jsonl"
    table.write_text("".join(map(to_line, (row.model_copy(update=refused), row, row.model_copy(update=failed)))))
    try:
        publish(small_run, tmp_path / "small", "Small")
    finally:
        table.unlink()
    (part,) = datasets.load_dataset(str(tmp_path / "small"), "rephrasings", cache_dir=str(tmp_path / "cache")).values()
    assert [row_of(RephrasingRow, line) for line in part] == [row]


def test_the_manifest_knows_every_file(published: Path) -> None:
    import hashlib

    manifest = load_published(published)
    files = {f.relative_to(published).as_posix() for f in published.rglob("*") if f.is_file()}
    assert files == {*manifest.files, "manifest.json"}
    for name, file in manifest.files.items():
        data = (published / name).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (file.sha256, file.bytes)
    assert manifest.devices == ("a test",)


def test_a_damaged_file_is_told(published: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(published, copy)
    file = next(copy.glob("steps/train-*.parquet"))
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    with pytest.raises(RunError, match=r"train-00000-of-00001.parquet: missing or damaged"):
        list(run_rows(copy, "steps"))


def test_publishing_again_gives_the_same_bytes_and_leaves_nothing(small_run: Path, tmp_path: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {str(f.relative_to(tmp_path)): f.read_bytes() for f in sorted(tmp_path.rglob("*")) if f.is_file()}

    publish(small_run, tmp_path / "d", "d")
    first = contents()
    (tmp_path / "d" / "steps" / "train-00001-of-00002.parquet").write_bytes(b"of an earlier version")
    (tmp_path / "d" / "manifest.json.tmp").write_bytes(b"killed here")
    publish(small_run, tmp_path / "d", "d")
    assert {name: data for name, data in contents().items() if not name.endswith(".tmp")} == first


def test_the_users_files_are_left_alone(small_run: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(PublishError, match="holds files that are no published dataset"):
        publish(small_run, tmp_path, "d")
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in of the hub that the client is pointed at; its other protocol for large files needs a server apart."""
    from huggingface_hub import constants

    with running() as found:
        monkeypatch.setattr(constants, "ENDPOINT", found.address)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield found


@pytest.mark.filterwarnings("default")
def test_the_hub_gets_the_folder_in_one_commit(published: Path, hub: Hub) -> None:
    address = upload(published, "tester/small", private=True)
    assert address == f"{hub.address}/datasets/tester/small"
    repository = hub.repositories["tester/small"]
    files = {f.relative_to(published).as_posix(): f.read_bytes() for f in published.rglob("*") if f.is_file()}
    assert {name: data for name, data in repository.files.items() if name != ".gitattributes"} == files
    assert repository.private
    assert len(repository.commits) == 1
    repository.files["steps/train-00007-of-00008.parquet"] = b"of an earlier version"
    upload(published, "tester/small")
    assert "steps/train-00007-of-00008.parquet" not in repository.files


@pytest.mark.filterwarnings("default")
def test_what_the_hub_refuses_is_told(published: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.refuse = 403
    with pytest.raises(PublishError, match=r"tester/small: the hub refused it: .*403.*: log in with a token"):
        upload(published, "tester/small")
    with pytest.raises(PublishError, match=r"a/b/c: .*: name it OWNER/NAME"):
        upload(published, "a/b/c")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(PublishError, match=r"401.*: log in with a token"):
        upload(published, "tester/other")


@pytest.mark.filterwarnings("default")
def test_the_hub_gets_what_was_published_and_nothing_beside_it(published: Path, tmp_path: Path, hub: Hub) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(published, copy)
    (copy / "export" / "sft").mkdir(parents=True)
    (copy / "export" / "sft" / "train.jsonl").write_text("{}")
    (copy / "notes.txt").write_text("mine")
    upload(copy, "tester/small")
    assert set(hub.repositories["tester/small"].files) - {".gitattributes"} == {
        "manifest.json", *load_published(published).files
    }  # fmt: skip
    (copy / "schema.json").write_text("{}")
    with pytest.raises(PublishError, match=r"schema.json: missing or damaged: publish the run again"):
        upload(copy, "tester/other")
    assert set(hub.repositories) == {"tester/small"}


def test_a_hub_that_is_not_there_is_told(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        with pytest.raises(PublishError, match=r"tester/small: .*refused: check the network, and HF_ENDPOINT"):
            upload(published, "tester/small")


@pytest.mark.parametrize("package", ["datasets", "pyarrow", "huggingface_hub"])
def test_a_package_that_is_missing_is_told(
    published: Path, small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(PublishError, match=rf"{package} is not installed: pip install 'steptp\[publish\]'"):
        if package == "huggingface_hub":
            upload(published, "tester/small")
        else:
            publish(small_run, tmp_path / "d", "d")
    assert not (tmp_path / "d").exists()


def test_a_run_without_steps_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "Pool", FakePool)
    nothing = parse_config(
        "name: none\nsources: {families: [mlp], per_family: 1}\nwalk: {strategies: [apart]}\ntokens: false\n"
    )
    pipeline.build(nothing, tmp_path / "run", workers=1)
    with pytest.raises(PublishError, match=r"run: holds no steps: see why in its rejected.jsonl"):
        publish(tmp_path / "run", tmp_path / "d", "d")
    assert not (tmp_path / "d").exists()


def test_a_published_folder_is_measured_into_a_table_apart(published: Path) -> None:
    with pytest.raises(MeasureError, match="name a file for the table with --table"):
        measure_run(published, Request("llvm"))
    assert verified_as(published, Request("llvm")).seed == identity_of(published).seed


def test_push_says_where_to(
    small_run: Path, published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push(small_run, dry_run=tmp_path / "d", json=True)
    assert json.loads(capsys.readouterr().out) == {
        "where": str(tmp_path / "d"), "rows": load_published(tmp_path / "d").rows
    }  # fmt: skip
    assert load_published(tmp_path / "d").name == "small"
    with pytest.raises(InputError, match="give either OWNER/NAME or --dry-run"):
        push(small_run)
    with pytest.raises(InputError, match="is a published dataset already"):
        push(published, dry_run=tmp_path / "e")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_datasets_loads_every_config(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    rows = load_published(published).rows
    assert datasets.get_dataset_config_names(str(published)) == list(rows)
    assert datasets.get_dataset_default_config_name(str(published)) == "steps"
    for config, counts in rows.items():
        found = datasets.load_dataset(str(published), config, cache_dir=str(tmp_path))
        assert {split: len(part) for split, part in found.items()} == counts
        streamed = datasets.load_dataset(str(published), config, streaming=True)
        for split, part in found.items():
            assert part.features == features_of(PublishedStep if config == "steps" else {**CONFIGS, **TABLES}[config])
            assert list(streamed[split]) == list(part)


def test_nothing_is_lost_on_the_way_to_columns(small_run: Path) -> None:
    assert pipeline.CONFIGS is CONFIGS
    for config, shape in CONFIGS.items():
        for row in run_rows(small_run, config):
            assert row_of(shape, columns_of(row)) == row
