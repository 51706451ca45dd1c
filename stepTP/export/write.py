"""The files of an export.

OUT/train.jsonl, validation.jsonl, test.jsonl    the examples; a split without any has no file
OUT/schema.json                                  the JSON schema of an example
OUT/dataset_info.json                            for LLaMA-Factory, with the format sharegpt
OUT/export.json                                  what was asked, of which run, and the files with their SHA-256
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from stepTP.export.formats import FORMATS, FormatName, Rows, Wanted, programs_in
from stepTP.export.programs import spelled
from stepTP.export.shapes import to_line
from stepTP.export.tools import problems_of
from stepTP.manifest import MANIFEST, write_whole
from stepTP.publish.published import identity_of
from stepTP.records import ProgramRow, RefusalRow, Split, StepRow, TrajectoryRow
from stepTP.second_pass import unfiltered
from stepTP.stats import run_rows

SUMMARY = "export.json"
SPLITS: tuple[Split, ...] = get_args(Split)
_OWN = (*(f"{split}.jsonl" for split in SPLITS), "schema.json", "dataset_info.json", SUMMARY)


class ExportError(ValueError):
    """An export cannot be made as asked; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Where an export lies, and its examples by split."""

    folder: Path
    examples: dict[str, int]


def export_run(run: Path, name: FormatName, wanted: Wanted, out: Path, workers: int | None = None) -> Exported:
    """Writes the examples of a finished run. Raises ExportError, NotSpelled, and what reading a run raises."""
    _require_own(out)
    format_ = FORMATS[name]
    rows = _rows(run, format_.reads)
    if not wanted.filtered:
        rows = replace(rows, steps=list(unfiltered(run)))
    texts = spelled(programs_in(rows), wanted.spelling, workers)
    lines: dict[Split, list[str]] = {split: [] for split in SPLITS}
    for split, example in format_.make(rows, wanted, texts):
        lines[split].append(to_line(example))
    if not any(lines.values()):
        raise ExportError(f"{run}: holds nothing that {name} can be made of: name another format, or build more")
    files = {f"{split}.jsonl": "".join(found) for split, found in lines.items() if found}
    files["schema.json"] = _json(format_.shape.model_json_schema(by_alias=True))
    if name == "sharegpt":
        files["dataset_info.json"] = _json(
            dataset_info(run.resolve().name, [split for split in SPLITS if lines[split]])
        )
    out.mkdir(parents=True, exist_ok=True)
    for left in _OWN:
        if left not in files:
            (out / left).unlink(missing_ok=True)
    for file, text in files.items():
        write_whole(out / file, text.encode())
    found = next(problems_of(out, name), None)
    if found is not None:
        raise AssertionError(f"an example is not as its tool documents: {found}")
    examples = {split: len(found) for split, found in lines.items() if found}
    write_whole(out / SUMMARY, _json(_summary(run, name, wanted, examples, files)).encode())
    return Exported(out, examples)


def default_folder(run: Path, name: FormatName, wanted: Wanted) -> Path:
    """Where an export goes unless it is told otherwise: each choice in a folder of its own."""
    parts: list[str] = [name]
    parts += [] if wanted.spelling == "leir" else [wanted.spelling]
    parts += [] if wanted.reasoning else ["no-reasoning"]
    parts += ["step"] if wanted.spelling == "leir" and not wanted.program else []
    parts += [] if wanted.filtered else ["unfiltered"]
    return run / "export" / "-".join(parts)


def dataset_info(name: str, splits: list[Split]) -> dict[str, Any]:
    """LLaMA-Factory's description of the files, for its `dataset_dir`."""
    return {
        f"{name}_{split}": {
            "file_name": f"{split}.jsonl",
            "formatting": "sharegpt",
            "columns": {"messages": "conversations", "system": "system"},
            "tags": {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt"},
        }
        for split in splits
    }


def _rows(run: Path, reads: tuple[str, ...]) -> Rows:
    def of(config: str, shape: Any) -> list[Any]:
        return [row for row in run_rows(run, config) if isinstance(row, shape)] if config in reads else []

    return Rows(
        steps=[row for row in run_rows(run, "steps") if isinstance(row, StepRow)],
        trajectories=of("trajectories", TrajectoryRow),
        refusals=of("refusals", RefusalRow),
        programs={row.id: row for row in of("programs", ProgramRow)},
    )


def _require_own(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ExportError(f"{out}: is a file: name a folder with --out")
    if out.is_dir() and any(file.name.removesuffix(".tmp") not in _OWN for file in out.iterdir()):
        raise ExportError(f"{out}: holds files that are no export: name an empty or a new folder with --out")


def _summary(run: Path, name: str, wanted: Wanted, examples: dict[str, int], files: dict[str, str]) -> dict[str, Any]:
    identity = identity_of(run)
    return {
        "format": name,
        "spelling": wanted.spelling,
        "reasoning": wanted.reasoning,
        "program": wanted.writes_program,
        "filtered": wanted.filtered,
        "run": {
            "config_hash": identity.config_hash,
            "code_version": identity.code_version,
            "manifest_sha256": hashlib.sha256((run / MANIFEST).read_bytes()).hexdigest(),
        },
        "examples": examples,
        "files": {file: hashlib.sha256(text.encode()).hexdigest() for file, text in sorted(files.items())},
    }


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
