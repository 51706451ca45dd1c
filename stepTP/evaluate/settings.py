"""What decides the answers that an evaluation's folder keeps, noted there: it holds those of one way of asking."""

import json
from pathlib import Path
from typing import Any

from stepTP.evaluate.questions import EvaluationError
from stepTP.manifest import changes, write_whole

SETTINGS = "settings.json"


def require_same(out: Path, settings: dict[str, Any]) -> None:
    """Notes the settings of what a folder will keep. Settings that it was not begun with before are added.

    Raises EvaluationError where it was begun with others: answers to both would be told as answers to one.
    """
    file = out / SETTINGS
    try:
        begun = json.loads(file.read_bytes()) if file.exists() else {}
    except ValueError:
        begun = None
    if not isinstance(begun, dict):
        raise EvaluationError(f"{file}: damaged: name a new folder with --out")
    both = sorted({*begun, *settings} - ({*begun} ^ {*settings}))
    changed = changes({key: begun[key] for key in both}, {key: settings[key] for key in both})
    if changed:
        raise EvaluationError(f"{out}: begun with other settings ({changed}): name a new folder with --out")
    write_whole(file, (json.dumps(begun | settings, indent=1, sort_keys=True) + "\n").encode())
