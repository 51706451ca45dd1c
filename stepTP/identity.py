"""What a run was made with: code, catalog and tools, read without importing them."""

import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import leir
import stepTP
import strategies
from stepTP import sources
from stepTP.config import Config, config_hash, deciding
from stepTP.given.files import digest_of
from stepTP.manifest import Identity
from strategies import index

TOOLS = ("apache-tvm", "apache-tvm-ffi", "dashscope", "islpy", "lark", "numpy", "tiktoken", "torch")


def identity(config: Config) -> Identity:
    """Everything that decides the bytes of a run."""
    asked = deciding(config)
    for folder in asked["sources"]["folders"]:  # what is in it counts, not where it lies
        folder["files"] = digest_of(Path(folder.pop("path")))
    return Identity(
        config=asked,
        config_hash=config_hash(config, asked),
        catalog_hash=catalog_hash(),
        code_version=code_version(),
        tool_versions=tool_versions(),
        seed=config.seed,
    )


@cache
def tool_versions() -> dict[str, str]:
    """The installed versions of the libraries that results depend on; "absent" for one that is not installed."""
    return {name: _version(name) for name in TOOLS}


def code_version() -> str:
    """The package's version and a digest of its sources, so that an edited checkout tells itself apart.

    The sources of packages that add strategies or families count as its own.
    """
    own = (_folder(package) for package in (leir, strategies, stepTP))
    others = _sources_of((*index.outside().values(), *sources.outside().values()))
    return f"{_version('steptp')}+{_digest(*own, *others)[:12]}"


def catalog_hash() -> str:
    """SHA-256 over the sources of the strategies and of the language that they rewrite."""
    return _digest(_folder(leir), _folder(strategies), *_sources_of(index.outside().values()))


@cache
def verification_identity(targets: tuple[str, ...]) -> dict[str, object]:
    """What decides a verdict besides the programs and the draws: code, tools, and the machine that computes."""
    package = _folder(stepTP)
    cuda = "cuda" in targets
    return {
        "code": _digest(_folder(leir), package / "verify", package / "frontend"),
        "tools": {"python": platform.python_version(), **tool_versions()},
        "processor": _lines("/proc/cpuinfo", "model name", "flags") or [platform.machine(), platform.processor()],
        "libc": platform.libc_ver(),
        "driver": _lines("/proc/driver/nvidia/version", "") if cuda else [],
        "gpus": _lines_of_gpus() if cuda else [],
    }


def _lines(file: str, *starts: str) -> list[str]:
    """The first line of a file of the system with each start; none where there is no such file."""
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [found for start in starts if (found := next((line for line in lines if line.startswith(start)), ""))]


def _lines_of_gpus() -> list[str]:
    files = sorted(str(file) for file in Path("/proc/driver/nvidia/gpus").glob("*/information"))
    return [line for file in files for line in _lines(file, "Model")]


def _folder(package: object) -> Path:
    return Path(str(getattr(package, "__file__", ""))).parent


def _sources_of(points: Iterable[EntryPoint]) -> list[Path]:
    """The folders, or single files, of the packages that entry points name, sorted by name; nothing is imported."""
    specs = (find_spec(name) for name in sorted({point.module.partition(".")[0] for point in points}))
    return [
        Path(place)
        for spec in specs
        if spec is not None
        for place in spec.submodule_search_locations or (str(spec.origin),)
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _digest(*folders: Path) -> str:
    state = hashlib.sha256()
    for folder in folders:
        for file in [folder] if folder.is_file() else sorted((*folder.rglob("*.py"), *folder.rglob("*.lark"))):
            name = f"{folder.name}/{file.relative_to(folder).as_posix()}"
            state.update(f"{name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()
