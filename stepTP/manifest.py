"""The folder of a run: shards that are whole or absent, and the manifest that says what they are.

    RUN/manifest.json        what was asked, with what code and tools, and every finished file with its SHA-256
    RUN/raw/00000.jsonl      all rows of a few sources
    RUN/steps.jsonl, ...     what the second pass made of them
    RUN/measurements.jsonl   how long its programs take; see `stepTP.measurements`
    RUN/raw/*.entry, .*.lock of ranks at work (`stepTP.scale`), until they are gathered
    RUN/.lock                held while one process works there; the system lets go of it however the process ends

A file is written under a temporary name, synced, renamed, and only then recorded. Nothing in the folder tells when or
where it was made: a build that was killed and started again leaves the same bytes as one that was not.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MANIFEST = "manifest.json"
Result = TypeVar("Result")


class RunError(ValueError):
    """A run's folder cannot be used as asked; the message says what to do."""


class Identity(BaseModel):
    """What decides the bytes of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    config: dict[str, Any]
    config_hash: str
    catalog_hash: str
    code_version: str
    tool_versions: dict[str, str]
    seed: int


class Entry(BaseModel):
    """A finished file. `counts`: rows by config; `rejected`: by "stage: cause"; `refused`: by "strategy: fact"."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sha256: str
    bytes: int
    counts: dict[str, int]
    rejected: dict[str, int] = {}
    refused: dict[str, int] = {}
    sources: tuple[str, ...] = ()
    made_from: str = ""  # of an output of the second pass: SHA-256 over the raw shards' own


class Manifest(BaseModel):
    """The state of a run. `shards`: every raw shard of the plan that is done; `outputs`: the second pass's files."""

    model_config = ConfigDict(extra="forbid")
    manifest_version: Literal[1] = 1
    identity: Identity
    planned: int | None = Field(default=None, ge=0)  # raw shards in all
    shards: dict[str, Entry] = {}
    outputs: dict[str, Entry] = {}


class Run:
    """An open run, locked for this process. Its methods may be called from several threads."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._writing = threading.Lock()

    def plan(self, shards: int) -> None:
        """Notes how many raw shards there will be."""
        if self.manifest.planned != shards:
            self.manifest.planned = shards
            self._save()

    def has(self, name: str) -> bool:
        """Whether a file is recorded and its bytes are what was recorded."""
        entry = self._entry(name)
        return entry is not None and intact(self.folder / name, entry)

    def write(self, name: str, lines: Iterable[str], entry: dict[str, Any]) -> Entry:
        """Writes a file whole, then records it. A shard that was recorded before must come out the same.

        Raises RunError where it does not, and OSError where the disk does not take it; the folder is as before then.
        """
        with self.writing(name) as file:
            for line in lines:
                file.add(line)
            return file.finish(entry)

    @contextmanager
    def writing(self, name: str) -> "Iterator[Writing]":
        """A file that comes a line at a time; what is not finished is not there. Raises as `write`."""
        file = Writing(self, name)
        try:
            yield file
        finally:
            file.discard()

    def record(self, name: str, made: Entry) -> None:
        """Notes a file that is there."""
        with self._writing:
            (self.manifest.shards if name.startswith("raw/") else self.manifest.outputs)[name] = made
            self._save()

    def require_same(self, name: str, made: Entry) -> None:
        """Raises RunError where a raw shard that is recorded was made again to other bytes."""
        recorded = self._entry(name)
        if recorded is not None and name.startswith("raw/") and recorded.sha256 != made.sha256:
            raise RunError(
                f"{self.folder / name}: rebuilt to other bytes ({made.sha256[:12]}, recorded {recorded.sha256[:12]}): "
                "machine or libraries differ from when it was made; build into a new folder"
            )

    def forget(self, name: str) -> None:
        """Lets a raw shard be made anew to other bytes."""
        with self._writing:
            if self.manifest.shards.pop(name, None) is not None:
                self._save()

    def raw_digest(self) -> str:
        """SHA-256 over the names and digests of all raw shards."""
        lines = (f"{name} {entry.sha256}\n" for name, entry in sorted(self.manifest.shards.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def gather(self) -> None:
        """Takes what ranks recorded beside their shards into the manifest. Raises RunError where ranks are at work."""
        for file in sorted((self.folder / "raw").glob(".*.lock")):
            with locked(file.parent, file.name):
                file.unlink()
        beside = sorted((self.folder / "raw").glob("*.entry"))
        for file in beside:
            self.manifest.shards[f"raw/{file.stem}"] = _read_entry(file)
        if beside:
            self._save()
        for file in beside:
            file.unlink()

    def _entry(self, name: str) -> Entry | None:
        return self.manifest.shards.get(name) or self.manifest.outputs.get(name)

    def _save(self) -> None:
        self.manifest.shards = dict(sorted(self.manifest.shards.items()))
        self.manifest.outputs = dict(sorted(self.manifest.outputs.items()))
        write_whole(self.folder / MANIFEST, self.manifest.model_dump_json(indent=1).encode() + b"\n")


class RankRun(Run):
    """A run as one of many ranks sees it: what it makes is recorded beside each shard, and gathered later."""

    def record(self, name: str, made: Entry) -> None:
        write_whole(_beside(self.folder, name), made.model_dump_json().encode())

    def _entry(self, name: str) -> Entry | None:
        file = _beside(self.folder, name)
        return _read_entry(file) if file.exists() else super()._entry(name)


class Writing:
    """A file of a run that is being written, under a temporary name."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name, self.file = run, name, run.folder / name
        self.temporary = self.file.with_name(self.file.name + ".tmp")
        self.digest, self.bytes = hashlib.sha256(), 0
        self._content = _telling(self.file, lambda: self.temporary.open("wb"))

    def add(self, line: str) -> None:
        data = line.encode()
        self.digest.update(data)
        self.bytes += len(data)
        _telling(self.file, lambda: self._content.write(data))

    def finish(self, entry: dict[str, Any]) -> Entry:
        """Puts the file in its place, and records it."""
        made = Entry(sha256=self.digest.hexdigest(), bytes=self.bytes, **entry)
        self.run.require_same(self.name, made)

        def settle() -> None:
            self._content.flush()
            os.fsync(self._content.fileno())
            self._content.close()
            self.temporary.replace(self.file)
            _sync_folder(self.file.parent)

        _telling(self.file, settle)
        self.run.record(self.name, made)
        return made

    def discard(self) -> None:
        """Forgets what is not finished."""
        with contextlib.suppress(OSError):  # a full disk may refuse what is buffered still
            self._content.close()
        with contextlib.suppress(OSError):
            self.temporary.unlink(missing_ok=True)


@contextmanager
def open_run(folder: Path, identity: Identity) -> Iterator[Run]:
    """The run in `folder`, begun or continued, locked until the end of the `with`.

    Raises RunError where another process builds there, or the folder was begun with another configuration or code.
    """
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder}: is a file: name a folder with --out")
    begun = (folder / MANIFEST).exists()
    if not begun and folder.is_dir() and any(_foreign(p) for p in folder.iterdir()):
        raise RunError(f"{folder}: holds files but no {MANIFEST}: name an empty or a new folder with --out")
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    with locked(folder):
        for left in (*folder.glob("*.tmp"), *folder.glob("raw/*.tmp")):  # of a build that was killed
            left.unlink()
        if begun:
            manifest = load_manifest(folder)
            _require_same(folder, manifest.identity, identity)
            run = Run(folder, manifest)
        else:
            run = Run(folder, Manifest(identity=identity))
            run._save()
        yield run


@contextmanager
def open_rank(folder: Path, identity: Identity, shards: Sequence[str]) -> Iterator[RankRun]:
    """A begun run, for one rank: some shards are its own until the end of the `with`.

    Raises RunError where another rank makes one of them, or the run was begun with other code or configuration.
    """
    manifest = load_manifest(folder)
    _require_same(folder, manifest.identity, identity)
    with ExitStack() as stack:
        for name in shards:
            stack.enter_context(locked(folder / "raw", f".{Path(name).name}.lock"))
        yield RankRun(folder, manifest)


@contextmanager
def locked(folder: Path, name: str = ".lock") -> Iterator[None]:
    """The folder for this process alone, until the end of the `with`. Raises RunError where another has it."""
    with (folder / name).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{folder}: another build or measurement runs there: wait for its end, or name another folder"
            ) from None
        yield


def _beside(folder: Path, name: str) -> Path:
    """Where a rank records a shard: it has the shard's name, as `Run.gather` reads it back."""
    return folder / f"{name}.entry"


def _read_entry(file: Path) -> Entry:
    try:
        return Entry.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError:
        raise RunError(f"{file}: damaged: remove it, and run the same build again") from None


def is_published(folder: Path) -> bool:
    """Whether a folder is a published one, rather than a run."""
    try:
        return "published_version" in json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False


def load_manifest(folder: Path) -> Manifest:
    """The manifest of a run's folder. Raises RunError where there is none that can be read."""
    file = folder / MANIFEST
    try:
        return Manifest.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder}: no {MANIFEST} there: give the folder of a run, like runs/quickstart") from None
    except NotADirectoryError:
        raise RunError(f"{folder}: is a file: give the folder of a run, like runs/quickstart") from None
    except (ValidationError, UnicodeDecodeError):
        if is_published(folder):
            raise RunError(f"{folder}: is a published folder: give that of the build itself") from None
        raise RunError(f"{file}: damaged or of another version: build into a new folder") from None


def intact(file: Path, entry: Entry) -> bool:
    """Whether a file is there and holds the recorded bytes."""
    try:
        if file.stat().st_size != entry.bytes:
            return False
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == entry.sha256
    except FileNotFoundError:
        return False


def write_whole(file: Path, data: bytes) -> None:
    """All of the data under that name, or nothing: temporary name, sync, rename, sync of the folder."""
    temporary = file.with_name(file.name + ".tmp")

    def settle() -> None:
        with temporary.open("wb") as content:
            content.write(data)
            content.flush()
            os.fsync(content.fileno())
        temporary.replace(file)
        _sync_folder(file.parent)

    try:
        _telling(file, settle)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _telling(file: Path, act: Callable[[], Result]) -> Result:
    """What `act` gives; an error of the system names the file that was to be written."""
    try:
        return act()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_same(folder: Path, begun: Identity, asked: Identity) -> None:
    """The folder was begun with the configuration, catalog, code and tools of now."""
    if begun == asked:
        return
    if begun.config != asked.config:
        keys = changes(begun.config, asked.config)
        raise RunError(
            f"{folder}: begun with another configuration ({keys}): undo the change, or name a new folder with --out"
        )
    if begun.tool_versions != asked.tool_versions:
        keys = ", ".join(
            f"{name} {begun.tool_versions.get(name)}, now {asked.tool_versions.get(name)}"
            for name in sorted({*begun.tool_versions, *asked.tool_versions})
            if begun.tool_versions.get(name) != asked.tool_versions.get(name)
        )
        raise RunError(
            f"{folder}: begun with other tools ({keys}): install those again, or name a new folder with --out"
        )
    raise RunError(
        f"{folder}: begun with other code ({begun.code_version}, now {asked.code_version}): check that code out again, "
        "or name a new folder with --out"
    )


def changes(begun: dict[str, Any], asked: dict[str, Any]) -> str:
    """What was asked for otherwise, in words; empty where nothing was."""
    return ", ".join(f"{key}: {old!r}, now {new!r}" for key, old, new in differences(begun, asked))


def differences(one: Any, other: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The innermost entries in which two trees of data differ: the keys, dotted, and both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key), other.get(key), f"{name}.{key}" if name else str(key))
    elif one != other:
        yield name, one, other


def _foreign(file: Path) -> bool:
    """Whether a file is none that a build killed in its first moment leaves."""
    return file.name not in (".lock", "raw") and file.suffix != ".tmp"
