"""The published schemas are those of the code."""

import pytest

from scripts.schemas import FOLDER, schemas, text_of


@pytest.mark.parametrize("name", ["rows.json", "answer.json", "exports.json"])
def test_the_published_schema_is_the_codes(name: str) -> None:
    assert set(schemas()) == {file.name for file in FOLDER.iterdir()}
    assert (FOLDER / name).read_text(encoding="utf-8") == text_of(schemas()[name]), "run python scripts/schemas.py"
