"""Translations that a process keeps, so that the stages of a build that need one source's do the work once."""

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from stepTP.frontend.source import LoadedSource, load_text
from stepTP.frontend.translation import Translation, translate


def translated(
    code: str, file: str, overrides: Mapping[str, Any] | None = None, *, evaluation: bool = False
) -> tuple[LoadedSource, Translation]:
    """What `code` loads as, and its translation; `overrides` holds what JSON does.

    The module is the caller's own, as it was loaded: one that changes when it runs changes nothing that is kept.
    Raises SourceError, UnsupportedOp, ExportFailed.
    """
    source, translation = _translated(code, file, json.dumps(overrides or {}, sort_keys=True), evaluation)
    return replace(source, module=copy.deepcopy(source.module)), translation


@lru_cache(maxsize=2)  # a source's stages follow each other, and its tensors may be large
def _translated(code: str, file: str, overrides: str, evaluation: bool) -> tuple[LoadedSource, Translation]:
    source = load_text(code, file, json.loads(overrides), evaluation=evaluation)
    return source, translate(copy.deepcopy(source.module), source.inputs)
