"""A GPU's faults cost one job: a broken context ends its worker, and no other job."""

from pathlib import Path

import pytest

from stepTP.verify.devices import cuda_devices
from stepTP.verify.pool import Failure, Pool

pytestmark = pytest.mark.gpu
FAULTS = "tests.stepTP.gpu_faults."
BROKEN = {
    "wild": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "misaligned": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "trap": "CUDA_ERROR_LAUNCH_FAILED",
}


@pytest.fixture(scope="module")
def pool():
    with Pool(workers=1, timeout_s=10.0, gpus=cuda_devices()[:1]) as pool:
        yield pool


def ask(pool: Pool, name: str, **payload: object) -> object:
    return pool.submit(FAULTS + name, payload).result(timeout=120)


@pytest.mark.parametrize("kernel", BROKEN)
def test_a_broken_context_costs_its_job_only(pool: Pool, kernel: str) -> None:
    assert ask(pool, "run", kernel="fine") == 42
    failure = ask(pool, "run", kernel=kernel)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.cause) == ("device", BROKEN[kernel])
    assert ask(pool, "run", kernel="fine") == 42


def test_a_context_that_broke_in_silence_is_noticed(pool: Pool) -> None:
    failure = ask(pool, "swallow")
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.cause) == ("device", BROKEN["wild"])


def test_the_culprit_of_a_batch_is_known(pool: Pool) -> None:
    kernels = ["fine", "fine", "wild", "fine", "trap", "fine", "misaligned", "fine"]
    answers = [f.result(timeout=120) for f in pool.submit_batch(FAULTS + "run_each", {}, kernels)]
    for kernel, answer in zip(kernels, answers, strict=True):
        if kernel == "fine":
            assert answer == 42
        else:
            assert isinstance(answer, Failure)
            assert (answer.kind, answer.cause) == ("device", BROKEN[kernel])


def test_a_kernel_that_never_ends_costs_its_time(pool: Pool) -> None:
    failure = ask(pool, "run", kernel="spin")
    assert isinstance(failure, Failure)
    assert failure.kind == "timeout"
    assert ask(pool, "run", kernel="fine") == 42


def test_memory_that_the_gpu_has_not(pool: Pool) -> None:
    failure = ask(pool, "allocate")
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.cause) == ("memory", "an allocation on the GPU failed")
    assert ask(pool, "run", kernel="fine") == 42


def test_each_worker_has_one_gpu_and_the_parent_none() -> None:
    gpus = cuda_devices()
    workers = 2 * len(gpus)
    with Pool(workers=workers, gpus=gpus) as pool:
        asked = [pool.submit(FAULTS + "place", {}) for _ in range(20 * workers)]
        seen = {process: (gpu, value) for process, gpu, value in (future.result(timeout=120) for future in asked)}
    assert {gpu for gpu, _ in seen.values()} == set(gpus)
    assert {value for _, value in seen.values()} == {42}
    assert "libcuda" not in Path("/proc/self/maps").read_text()
