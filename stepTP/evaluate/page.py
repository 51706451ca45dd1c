"""An evaluation as one HTML page: tables and plots, no script, no network."""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from stepTP.evaluate.metrics import LABELS, RATES
from stepTP.evaluate.plots import Bar, bars, lines, number

_STYLE = """
:root { color-scheme: light dark; --bg: #fff; --ink: #1a202c; --soft: #4a5568; --line: #e2e8f0; --bar: #90cdf4; }
@media (prefers-color-scheme: dark) { :root { --bg: #15171c; --ink: #e8eaef; --soft: #a3a9b5; --line: #31353e;
  --bar: #2c5f8d; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--bg); }
h1, p, li { overflow-wrap: anywhere; } .scroll { overflow-x: auto; } .soft { color: var(--soft); }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
td { white-space: nowrap; vertical-align: top; } th { vertical-align: bottom; color: var(--soft); font-weight: 500; }
td:first-child, th:first-child, .about td { text-align: left; padding-left: 0; }
td:first-child, th:first-child { position: sticky; left: 0; background: var(--bg); }
.about td + td { white-space: normal; overflow-wrap: anywhere; }
svg { display: block; width: 100%; min-width: 560px; max-width: 720px; height: auto; margin: 1rem 0; }
svg text { font: 12px system-ui, sans-serif; } svg text:not([fill]) { fill: var(--ink); }
svg .title { font-weight: 600; } svg rect { fill: var(--bar); }
.whisker, .axis { stroke: var(--ink); stroke-width: 1.2; fill: none; }
.rule { stroke: var(--line); }
@media (max-width: 600px) { td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 9rem; } }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document of parts that are HTML."""
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table of plain values, which a narrow window scrolls; names may be broken after underscores."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    cells = ("".join(f"<td>{escape(str(cell)).replace('_', '_<wbr>')}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    return _scrolled(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def shown(estimate: dict[str, Any], percent: bool = True) -> str:
    """An estimate with its interval."""
    if estimate["value"] is None:
        return ""
    value = number(estimate["value"], percent)
    if estimate["low"] is None:
        return value
    return f"{value} [{number(estimate['low'], percent)}, {number(estimate['high'], percent)}]"


def single_page(title: str, about: dict[str, Any], summary: dict[str, Any]) -> str:
    """The page of `stepTP.evaluate.metrics.summarise`; `about` says what was evaluated and how."""
    rates = summary["rates"]
    named = [(LABELS[name], estimate) for name, estimate in rates.items()]
    failures = list(summary["failures"].items())
    counts = f"{summary['answers']} answers to {summary['questions']} states of {summary['sources']} programs"
    errors = "".join(f"; {count} could not be judged ({kind})" for kind, count in summary["errors"].items())
    parts = [
        f"<p>{escape(counts + errors)}. Intervals: 95%, by resampling whole programs. A stage counts only after those "
        "before it; Equal Pass is a legal step whose program keeps every bit of the state before.</p>",
        _scrolled(bars("How far answers get", [_bar(label, estimate) for label, estimate in named], 1.0)),
        table(("stage", "share [95%]", "answers"), [(n, shown(e), e["count"]) for n, e in named]),
        "<h2>By family</h2>",
        _scrolled(
            bars(
                "Equal, by family",
                [_bar(name, f["rates"]["equal"], f"of {f['answers']}") for name, f in summary["families"].items()],
                1.0,
            )
        ),
        table(
            ("family", "answers", *(LABELS[name] for name in RATES)),
            [
                (name, f["answers"], *(number(f["rates"][rate]["value"], True) for rate in RATES))
                for name, f in summary["families"].items()
            ],
        ),
        "<h2>Strategies</h2>",
        table(
            ("strategy", "claimed", "accepted"),
            [(name, c["claimed"], c["accepted"]) for name, c in summary["strategies"]["counts"].items()],
        ),
        f"<p>Entropy: {summary['strategies']['entropy_bits_claimed']} bits of what was claimed, "
        f"{summary['strategies']['entropy_bits_accepted']} of what was accepted.</p>",
        "<h2>Where answers fall first</h2>",
        table(("stage: code", "answers"), failures[:40]) if failures else "<p>None fell.</p>",
    ]
    samples = summary["samples"]
    if samples.get("a_question", 1) > 1:
        rows = [(name.replace("_", " "), shown(e)) for name, e in samples.items() if isinstance(e, dict)]
        parts += [f"<h2>{samples['a_question']} samples a state</h2>", table(("", "share [95%]"), rows)]
    if speed := summary["speedup"]:
        rows = [("geometric mean", shown(speed["geometric_mean"], False)), ("best", number(speed["best"], False))]
        rows += [(f"share of answers more than {b} times as fast", shown(e)) for b, e in speed["faster"].items()]
        parts += [f"<h2>Speedup over the state before ({speed['timed']} timed)</h2>", table(("", "[95%]"), rows)]
    if summary["tokens"]:
        rows = [(name, shown(estimate, False)) for name, estimate in summary["tokens"].items()]
        parts += ["<h2>A reply's tokens and seconds, mean</h2>", table(("", "[95%]"), rows)]
    return page(title, [*parts, _about(about)])


def search_page(title: str, about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """The page of `stepTP.evaluate.searching.summarise_searches`."""
    found = [e for row in rows for e in row["families"].values()]
    most = max((value for e in found for value in (e["value"], e["high"]) if value is not None), default=None)
    totals = Counter[str]()
    for row in rows:
        totals.update(row["strategies"])
    strategies = sorted(totals, key=lambda name: (-totals[name], name))
    parts = [
        "<p>Speedups are over the source's own program unless another baseline is named; a search that finds nothing "
        "better has 1. Means are over programs, intervals 95% by resampling them. Efficiency: steps on the way to the "
        "best state, of all that were proposed.</p>",
        _scrolled(
            bars(
                "Best speedup over the source, geometric mean",
                [_bar(row["name"], row["best"]["geometric_mean"]) for row in rows],
                percent=False,
            )
        ),
        _scrolled(
            lines("Best speedup so far, geometric mean", [(row["name"], row["curve"]) for row in rows], "evaluations")
        ),
        table(*search_lines(rows)),
        "<h2>By family</h2>",
        *(
            _scrolled(
                bars(row["name"], [_bar(family, e) for family, e in row["families"].items()], most, percent=False)
            )
            for row in rows
        ),
        "<h2>Strategies</h2>",
        "<p>Steps that were taken, and in brackets those on the way to the best state.</p>",
        table(("strategy", *(row["name"] for row in rows)), [_taken(name, rows) for name in strategies]),
        _about(about),
    ]
    return page(title, parts)


def _taken(strategy: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """The line of a strategy: of each search how often it was taken."""
    counts = ((row["strategies"].get(strategy, 0), row["strategies_on_best"].get(strategy, 0)) for row in rows)
    return [strategy, *(f"{steps} ({best})" if best else f"{steps or ''}" for steps, best in counts)]


def search_lines(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The figures of searches: a header with a column a search, and a line a figure that one of them has."""
    figures: list[tuple[str, list[object]]] = [
        ("programs", [row["programs"] for row in rows]),
        ("best, geometric mean", [shown(row["best"]["geometric_mean"], False) for row in rows]),
        ("best, mean", [shown(row["best"]["mean"], False) for row in rows]),
        ("best of all", [number(row["best"]["most"], False) for row in rows]),
        ("improved", [shown(row["best"]["improved"]) for row in rows]),
        ("mean of states", [shown(row["mean_of_states"], False) for row in rows]),
        ("over eager", [shown(row["over_eager"], False) for row in rows]),
        ("over compiled", [shown(row["over_compiled"], False) for row in rows]),
        ("efficiency", [shown(row["efficiency"]) for row in rows]),
        ("depth", [shown(row["depth"], False) for row in rows]),
        ("evaluations", [row["evaluations"] for row in rows]),
        ("measurements", [row["measurements"] for row in rows]),
        ("tokens", ["" if row["tokens"] is None else row["tokens"] for row in rows]),
        ("seconds", [row["seconds"] for row in rows]),
    ]
    lines = [[name, *map(str, values)] for name, values in figures]
    return ["search / policy / objective", *(row["name"] for row in rows)], [line for line in lines if any(line[1:])]


def _scrolled(html: str) -> str:
    return f'<div class="scroll">{html}</div>'


def _about(about: dict[str, Any]) -> str:
    """What was evaluated: what was asked for, without what was left open."""
    said = {True: "yes", False: "no"}
    rows = [
        (name, said[value] if isinstance(value, bool) else value)
        for name, value in sorted(about.items())
        if value not in (None, "", (), [])
    ]
    return f"<h2>What was evaluated</h2><div class=about>{table(('', ''), rows)}</div>"


def _bar(label: str, estimate: dict[str, Any], note: str = "") -> Bar:
    return Bar(label, estimate["value"], estimate["low"], estimate["high"], note)
