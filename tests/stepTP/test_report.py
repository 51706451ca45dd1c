"""The report of a run: figures that the rows give, one file that loads nothing, and rows that a browser shows."""

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stepTP.commands.reporting import report
from stepTP.manifest import load_manifest
from stepTP.records import StepRow, to_line
from stepTP.report.charts import bars, error_map, histogram
from stepTP.report.difference import difference_of
from stepTP.report.figures import Figures, chosen_rows, figures_of, step_rows
from stepTP.report.marks import laid_out, side_by_side
from stepTP.report.page import page
from stepTP.report.terminal import describe_measurement, describe_row
from stepTP.stats import run_rows
from tests.stepTP.test_cli import Steptp, steptp
from tests.stepTP.test_publish import measurement, timing

__all__ = ["steptp"]  # a fixture

BEFORE = "in A_{4,8};out C_4,D_4;\nL^{4,8}_{i,j}[C_i+=A_{i,j};]\nL^4_i[D_i=C_i*0.5;]\n"
AFTER = "in A_{4,8};out C_4,D_4;\nL^4_i[M^{f32,l};M=0.0;L^8_j[M+=A_{i,j};]C_i=M;]\nL^4_i[D_i=C_i*0.75;]\n"


@pytest.fixture(scope="module")
def steps(small_run: Path) -> list[StepRow]:
    return [row for row in run_rows(small_run, "steps") if isinstance(row, StepRow)]


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[\d+m", "", text)


def figures(run: Path) -> Figures:
    return figures_of(run, step_rows(run))


def rows_in(text: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])["rows"]


def test_programs_are_laid_out_without_loss(steps: list[StepRow]) -> None:
    assert laid_out(AFTER) == [
        "in A_{4,8};out C_4,D_4;", "L^4_i[", "  M^{f32,l};", "  M=0.0;", "  L^8_j[M+=A_{i,j};]", "  C_i=M;", "]",
        "L^4_i[D_i=C_i*0.75;]",
    ]  # fmt: skip
    for text in (BEFORE, AFTER, *(row.leir_after for row in steps)):
        assert "".join(line.strip() for line in laid_out(text)) == text.replace("\n", "")


def test_changed_parts_are_marked() -> None:
    pairs = side_by_side(BEFORE, AFTER)
    assert not pairs[0].changed
    assert pairs[-1].before == (("L^4_i[D_i=C_i*", False), ("0.5", True), (";]", False))
    assert pairs[-1].after == (("L^4_i[D_i=C_i*", False), ("0.75", True), (";]", False))
    for side, text in (("before", BEFORE), ("after", AFTER)):
        lines = [part for pair in pairs if (part := getattr(pair, side)) is not None]
        assert ["".join(text for text, _ in line) for line in lines] == laid_out(text)


def test_a_terminal_shows_what_changes(steps: list[StepRow]) -> None:
    row = steps[0].model_copy(update={"leir_before": BEFORE, "leir_after": AFTER})
    plain, coloured = describe_row(row, width=80), describe_row(row, colours=True, width=80)
    assert "\x1b" not in plain
    assert without_colours(coloured) == plain
    assert "    L^4_i[D_i=C_i*\x1b[31m0.5\x1b[0m;]" in coloured
    assert "    L^4_i[D_i=C_i*\x1b[32m0.75\x1b[0m;]" in coloured


@pytest.mark.parametrize("width", [40, 80, 140])
def test_nothing_is_wider_than_the_terminal(steps: list[StepRow], width: int) -> None:
    """And nothing is lost, whatever is broken: a program's long lines, a fact's evidence, a verdict."""
    for row in steps:
        long = re.sub(r"\*2\.0|max", "*2.0+1.0/3.0-A_{i,j}*0.5", row.leir_after) * 2
        row = row.model_copy(update={"leir_after": long, "reasoning": "one two three " * 20 + "\n\nfour"})
        shown = describe_row(row, colours=True, width=width)
        lines = without_colours(shown).split("\n")
        assert max(map(len, lines)) <= width
        assert sum(not line.startswith("    ") for line in lines if line) == 8  # names of parts
        parts = dict(part.split("\n", 1) for part in without_colours(shown).split("\n\n") if part[0] != " ")
        name = f"after ({row.state_id_after[:8]})"
        assert re.sub(r"\n *", "", parts[name]).strip() == long.replace("\n", "")
        facts = " ".join(parts["facts"].split())
        assert facts == " ".join(f"{fact.name}: {' '.join(fact.evidence.split())}" for fact in row.facts)
        assert f"{row.verification[0].max_ulp:g} ULP" in " ".join(parts["verification"].split())


def test_a_measurement_is_told_in_its_width(steps: list[StepRow]) -> None:
    row = measurement(steps[0], sizes={"rows": 512})
    told = "llvm on a test, rows=512: 4 us (interquartile range 0); against parent 2 large-speedup"
    assert describe_measurement(row) == f"    {told}"
    lines = describe_measurement(row, 40).split("\n")
    assert len(lines) > 1 and max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == told
    wrong = measurement(steps[0], status="failed", message="it did", timing=None, speedup_vs_parent=None)
    assert describe_measurement(wrong) == "    llvm on a test: failed: it did"


def test_what_is_no_terminal_gets_whole_lines(steps: list[StepRow]) -> None:
    shown = describe_row(steps[0])
    assert "\n".join(f"    {line}" for line in steps[0].leir_after.splitlines()) in shown
    assert "\x1b" not in shown


def test_figures_are_counted_from_the_rows(measured_run: Path, steps: list[StepRow]) -> None:
    found = figures(measured_run)
    assert {name: count for name, _, count, _ in found.strategies} == Counter(row.strategy for row in steps)
    assert dict(found.families) == Counter(row.source.family for row in steps)
    assert dict(found.depths) == Counter(str(row.depth) for row in steps)
    assert sum(found.grid.values()) == found.rows["steps"] == len(steps)
    assert len(found.errors) + found.exact == sum(len(row.verification) for row in steps)
    refused = list(run_rows(measured_run, "refusals"))
    assert sum(count for _, count, _ in found.refusals) == len(refused)
    assert sum(count for _, count in found.rejected) == sum(1 for _ in run_rows(measured_run, "rejected"))
    (tally,) = found.speedups.values()
    assert [(span, count) for name, span, count in tally if name == "large-speedup"] == [("2 to 5", 2)]
    assert [(slow.where, slow.median_us, slow.speedup) for slow in found.slowest] == [("llvm on a test", 4.0, 2.0)] * 2
    assert [name for name, _ in found.levels] == ["graph", "operator"]
    assert found.rarest[0][3] == min(count for _, _, count, _ in found.strategies)


def test_the_slowest_program_is_named_once(measured_run: Path, steps: list[StepRow], tmp_path: Path) -> None:
    """By the step whose speedup is known; a device that it was timed on is a program of its own."""
    folder = tmp_path / "run"
    shutil.copytree(measured_run, folder)
    twin = steps[0].model_copy(update={"id": "0" * 16, "state_id_before": "f" * 64})
    rows = [measurement(steps[0]), measurement(steps[1])]
    rows.append(measurement(steps[0], id="m-cuda", target="cuda", timing=timing(9.0)))
    rows.append(measurement(steps[2], timing=timing(99.0), sizes={"rows": 512}))
    (folder / "measurements.jsonl").write_text("".join(map(to_line, rows)))
    found = figures_of(folder, [twin, *steps]).slowest
    assert [(slow.row, slow.median_us) for slow in found] == [
        (steps[0].id, 9.0),
        *sorted([(steps[0].id, 4.0), (steps[1].id, 4.0)]),
    ]
    assert {slow.speedup for slow in found} == {2.0}


def test_the_rate_is_of_verified_steps(small_run: Path, steps: list[StepRow], tmp_path: Path) -> None:
    """By the times of the shards; what the first shard holds was made before them."""
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    shards = load_manifest(folder).shards
    for name in shards:
        os.utime(folder / name, (0, 100))
    assert figures_of(folder, steps).rate is None
    for number, name in enumerate(sorted(shards)):
        os.utime(folder / name, (0, 100 + 10 * number))
    later = sum(shards[name].counts.get("steps", 0) for name in sorted(shards)[1:])
    assert figures_of(folder, steps).rate == later / (10 * (len(shards) - 1)) > 0
    assert f"<b>{later / 30:.3g}</b><span>verified a second</span>" in page(folder)


def test_rows_to_browse_are_of_every_strategy(measured_run: Path, steps: list[StepRow]) -> None:
    found = figures(measured_run)
    names = {*(slow.row for slow in found.slowest), *(name for name, *_ in found.rarest)}
    few = chosen_rows(steps, found, len(names) + 8)
    assert len(few) == len(names) + 8
    assert names <= {row.id for row in few}
    assert {row.strategy for row in few} == {row.strategy for row in steps}
    assert few == [row for row in steps if row in few]


def test_the_page_loads_nothing(measured_run: Path, steps: list[StepRow]) -> None:
    text = page(measured_run)
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"|@import|url\(|https?://', text.split('id="data">')[0])
    assert text == page(measured_run)
    rows = rows_in(text)
    assert [row["id"] for row in rows] == [row.id for row in steps]
    assert f"<b>{len(steps):,}</b><span>verified steps</span>" in text
    ids = [*re.findall(r'id="([^"]+)"', text.split('id="data">')[0]), "data"]
    assert len(ids) == len(set(ids))
    for link in re.findall(r'href="#row=([^"]+)"', text):
        assert link in {row["id"] for row in rows}
    assert rows[0]["latency"] == [["llvm on a test", "4 µs ± 0", "2×, large-speedup"]]


def test_text_of_a_row_is_no_markup(measured_run: Path, tmp_path: Path) -> None:
    text = bars([("<b>&", 1, "</i>", "math")]) + histogram([1.0, 2.0, 5.0], "<t>") + error_map([(1e-7, 1e-6, "llvm")])
    assert "<b>&" not in text
    assert "<t>" not in text
    assert "<" not in page(measured_run).split('id="data">')[1].split("</script>")[0]
    report(measured_run, out=tmp_path / "r.html", rows=5)
    assert len(rows_in((tmp_path / "r.html").read_text())) <= len(figures(measured_run).rarest) + 5


def test_a_folder_may_be_called_by_a_dot(
    steptp: Steptp, small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepTP.publish.folder import publish

    publish(small_run, tmp_path / "d", "d")
    monkeypatch.chdir(tmp_path / "d")
    assert steptp("report", ".")[:2] == (0, "d.html\n")
    assert (tmp_path / "d" / "d.html").is_file()
    steptp.json("export", ".", "--format", "sharegpt")
    assert set(json.loads(Path("export/sharegpt/dataset_info.json").read_text())) == {
        "d_train",
        "d_validation",
        "d_test",
    }


def test_a_report_of_no_run_names_the_run(steptp: Steptp, tmp_path: Path) -> None:
    assert steptp.fails("report", tmp_path / "none").startswith(f"{tmp_path / 'none'}: no manifest.json there: give")
    (tmp_path / "rows.jsonl").write_text("")
    assert "is a file: give the folder of a run" in steptp.fails("report", tmp_path / "rows.jsonl")


def test_runs_that_differ(steptp: Steptp, small_run: Path, measured_run: Path, tmp_path: Path) -> None:
    assert difference_of(small_run, measured_run).equal
    from stepTP.publish.folder import publish

    publish(small_run, tmp_path / "d", "d")
    assert difference_of(small_run, tmp_path / "d").equal
    import hashlib

    other = tmp_path / "other"
    shutil.copytree(small_run, other)
    lines = (other / "steps.jsonl").read_text().splitlines()
    changed = json.loads(lines[0]) | {"reasoning": "another"}
    data = "".join(f"{line}\n" for line in [json.dumps(changed), *lines[2:]]).encode()
    (other / "steps.jsonl").write_bytes(data)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["outputs"]["steps.jsonl"] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    manifest["identity"]["seed"] = 9
    (other / "manifest.json").write_text(json.dumps(manifest))
    found = difference_of(small_run, other)
    assert not found.equal
    assert found.rows["steps"] == (len(lines), len(lines) - 1, 1, 0, 1)
    assert found.examples == (f"steps {changed['id']}: reasoning",)
    assert found.columns == {"steps": {"reasoning": 1}}
    assert found.made_with == ("seed: 4, 9",)
    assert [(a - b) for _, a, b in found.strategies] == [1]
    code, out, _ = steptp("diff", small_run, other)
    assert code == 1
    parts = dict(part.split("\n", 1) for part in out.strip().split("\n\n") if "\n" in part)
    assert parts["made with"] == "    seed: 4, 9"
    assert parts["columns that differ"] == "    steps: reasoning 1"
    assert parts["for example"] == f"    steps {changed['id']}: reasoning"
    assert out.endswith("\n\ndifferent\n")
    assert steptp("diff", small_run, small_run)[1].endswith("\n\nequal\n")
