"""Writes the JSON schemas that others may rely on: python scripts/schemas.py

`schemas/rows.json` has every row shape, `schemas/answer.json` an answer, `schemas/exports.json` the examples of each
format. A test fails where they are not those of the code.
"""

import json
from pathlib import Path
from typing import Any

from stepTP.answer import Answer
from stepTP.export.formats import FORMATS
from stepTP.records import json_schemas

FOLDER = Path(__file__).parent.parent / "schemas"


def schemas() -> dict[str, dict[str, Any]]:
    """The schemas by the name of their file."""
    exports = {name: found.shape.model_json_schema(by_alias=True) for name, found in FORMATS.items()}
    return {"rows.json": json_schemas(), "answer.json": Answer.model_json_schema(), "exports.json": exports}


def text_of(schema: dict[str, Any]) -> str:
    """A schema as its file has it."""
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        (FOLDER / name).write_text(text_of(schema), encoding="utf-8")
        print(FOLDER / name)
