"""The README shows a row that is still what the strategies make, and commands and files that exist."""

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from leir.canonical import state_id
from leir.parser import parse
from leir.printer import to_text
from stepTP.cli import app
from strategies.catalog import parse_step

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(p for p in ROOT.glob("[!.]*/**/README.md") if ".venv" not in p.parts)])


def shown_row() -> dict[str, str]:
    """The parts of the row between the markers, by their headings."""
    found = re.search(r"<!-- row -->\n```text\n(.*?)```\n<!-- /row -->", README, re.DOTALL)
    assert found, "the README shows no row"
    parts: dict[str, str] = {}
    heading = ""
    for line in found[1].splitlines():
        if line.startswith("    "):
            parts[heading] += line[4:] + "\n"
        elif line:
            heading = line
            parts[heading] = ""
    return parts


def test_the_row_replays() -> None:
    parts = shown_row()
    (before,) = (text for heading, text in parts.items() if heading.startswith("before"))
    (after,) = (heading for heading in parts if heading.startswith("after"))
    applied = parse_step(json.loads(parts["step"])).apply(parse(before))
    assert to_text(applied.program) == parts[after]
    assert state_id(applied.program)[:8] == after.removeprefix("after (").removesuffix(")")
    facts = [line.split(": ", 1) for line in parts["facts"].splitlines()]
    assert facts == [[fact.name, fact.evidence] for fact in applied.facts]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_commands_exist() -> None:
    known = get_command(app).commands
    for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            words = line.split()
            if words[0] == "steptp":
                assert words[1] in known
            else:
                assert words[0] in ("bash", "source", "python")
                assert (ROOT / words[1]).exists()
