"""The page: figures drawn, and rows to browse, in one file that loads nothing."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from math import log2
from pathlib import Path
from typing import Any

from stepTP.publish.published import measurements_of
from stepTP.records import MeasurementRow, StepRow
from stepTP.report.charts import LEVELS, bars, error_map, grid, histogram
from stepTP.report.figures import Figures, chosen_rows, figures_of
from stepTP.report.marks import side_by_side
from stepTP.stats import run_rows

_SECTIONS = {
    "balance": "Balance", "verification": "Verification", "lengths": "Lengths", "refusals": "Refusals",
    "speed": "Speed", "rows": "Rare and slow", "browse": "Browse",
}  # fmt: skip


def page(folder: Path, most: int = 400) -> str:
    """The report of a finished run or a published folder. `most`: rows that can be browsed."""
    figures = figures_of(folder)
    steps = [row for row in run_rows(folder, "steps") if isinstance(row, StepRow)]
    chosen = chosen_rows(steps, figures, most)
    shown = [_row(row, measurements) for row, measurements in _with_latency(chosen, measurements_of(folder))]
    data = json.dumps(shown, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    own = files("stepTP.report")
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title in _SECTIONS.items())
    body = (
        _balance(figures) + _verification(figures) + _lengths(figures) + _refused(figures) + _speed(figures)
        + _notable(figures) + _browser(len(shown), len(steps))
    )  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(figures.name)}: stepTP</title><style>{own.joinpath('page.css').read_text(encoding='utf-8')}"
        f"</style></head><body>{_header(figures)}<nav><div>{links}</div></nav><main>{body}{_footer(figures)}</main>"
        f'<script type="application/json" id="data">{data}</script>'
        f"<script>{own.joinpath('page.js').read_text(encoding='utf-8')}</script></body></html>\n"
    )


def _header(figures: Figures) -> str:
    tiles = {
        "verified steps": f"{figures.rows['steps']:,}",
        "strategies": f"{len(figures.strategies)}",
        "families": f"{len(figures.families)}",
        "programs": f"{figures.rows['programs']:,}",
        "trajectories": f"{figures.rows['trajectories']:,}",
        "choices": f"{figures.rows['choices']:,}",
        "refusals": f"{figures.rows['refusals']:,}",
        "rejected": f"{figures.rows['rejected']:,}",
    }
    if figures.rate is not None:
        tiles["rows a second"] = f"{figures.rate.rows / figures.rate.seconds:.3g}"
    drawn = "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in tiles.items())
    targets = ", ".join(figures.identity.config.get("verify", {}).get("targets", ()))
    return (
        f"<header><div><h1>{escape(figures.name)}</h1><p class=soft>Steps of tensor-program optimisation, each "
        f"verified against its PyTorch source on {escape(targets)}. Seed {figures.identity.seed}, code "
        f'<span class="mono">{escape(figures.identity.code_version)}</span>.</p>'
        f'<div class="tiles">{drawn}</div></div></header>'
    )


def _section(key: str, title: str, lead: str, body: str) -> str:
    return f'<section id="{key}"><h2>{title}</h2><p class="soft">{lead}</p>{body}</section>'


def _balance(figures: Figures) -> str:
    total = figures.rows["steps"] or 1
    keys = "".join(f'<span class="{level}"><i></i>{level} {count:,}</span>' for level, count in figures.levels)
    strategies = bars(
        (name, count, f"{count / total:.1%}, {families} families", level)
        for name, level, count, families in figures.strategies
    )
    families = bars((name, count, f"{count / total:.1%}", "") for name, count in figures.families)
    depths = bars((f"depth {depth}", count, f"{count / total:.1%}", "") for depth, count in figures.depths)
    splits = bars((split, count, f"{count / total:.1%}", "") for split, count in figures.splits)
    names = [(name, level) for name, level, _, _ in figures.strategies]
    possible = log2(len(figures.strategies)) if figures.strategies else 0.0
    return _section(
        "balance",
        "Balance",
        f"The strategies' distribution has {figures.entropy:.2f} bits of entropy, of {possible:.2f} possible.",
        f'<div class="keys">{keys}</div><div class="two"><div><h3>Steps by strategy</h3>{strategies}</div>'
        f"<div><h3>Steps by family of the source</h3>{families}<h3>By depth</h3>{depths}"
        f"<h3>By split</h3>{splits}</div></div>"
        f"<h3>Strategy by family</h3>{grid(names, sorted(name for name, _ in figures.families), figures.grid)}",
    )


def _verification(figures: Figures) -> str:
    count = len(figures.errors) + figures.exact
    lead = (
        f"{count:,} verdicts; {figures.exact:,} without any error. Each square is the largest error of some programs "
        "against the tolerance that was derived for that element; on the dashed line it would use all of its bound."
    )
    used = histogram(figures.bounds, "Largest share of a bound used")
    return _section(
        "verification",
        "Error against tolerance",
        lead,
        f'<div class="two"><div>{error_map(figures.errors)}</div><div>{used}</div></div>',
    )


def _lengths(figures: Figures) -> str:
    names = {"leir": "LEIR", "tir": "TIR", "cuda": "CUDA", "reasoning": "Reasoning"}
    drawn = "".join(histogram(figures.tokens[form], title) for form, title in names.items())
    if not drawn:
        drawn = "<p>Tokens were not counted in this run.</p>"
    return _section(
        "lengths",
        "Tokens",
        "Of the program after the step in each spelling, and of the reasoning.",
        f'<div class="four">{drawn}</div>',
    )


def _refused(figures: Figures) -> str:
    facts = bars((fact, count, _counted(strategies), "") for fact, count, strategies in figures.refusals[:24])
    causes = bars((cause, count, "", "") for cause, count in figures.rejected)
    return _section(
        "refusals",
        "Refusals and rejections",
        "A refusal is an illegal proposal, by the fact that refused it. What is rejected was legal, and became no row.",
        f'<div class="two"><div><h3>Refusals by fact</h3>{facts or "<p>None.</p>"}</div>'
        f"<div><h3>Rejected, by stage and cause</h3>{causes or '<p>None.</p>'}</div></div>",
    )


def _speed(figures: Figures) -> str:
    drawn = "".join(
        f"<div><h3>{escape(where)}</h3>{bars((name, count, '', '') for name, count in tally)}</div>"
        for where, tally in figures.speedups.items()
    )
    lead = "Measured speedups of the program after a step against the one before it, in bins; within noise is no bin."
    return _section(
        "speed", "Speed", lead, f'<div class="two">{drawn}</div>' if drawn else "<p>Nothing was measured.</p>"
    )


def _notable(figures: Figures) -> str:
    rare = _table(
        ("step of a rare strategy", "family", "rows of it"),
        [(_link(name, strategy), escape(family), f"{count:,}") for name, strategy, family, count in figures.rarest],
    )
    slow = _table(
        ("step to a slow program", "median", "speedup"),
        [
            (_link(name, strategy), f"{latency:.4g} µs", f"{ratio:.3g}×" if ratio else "")
            for name, strategy, latency, ratio in figures.slowest
        ],
    )
    slow = slow if figures.slowest else "<p>Nothing was measured.</p>"
    return _section(
        "rows",
        "Rare and slow",
        "One row of each of the rarest strategies; the slowest programs that were measured.",
        f'<div class="two"><div>{rare}</div><div>{slow}</div></div>',
    )


def _browser(shown: int, total: int) -> str:
    chosen = (
        "All rows."
        if shown == total
        else f"{shown:,} of {total:,} rows: those named above, then of each strategy in turn."
    )
    filters = "".join(
        f'<select id="by-{name}" aria-label="{name}"><option value="">every {name}</option></select>'
        for name in ("strategy", "family", "depth")
    )
    return _section(
        "browse",
        "Rows",
        f'{chosen} <span id="told"></span>',
        f'<div class="filters">{filters}<input id="by-text" type="search" aria-label="search" '
        'placeholder="search programs, steps, reasoning"></div>'
        '<div class="browser"><ul id="list"></ul><div id="row"></div></div>',
    )


def _footer(figures: Figures) -> str:
    tools = ", ".join(f"{name} {version}" for name, version in sorted(figures.identity.tool_versions.items()))
    return f"<footer>Configuration {figures.identity.config_hash[:12]}. {escape(tools)}.</footer>"


def _counted(strategies: int) -> str:
    return f"{strategies} {'strategy' if strategies == 1 else 'strategies'}"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th{' class=n' if n else ''}>{escape(name)}</th>" for n, name in enumerate(head))
    lines = "".join(
        "<tr>" + "".join(f"<td{' class=n' if n else ''}>{value}</td>" for n, value in enumerate(line)) + "</tr>"
        for line in body
    )
    return f'<table class="list"><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>'


def _link(row: str, text: str) -> str:
    return f'<a class="mono" href="#row={escape(row)}">{escape(text)}</a>'


def _with_latency(
    rows: Sequence[StepRow], measured: Sequence[MeasurementRow]
) -> list[tuple[StepRow, list[MeasurementRow]]]:
    found: dict[tuple[str, str], list[MeasurementRow]] = {}
    for row in measured:
        if row.subject == "program" and row.timing is not None and row.status == "ok":
            found.setdefault((row.source_id, row.state_id), []).append(row)
    return [(row, found.get((row.source.id, row.state_id_after), [])) for row in rows]


def _row(row: StepRow, measured: Sequence[MeasurementRow]) -> dict[str, Any]:
    """What the browser shows of a row."""
    step = json.dumps({"strategy": row.strategy, "args": row.args}, ensure_ascii=False)
    tokens = [f"{name} {count} tokens" for name, count in row.tokens.model_dump().items() if count is not None]
    chips = [row.source.id, row.source.family, f"depth {row.depth}", row.split, *tokens]
    chips += [f"takes {row.undoes} back"] if row.undoes else []
    return {
        "id": row.id,
        "strategy": row.strategy,
        "level": row.level if row.level in LEVELS else "",
        "family": row.source.family,
        "depth": row.depth,
        "chips": chips,
        "step": step,
        "before": row.state_id_before[:8],
        "after": row.state_id_after[:8],
        "pairs": [(pair.before, pair.after) for pair in side_by_side(row.leir_before, row.leir_after)],
        "reasoning": row.reasoning.split("\n\n"),
        "facts": [(fact.name, fact.holds, fact.evidence) for fact in row.facts],
        "verification": [
            (v.target, f"{v.max_abs:.3g}", f"{v.tolerance:.3g}", f"{v.bound_used:.3g}", f"{v.max_ulp:.3g}",
             {True: "equal", False: "not equal", None: "not compared"}[v.bit_equal], ", ".join(v.inputs))
            for v in row.verification
        ],
        "latency": [
            (
                f"{m.target} on {m.machine.device}",
                f"{m.timing.median_us:.4g} µs ± {m.timing.spread_us:.2g}",
                _faster(m, row),
            )
            for m in measured
            if m.timing is not None
        ],
        "torch": row.source.torch_code,
        "path": [json.dumps(taken.model_dump(), ensure_ascii=False) for taken in row.path],
        "search": " ".join((row.id, step, row.leir_before, row.leir_after, row.reasoning)).lower(),
    }  # fmt: skip


def _faster(measured: MeasurementRow, row: StepRow) -> str:
    found = measured.speedup_vs_parent
    if found is None or measured.parent_state_id != row.state_id_before:
        return ""
    return f"{found.ratio:.3g}×, {'within noise' if found.within_noise else found.bin}"
