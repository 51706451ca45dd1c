"""The programs of `benchmarks/kernels`: the list that was fixed first has a file a task, and they translate."""

import re
from pathlib import Path

import pytest

from stepTP.intake import translate

PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "kernels"
FILES = sorted(file.relative_to(PROGRAMS).as_posix() for file in PROGRAMS.rglob("*.py"))
SAMPLE = (
    "level1/002_standard_matrix_multiplication.py",
    "level1/033_batchnorm.py",
    "level1/051_argmax_over_a_dimension.py",
    "level1/057_conv_transposed_2d_square_input_square_kernel.py",
    "level1/091_cumsum_reverse.py",
    "level2/001_conv2d_relu_biasadd.py",
    "level2/041_gemm_batchnorm_gelu_groupnorm_mean_relu.py",
    "level3/001_mlp.py",
    "level3/039_gru.py",
    "level3/043_mingptcausalattention.py",
)


def test_every_task_has_one_file() -> None:
    tasks: list[str] = []
    level = ""
    for line in (PROGRAMS / "TASKS.md").read_text().splitlines():
        if found := re.match(r"## Level (\d)", line):
            level = found[1]
        elif found := re.match(r"(\d+)\. (.*)", line):
            words = re.sub(r"[^a-z0-9]+", "_", found[2].lower()).strip("_")
            tasks.append(f"level{level}/{int(found[1]):03}_{words}.py")
    assert sorted(tasks) == FILES and len(FILES) == 251


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_is_verified(name: str) -> None:
    report = translate({"code": (PROGRAMS / name).read_text(), "file": name, "fit": 30_000})
    assert report["status"] == "verified", report["message"]
    assert report["iterations"] <= 30_000 and report["max_abs_error"] < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_no_translation_is_wrong(name: str) -> None:
    """What is not verified is refused by name; `scripts/coverage.py` counts both."""
    for limit in (200_000, 4_000_000, 20_000_000):
        report = translate({"code": (PROGRAMS / name).read_text(), "file": name, "fit": limit})
        if report["status"] in ("verified", "unsupported", "mismatch"):
            break
    assert report["status"] == "verified" or report["cause"] == "unsupported-op"
