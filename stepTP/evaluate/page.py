"""An evaluation as one HTML page: tables and plots, no script, no network."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from stepTP.evaluate.metrics import LABELS, RATES
from stepTP.evaluate.plots import Bar, bars, lines, number

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a202c; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .2rem .7rem; border-bottom: 1px solid #e2e8f0; }
td { text-align: right; } td:first-child, th:first-child { text-align: left; } th { text-align: right; }
svg { max-width: 100%; height: auto; margin: 1rem 0; } svg text { font: 12px system-ui, sans-serif; }
svg .title { font-weight: 600; } .whisker, .axis { stroke: #1a202c; stroke-width: 1.2; fill: none; }
.small { color: #4a5568; font-size: 13px; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document of parts that are HTML."""
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table of plain values."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


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
    counts = f"{summary['answers']} answers to {summary['questions']} states of {summary['sources']} programs"
    errors = "".join(f"; {count} could not be judged ({kind})" for kind, count in summary["errors"].items())
    parts = [
        f"<p>{escape(counts + errors)}. Intervals: 95%, by resampling whole programs. A stage counts only after those "
        "before it; Equal Pass is a legal step whose program keeps every bit of the state before.</p>",
        bars("How far answers get", [_bar(label, estimate) for label, estimate in named], 1.0),
        table(("stage", "share [95%]", "answers"), [(n, shown(e), e["count"]) for n, e in named]),
        "<h2>By family</h2>",
        bars(
            "Equal, by family",
            [_bar(name, f["rates"]["equal"], f"of {f['answers']}") for name, f in summary["families"].items()],
            1.0,
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
        table(("stage: code", "answers"), list(summary["failures"].items())[:40]),
    ]
    if samples := summary["samples"]:
        rows = [(name.replace("_", " "), shown(e)) for name, e in samples.items() if isinstance(e, dict)]
        parts += [f"<h2>{samples['a_question']} samples a state</h2>", table(("", "share [95%]"), rows)]
    if speed := summary["speedup"]:
        rows = [("geometric mean", shown(speed["geometric_mean"], False)), ("best", number(speed["best"], False))]
        rows += [(f"share of answers more than {b} times as fast", shown(e)) for b, e in speed["faster"].items()]
        parts += [f"<h2>Speedup over the state before ({speed['timed']} timed)</h2>", table(("", "[95%]"), rows)]
    if summary["tokens"]:
        rows = [(name, shown(estimate, False)) for name, estimate in summary["tokens"].items()]
        parts += ["<h2>A reply's tokens and seconds, mean</h2>", table(("", "[95%]"), rows)]
    parts.append(f"<h2>What was evaluated</h2>{table(('', ''), sorted((k, v) for k, v in about.items()))}")
    return page(title, parts)


def search_page(title: str, about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """The page of `stepTP.evaluate.searching.summarise_searches`."""
    parts = [
        "<p>Speedups are over the source's own program unless another baseline is named; a search that finds nothing "
        "better has 1. Means are over programs, intervals 95% by resampling them. Efficiency: steps on the way to the "
        "best state, of all that were proposed.</p>",
        bars(
            "Best speedup over the source, geometric mean",
            [_bar(row["name"], row["best"]["geometric_mean"]) for row in rows],
            percent=False,
        ),
        lines("Best speedup so far, geometric mean", [(row["name"], row["curve"]) for row in rows], "evaluations"),
        search_table(rows),
        "<h2>By family</h2>",
        *(bars(row["name"], [_bar(family, e) for family, e in row["families"].items()], percent=False) for row in rows),
        "<h2>Strategies</h2>",
        *(
            f"<h3>{escape(row['name'])}</h3>"
            + table(
                ("strategy", "steps", "on the best way"),
                [(name, count, row["strategies_on_best"].get(name, 0)) for name, count in row["strategies"].items()],
            )
            for row in rows
        ),
        f"<h2>What was evaluated</h2>{table(('', ''), sorted(about.items()))}",
    ]
    return page(title, parts)


SEARCH_COLUMNS = (
    "search / policy / objective", "programs", "best, geometric mean", "mean", "most", "improved", "mean of states",
    "over eager", "over compiled", "efficiency", "depth", "evaluations", "measurements", "tokens", "seconds",
)  # fmt: skip


def search_cells(row: dict[str, Any]) -> tuple[object, ...]:
    """The columns of a search's figures."""
    return (
        row["name"], row["programs"], shown(row["best"]["geometric_mean"], False), shown(row["best"]["mean"], False),
        row["best"]["most"], shown(row["best"]["improved"]), shown(row["mean_of_states"], False),
        shown(row["over_eager"], False), shown(row["over_compiled"], False), shown(row["efficiency"]),
        shown(row["depth"], False), row["evaluations"], row["measurements"],
        "" if row["tokens"] is None else row["tokens"], row["seconds"],
    )  # fmt: skip


def search_table(rows: Sequence[dict[str, Any]]) -> str:
    """The figures of searches, a line each."""
    return table(SEARCH_COLUMNS, [search_cells(row) for row in rows])


def _bar(label: str, estimate: dict[str, Any], note: str = "") -> Bar:
    return Bar(label, estimate["value"], estimate["low"], estimate["high"], note)
