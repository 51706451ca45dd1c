"""The pages and pictures that people open, in a real browser: what they show, how they fit, what they ask for.

Needs the extra `browser` and a Chromium, as Debian's package `chromium` has it.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepTP.evaluate.metrics import summarise
from stepTP.evaluate.page import search_page, single_page
from stepTP.evaluate.searching import summarise_searches
from stepTP.publish.published import measurements_of
from stepTP.records import StepRow
from stepTP.report.figures import step_rows
from stepTP.report.page import page
from stepTP.search import policy_of, search_of
from stepTP.search.env import explore
from stepTP.search.plot import plot
from stepTP.stats import statistics
from tests.stepTP.test_evaluate_metrics import COPY, EQUAL, UNPARSED, judged
from tests.stepTP.test_evaluate_search import found
from tests.stepTP.test_search import PROGRAMS, environment

pytest.importorskip("pyarrow", reason="the extra `publish` is not installed")
sync_api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
NARROW, WIDE = 400, 1600
SHOWN = 80  # rows on the page of the sample
CHECKS = Path(__file__).with_name("page_checks.js")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium on this machine: install one, as Debian's package chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def opened(browser: Any, file: Path, width: int = WIDE, scheme: str = "light", address: str = "") -> Iterator[Any]:
    """A file in a window. Fails where a script fails or says anything, where the page asks for anything else than
    itself, and where it is wider than the window, at first or after what was done there.
    """
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.add_init_script(path=CHECKS)
    shown = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("console", lambda message: said.append(message.text))
    shown.on("request", lambda request: asked.append(request.url.partition("#")[0]))
    try:
        shown.goto(file.as_uri() + address)
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        yield shown
        shown.wait_for_timeout(20)
        assert said == []
        assert asked == [file.as_uri()]
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    finally:
        context.close()


@pytest.fixture(scope="module")
def sample_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "sample.html"
    file.write_text(page(SAMPLE, SHOWN), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def on_page(sample_page: Path) -> list[StepRow]:
    """The rows that can be browsed, in the order of the list."""
    data = re.search(r'id="data">(.*?)</script>', sample_page.read_text(encoding="utf-8"), re.DOTALL)
    assert data
    rows = {row.id: row for row in step_rows(SAMPLE)}
    return [rows[row["id"]] for row in json.loads(data[1])["rows"]]


def titles(shown: Any) -> list[str]:
    return shown.locator("#list b").all_inner_texts()


def row_shown(shown: Any) -> str:
    return shown.locator("#row h3").first.inner_text().removeprefix("Row ")


def counts(shown: Any, heading: str) -> dict[str, int]:
    """The bars under a heading."""
    bars = shown.locator(f"h3:text-is('{heading}') ~ .bars").first.locator(".bar")
    folded = shown.locator(f"h3:text-is('{heading}') ~ details .bar")
    texts = "all => all.map(b => [b.querySelector('.label').textContent, b.querySelector('.count').textContent])"
    read = [(label, int(count.replace(",", ""))) for b in (bars, folded) for label, count in b.evaluate_all(texts)]
    assert len(dict(read)) == len(read)
    return dict(read)


@pytest.mark.parametrize(
    "body",
    [
        "<script>undefined.x</script>",
        "<script>console.log('x')</script>",
        "<script>setTimeout(() => { throw Error('x') })</script>",
        "<img src='http://127.0.0.1:9/x.png'>",
        "<link rel=stylesheet href='beside.css'>",
        "<script>addEventListener('load', () => fetch('data.json').catch(() => 0))</script>",
        "<div style='width: 2000px'>x</div>",
    ],
)
def test_what_is_wrong_with_a_page_is_seen(browser: Any, tmp_path: Path, body: str) -> None:
    (tmp_path / "x.html").write_text(f"<!doctype html><body>{body}</body>")
    with pytest.raises(AssertionError), opened(browser, tmp_path / "x.html"):
        pass


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, 768, WIDE])
def test_a_report_fits_its_window(browser: Any, sample_page: Path, width: int, scheme: str) -> None:
    with opened(browser, sample_page, width, scheme) as shown:
        ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) > 3 * 128) == (scheme == "light")
        assert shown.evaluate("cutTexts()") == []
        for level in ("graph", "operator", "memory", "math"):
            shown.locator(f"#list button.{level}").first.click()
            assert shown.evaluate("leastContrast()") >= 4.5
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
        before, after = (shown.locator(f".diff td.{side}").first.bounding_box() for side in ("old", "new"))
        assert (before["y"] < after["y"]) if width == NARROW else (before["x"] < after["x"])


def test_a_report_agrees_with_the_statistics(browser: Any, sample_page: Path) -> None:
    told = statistics(SAMPLE)
    with opened(browser, sample_page) as shown:
        tiles = {
            tile.locator("span").inner_text(): tile.locator("b").inner_text() for tile in shown.locator(".tile").all()
        }
        rows = told["rows"]
        assert tiles == {
            "verified steps": f"{rows['steps']:,}", "strategies": str(len(told["strategies"])),
            "families": str(told["families"]), "programs": f"{rows['programs']:,}",
            "trajectories": f"{rows['trajectories']:,}", "choices": f"{rows['choices']:,}",
            "refusals": f"{rows['refusals']:,}", "rejected": f"{rows['rejected']:,}",
        }  # fmt: skip
        assert counts(shown, "Steps by strategy") == {name: of["rows"] for name, of in told["strategies"].items()}
        assert counts(shown, "Steps by family of the source") == told["source_families"]
        assert counts(shown, "By depth") == {f"depth {depth}": count for depth, count in told["depths"].items()}
        assert sum(counts(shown, "By split").values()) == rows["steps"]
        by_fact = Counter[str]()
        for name, count in told["refusals"].items():
            by_fact[name.partition(": ")[2]] += count
        assert counts(shown, "Refusals by fact") == by_fact
        assert counts(shown, "Rejected, by stage and cause") == told["rejected"]
        for title in shown.locator("#balance .bar").evaluate_all("bars => bars.map(bar => bar.title)"):
            name, _, text = title.partition(": ")
            if of := told["strategies"].get(name):
                assert text.startswith(f"{of['rows']:,} {of['rows'] / rows['steps']:.1%}, {of['families']} famil")
        keys = shown.locator(".keys span").all_inner_texts()
        assert dict(key.rsplit(" ", 1) for key in keys) == {k: str(n) for k, n in told["levels"].items()}
        assert f"{told['strategy_entropy_bits']:.2f} bits" in shown.locator("#balance p").first.inner_text()
        (line,) = shown.locator("#verification tbody tr").all()
        worst = told["verification"]["llvm"]
        figures = [f"{worst[key]:.3g}" for key in ("bound_used", "max_rel", "max_ulp")]
        assert line.locator("td").all_inner_texts() == ["llvm", str(worst["rows"]), *figures]
        means = shown.locator("#lengths figcaption b").all_inner_texts()
        for text, form in zip(means, ("leir", "tir", "cuda", "reasoning"), strict=True):
            assert text.startswith(f"mean {told['tokens'][f'mean_{form}']:.4g},")
        lead = shown.locator("#lengths p").first.inner_text()
        for form in ("tir", "cuda"):
            assert f"{told['tokens'][f'leir_fewer_than_{form}']:.1%} fewer than {form.upper()}" in lead


def test_a_row_is_shown_whole(browser: Any, sample_page: Path, on_page: list[StepRow]) -> None:
    row = next(row for row in on_page if row.path and row.strategy in ("online_softmax", "operator_fusion"))
    with opened(browser, sample_page, address=f"#row={row.id}") as shown:
        assert row_shown(shown) == row.id
        assert shown.locator("#list [aria-current=true]").get_attribute("data-id") == row.id
        assert shown.locator("#list [aria-current=true]").is_visible()
        assert shown.locator("#pane").bounding_box()["y"] < 900 / 2
        assert json.loads(shown.locator(".step").inner_text()) == {"strategy": row.strategy, "args": row.args}
        for side, text in ((0, row.leir_before), (1, row.leir_after)):
            cells = shown.locator(".diff tbody tr").evaluate_all(f"rows => rows.map(r => r.cells[{side}].textContent)")
            assert "".join(cell.strip() for cell in cells) == text.replace("\n", "")
        heads = shown.locator(".diff th").all_inner_texts()
        assert heads == [f"before {row.state_id_before[:8]}", f"after {row.state_id_after[:8]}"]
        marks = shown.locator(".old mark").all_text_contents()
        assert marks and all(mark in row.leir_before.replace("\n", "") for mark in marks)
        for line in shown.locator(".diff tr:has(td.same)").all():
            assert line.locator("td").nth(0).text_content() == line.locator("td").nth(1).text_content()
            assert line.locator("mark").count() == 0
        changed = shown.locator(".diff tr:has(td.old), .diff tr:has(td.new)").count()
        assert 0 < changed < shown.locator(".diff tbody tr").count()
        paragraphs = shown.locator(".reasoning p").all_text_contents()
        assert paragraphs == [part.replace("`", "") for part in row.reasoning.split("\n\n")]
        assert shown.locator(".reasoning code").count() > 0
        facts, verification, *latency = (table.locator("tbody tr") for table in shown.locator("#row .list").all())
        assert [line.locator("td").all_text_contents() for line in facts.all()] == [
            [f"✓ {fact.name}", fact.evidence] for fact in row.facts
        ]
        assert shown.evaluate("[...document.getElementById('row').childNodes].every(node => node.nodeType === 1)")
        (verdict,) = row.verification
        cells = verification.locator("td").all_text_contents()
        assert cells[:2] == [verdict.target, f"{verdict.max_abs:.3g}"]
        assert cells[-1] == ", ".join(verdict.inputs)
        timed = [
            [f"{m.target} on {m.machine.device}", f"{m.timing.median_us:.4g} µs ± {m.timing.spread_us:.2g}"]
            for m in measurements_of(SAMPLE)
            if (m.source_id, m.state_id, m.subject, m.status) == (row.source.id, row.state_id_after, "program", "ok")
            if m.timing is not None
        ]
        lines = [line for table in latency for line in table.all()]
        assert [line.locator("td").all_text_contents()[:2] for line in lines] == timed
        source, path = shown.locator("#row details").all()
        source.locator("summary").click()
        assert source.locator("pre").inner_text().strip() == row.source.torch_code.strip()
        assert len(path.locator("pre").text_content().split("\n")) == len(row.path)


def test_rows_are_browsed(browser: Any, sample_page: Path, on_page: list[StepRow]) -> None:
    with opened(browser, sample_page) as shown:
        assert titles(shown) == [row.strategy for row in on_page]
        assert shown.locator("#told").inner_text() == ""
        assert row_shown(shown) == on_page[0].id
        assert shown.locator("#previous").is_disabled()
        shown.click("#next")
        shown.keyboard.press("j")
        assert row_shown(shown) == on_page[2].id
        assert shown.locator("#place").inner_text() == f"3 of {SHOWN}"
        shown.keyboard.press("k")
        assert row_shown(shown) == on_page[1].id
        shown.click("#previous")
        assert row_shown(shown) == on_page[0].id
        shown.go_back()
        sync_api.expect(shown.locator("#row h3").first).to_have_text(f"Row {on_page[1].id}")
        shown.click("nav a:text-is('Tokens')")
        assert row_shown(shown) == on_page[1].id
        shown.locator("#list button").last.click()
        assert row_shown(shown) == on_page[-1].id
        assert shown.locator("#next").is_disabled()
        assert shown.url.endswith(f"#row={on_page[-1].id}")


def test_rows_are_filtered(browser: Any, sample_page: Path, on_page: list[StepRow]) -> None:
    chosen = Counter(row.strategy for row in on_page).most_common(1)[0][0]
    wanted = [row for row in on_page if row.strategy == chosen]
    assert 1 < len(wanted) < len(on_page)
    with opened(browser, sample_page) as shown:
        assert shown.locator("#by-strategy option").all_inner_texts()[1:] == sorted({r.strategy for r in on_page})
        shown.select_option("#by-strategy", chosen)
        assert shown.locator("#list button").evaluate_all("all => all.map(b => b.dataset.id)") == [r.id for r in wanted]
        assert shown.locator("#told").inner_text() == f"{len(wanted)} of these match."
        assert row_shown(shown) == wanted[0].id
        shown.click("#next")
        assert row_shown(shown) == wanted[1].id
        shown.select_option("#by-depth", str(wanted[0].depth))
        shown.select_option("#by-family", wanted[0].source.family)
        assert shown.locator("#list li").count() == sum(
            (row.depth, row.source.family) == (wanted[0].depth, wanted[0].source.family) for row in wanted
        )
        link = shown.locator("#rows tbody a").first  # of the rarest strategy
        assert link.inner_text() != chosen
        link.click()
        assert f"#row={row_shown(shown)}" == link.get_attribute("href")
        assert shown.locator("#list li").count() == SHOWN  # the filter that hid it is gone


def test_rows_are_searched(browser: Any, sample_page: Path, on_page: list[StepRow]) -> None:
    last = on_page[-1]
    with opened(browser, sample_page) as shown:
        for text in (last.id, last.leir_after.splitlines()[-1].upper(), last.reasoning.split(". ")[0], last.strategy):
            shown.fill("#by-text", text)
            found = shown.locator("#list button").evaluate_all("all => all.map(b => b.dataset.id)")
            assert found == [row.id for row in on_page if text.lower() in _searched(row)]
            assert last.id in found
        shown.fill("#by-text", "no such thing")
        assert shown.locator("#row").inner_text() == "No row matches."
        assert shown.locator("#next").is_disabled() and shown.locator("#previous").is_disabled()
        shown.keyboard.type(" jk")  # typed, not turned
        shown.fill("#by-text", "")
        assert titles(shown) == [row.strategy for row in on_page]


def _searched(row: StepRow) -> str:
    step = json.dumps({"strategy": row.strategy, "args": row.args}, ensure_ascii=False)
    programs = (row.leir_before.replace("\n", ""), row.leir_after.replace("\n", ""))
    return "\n".join((row.id, step, *programs, *row.reasoning.split("\n\n"))).lower()


def test_a_row_that_is_not_there_is_said(browser: Any, sample_page: Path) -> None:
    with opened(browser, sample_page, address="#row=0123") as shown:
        assert "Row 0123 is not on this page. This prints it: " in shown.locator("#row").inner_text()
        assert re.fullmatch(r"steptp show '\S+#0123'", shown.locator("#row code").inner_text())
        assert shown.locator("#list [aria-current=true]").count() == 0
        shown.click("#next")
        assert shown.locator("#place").inner_text() == f"1 of {SHOWN}"


def test_an_address_writes_no_command(browser: Any, sample_page: Path) -> None:
    """A page may be opened by a link of anybody, and what it says to run is copied to a shell."""
    with opened(browser, sample_page, address="#row=<b>0';reboot;'") as shown:
        assert shown.locator("#row").inner_text().endswith(" is not on this page.")
        assert shown.locator("#row code, #row b").count() == 0


def test_what_was_measured_is_shown(browser: Any, measured_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(measured_run), encoding="utf-8")
    with opened(browser, file) as shown:
        assert counts(shown, "llvm on a test")["large-speedup"] == 2
        assert sum(counts(shown, "llvm on a test").values()) == 2
        slow = shown.locator("#rows table").nth(1).locator("tbody tr")
        assert slow.count() == 2
        assert slow.first.locator("td").all_inner_texts()[1:] == ["llvm on a test", "4 µs", "2×"]
        slow.first.locator("a").click()
        latency = shown.locator("#row h3:text-is('Latency') + .scroll tbody td")
        assert latency.all_inner_texts() == ["llvm on a test", "4 µs ± 0", "2×, large-speedup"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_an_evaluation_fits_its_window(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    replies = (EQUAL, COPY, UNPARSED, EQUAL)
    answers = [judged(f"q{n}", 0, f"distribution_distances-{n}", reply) for n, reply in enumerate(replies)]
    names = [("greedy", "cost_model"), ("beam", "a-model-with-a-rather-long-name-32b-instruct"), ("mcts", "random")]
    searches = [
        found(f"clamped_likelihoods-{n}", [(1, 4.0 / n), (3, 2.0)], search=search, policy=policy, evaluations=4,
              strategies={"tensor_split_to_decouple_operators": n})
        for search, policy in names
        for n in (1, 2)
    ]  # fmt: skip
    about = {"run": "runs/" + "a-long-name/" * 9, "explained": False, "model": ""}
    single, several = tmp_path / "single.html", tmp_path / "several.html"
    single.write_text(single_page("Single steps: " + "name/" * 20, about, summarise(answers)), encoding="utf-8")
    several.write_text(search_page("Searches", about, summarise_searches(searches)), encoding="utf-8")
    for file in (single, several):
        with opened(browser, file, width, scheme) as shown:
            assert shown.evaluate("cutTexts()") == []
            assert shown.evaluate("leastContrast()") >= 4.5
            assert shown.locator("svg rect").count() >= 3
            last = shown.locator("table").last.locator("tr").all()
            assert [line.locator("td").all_inner_texts() for line in last[1:]] == [
                ["explained", "no"], ["run", about["run"]]
            ]  # fmt: skip


@pytest.mark.parametrize(("program", "search"), [("softmax", "bfs"), ("map", "greedy")])
def test_the_picture_of_a_search_is_whole(browser: Any, tmp_path: Path, program: str, search: str) -> None:
    env = environment(PROGRAMS[program], policy_of("cost_model"))
    explore(env, search_of(search))
    file = tmp_path / "search.svg"
    file.write_text(plot(env, f"{program}.leir: {search}, cost_model"))
    with opened(browser, file) as shown:
        assert shown.evaluate("cutTexts()") == []
        assert shown.evaluate("overlappingTexts()") == []
        valued = [node for node in env.nodes if node.value_s is not None]
        assert shown.locator("circle").count() == len(valued) > 1
        heights = shown.locator("circle").evaluate_all("all => all.map(c => c.cy.baseVal.value)")
        assert min(heights) >= 58 and max(heights) <= 316
        best = valued.index(env.best)
        assert heights[best] == min(heights)
