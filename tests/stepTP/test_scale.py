"""A build by ranks, whatever runs them, holds the bytes of one without, and no rank is in the way of another."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stepTP import pipeline, scale
from stepTP.identity import identity
from stepTP.manifest import RunError, load_manifest, locked, open_rank, open_run
from stepTP.scale import NoExecutor, Ranks, launch
from tests.stepTP.fakes import FakePool
from tests.stepTP.ranks import Broken, FakeShards
from tests.stepTP.test_build import CONFIG, contents

pytestmark = pytest.mark.filterwarnings("ignore")  # of datatrove's and Ray's own code

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "Pool", FakePool)
    monkeypatch.setattr(scale, "MakeShards", FakeShards)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("plain") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Pool", FakePool)
        pipeline.build(CONFIG, folder, workers=2)
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if not name.startswith(scale.LOGS)}


def rank(folder: Path, number: int, of: int) -> None:
    pipeline.build_rank(CONFIG, folder, number, of)


def test_ranks_make_what_one_build_makes(built: dict[str, bytes], tmp_path: Path) -> None:
    """Ranks in any order, some twice, and gathered half way; then a plain build has nothing left to make."""
    folder = tmp_path / "run"
    with open_run(folder, identity(CONFIG)) as run:
        run.plan(4)
    rank(folder, 2, 3)
    with open_run(folder, identity(CONFIG)) as run:
        run.gather()
        assert list(run.manifest.shards) == ["raw/00002.jsonl"]
    rank(folder, 0, 3)
    times = [file.stat().st_mtime_ns for file in (folder / "raw").glob("*.jsonl")]
    rank(folder, 0, 3)
    assert [file.stat().st_mtime_ns for file in (folder / "raw").glob("*.jsonl")] == times
    rank(folder, 1, 3)
    assert pipeline.build(CONFIG, folder).shards_made == 0
    assert files(folder) == built


def test_a_rank_that_stopped_half_way_is_made_up_for(built: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with open_run(folder, identity(CONFIG)) as run:
        run.plan(4)
    rank(folder, 0, 2)
    (folder / "raw/00002.jsonl.entry").unlink()  # killed before it recorded the shard
    (folder / "raw/00001.jsonl.tmp").write_text("half")
    assert pipeline.build(CONFIG, folder).shards_made == 3
    assert files(folder) == built


def test_two_ranks_on_one_shard(tmp_path: Path) -> None:
    folder, other = tmp_path / "run", identity(CONFIG.model_copy(update={"seed": 4}))
    with open_run(folder, identity(CONFIG)) as run:
        run.plan(4)
    with locked(folder / "raw", ".00001.jsonl.lock"):
        rank(folder, 0, 2)
        with pytest.raises(RunError, match="another build or measurement runs there"):
            rank(folder, 1, 2)
        with pytest.raises(RunError, match="another build or measurement runs there"):
            pipeline.build(CONFIG, folder)
    with pytest.raises(RunError, match="seed: 3, now 4"), open_rank(folder, other, []):
        pass


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoExecutor, match="slurm needs a partition"):
        launch(CONFIG, tmp_path / "run", "slurm", Ranks(2))
    monkeypatch.setattr(scale.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NoExecutor, match=r"datatrove is not installed: pip install 'steptp\[scale\]'"):
        launch(CONFIG, tmp_path / "run", "local", Ranks(2))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2])
def test_the_local_executor(built: dict[str, bytes], tmp_path: Path, at_once: int) -> None:
    pytest.importorskip("datatrove")
    report = launch(CONFIG, tmp_path / "run", "local", Ranks(3, at_once))
    assert report is not None and report.second_pass
    assert files(tmp_path / "run") == built
    (tmp_path / "run/raw/00001.jsonl").unlink()  # datatrove's marks of completion are not believed
    launch(CONFIG, tmp_path / "run", "local", Ranks(3, at_once))
    assert files(tmp_path / "run") == built


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_build_and_loses_nothing(
    built: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datatrove")
    monkeypatch.setattr(scale, "MakeShards", Broken)
    with pytest.raises(OSError, match="No space left"):
        launch(CONFIG, tmp_path / "run", "local", Ranks(2, 1))
    monkeypatch.setattr(scale, "MakeShards", FakeShards)
    assert launch(CONFIG, tmp_path / "run", "local", Ranks(2, 1)) is not None
    assert files(tmp_path / "run") == built


@pytest.mark.slow
def test_ray_on_one_machine(built: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks at once, in worker processes of a Ray that starts and ends here."""
    pytest.importorskip("datatrove")
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        assert launch(CONFIG, tmp_path / "run", "ray", Ranks(4, at_once=2, memory_gb=1)) is not None
    finally:
        ray.shutdown()
    assert files(tmp_path / "run") == built
    assert len(list((tmp_path / "run" / scale.LOGS / "completions").iterdir())) == 4


SBATCH = """#!{python}
# Runs the jobs of an array one after the other, as Slurm would, and says the job's number.
import os, re, subprocess, sys
script = sys.argv[-1]
text = open(script).read()
array = re.search(r"--array=(\\d+)-(\\d+)", text)
if "merge_stats" not in text:
    for number in range(int(array[1]), int(array[2]) + 1):
        environment = {{**os.environ, "SLURM_ARRAY_TASK_ID": str(number), "RUN_OFFSET": "0", "SLURM_JOB_ID": "7",
                       "SLURM_NODELIST": "here"}}
        subprocess.run(["bash", script], env=environment, check=True, stdout=subprocess.DEVNULL)
print("Submitted batch job 7")
"""
SRUN = """#!/bin/bash
while [[ "$1" == -* ]]; do if [[ "$1" == -n ]]; then shift; fi; shift; done
exec "$@"
"""
SCONTROL = "#!/bin/bash\necho here\n"


@pytest.mark.slow
def test_slurm_gets_the_ranks_and_then_a_job_that_finishes(
    built: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sbatch` and `srun` are stand-ins that run the scripts at once; the scripts are datatrove's."""
    pytest.importorskip("datatrove")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH.format(python=sys.executable)), ("srun", SRUN), ("scontrol", SCONTROL)):
        (programs / name).write_text(text)
        (programs / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script = "import sys; from tests.stepTP.ranks import queue; queue(*sys.argv[1:])"
    command = [sys.executable, "-c", script, CONFIG.model_dump_json(), str(tmp_path / "run")]
    subprocess.run(command, check=True, cwd=ROOT)
    assert load_manifest(tmp_path / "run").planned == 4
    assert files(tmp_path / "run") == built
