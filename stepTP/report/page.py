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
from stepTP.report.charts import bars, error_map, grid, histogram, name_text
from stepTP.report.figures import LEVELS, Figures, chosen_rows, figures_of, step_rows
from stepTP.report.marks import side_by_side

_UNMEASURED = "<p>Nothing was measured; <code>steptp measure</code> times programs.</p>"
_MOST_FACTS = 24  # by which refusals are shown; the others are folded away
_SECTIONS = {
    "balance": "Balance", "verification": "Errors", "lengths": "Tokens", "refusals": "Refusals",
    "speed": "Speed", "rows": "Rare and slow", "browse": "Rows",
}  # fmt: skip


def page(folder: Path, most: int = 400) -> str:
    """The report of a finished run or a published folder. `most`: rows that can be browsed."""
    steps = step_rows(folder)
    figures = figures_of(folder, steps)
    chosen = chosen_rows(steps, figures, most)
    shown = {
        "run": str(folder),
        "sources": {row.source.id: row.source.torch_code for row in chosen},
        "rows": [_row(row, measurements) for row, measurements in _with_latency(chosen, measurements_of(folder))],
    }
    data = json.dumps(shown, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    own = files("stepTP.report")
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title in _SECTIONS.items())
    body = (
        _balance(figures) + _verification(figures) + _lengths(figures) + _refused(figures) + _speed(figures)
        + _notable(figures) + _browser(len(chosen), len(steps))
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
        tiles["verified a second"] = f"{figures.rate:.3g}"
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
        (name, count, f"{count / total:.1%}, {_counted(families, 'family', 'families')}", level)
        for name, level, count, families in figures.strategies
    )
    families = bars((name, count, f"{count / total:.1%}", "") for name, count in figures.families)
    depths = bars((f"depth {depth}", count, f"{count / total:.1%}", "") for depth, count in figures.depths)
    splits = bars((split, count, f"{count / total:.1%}", "") for split, count in figures.splits)
    short = f"<h3>By depth</h3>{depths}<h3>By split</h3>{splits}"
    left, right = ("", short) if len(figures.families) < len(figures.strategies) else (short, "")
    names = [(name, level) for name, level, _, _ in figures.strategies]
    possible = log2(len(figures.strategies)) if figures.strategies else 0.0
    return _section(
        "balance",
        "Balance",
        f"The strategies' distribution has {figures.entropy:.2f} bits of entropy, of {possible:.2f} possible.",
        f'<div class="keys">{keys}</div><div class="two"><div><h3>Steps by strategy</h3>{strategies}{left}</div>'
        f"<div><h3>Steps by family of the source</h3>{families}{right}</div></div>"
        f"<h3>Strategy by family</h3>{grid(names, sorted(name for name, _ in figures.families), figures.grid)}",
    )


def _verification(figures: Figures) -> str:
    count = len(figures.errors) + figures.exact
    lead = (
        f"{count:,} verdicts; {figures.exact:,} without any error. Each square is the largest error of some programs "
        "against the tolerance that was derived for that element; on the dashed line it would use all of its bound."
    )
    used = histogram(figures.bounds, "Largest share of a bound used")
    worst = _table(
        ("target", "verdicts", "most of a bound used", "largest relative error", "most ULP"),
        [
            (
                escape(target),
                f"{found['rows']:,}",
                *(f"{found[key]:.3g}" for key in ("bound_used", "max_rel", "max_ulp")),
            )
            for target, found in figures.worst.items()
        ],
    )
    return _section(
        "verification",
        "Error against tolerance",
        lead,
        f'<div class="two"><div>{error_map(figures.errors)}</div><div>{used}<h3>The largest of all</h3>{worst}</div>'
        "</div>",
    )


def _lengths(figures: Figures) -> str:
    names = {"leir": "LEIR", "tir": "TIR", "cuda": "CUDA", "reasoning": "Reasoning"}
    drawn = "".join(histogram(figures.tokens[form], title) for form, title in names.items())
    forms = {form: figures.token_figures.get(f"leir_fewer_than_{form}") for form in ("tir", "cuda")}
    saved = "".join(f" LEIR takes {share:.1%} fewer than {names[form]}." for form, share in forms.items() if share)
    if not drawn:
        drawn = "<p>Tokens were not counted in this run.</p>"
    return _section(
        "lengths",
        "Tokens",
        f"Of the program after the step in each spelling, and of the reasoning.{saved}",
        f'<div class="four">{drawn}</div>',
    )


def _refused(figures: Figures) -> str:
    lines = [(fact, count, _counted(n, "strategy", "strategies"), "") for fact, count, n in figures.refusals]
    most = lines[0][1] if lines else None
    facts = bars(lines[:_MOST_FACTS], most) if lines else "<p>None.</p>"
    if rest := lines[_MOST_FACTS:]:
        count = f"{_counted(len(rest), 'fact', 'facts')} more, {sum(n for _, n, _, _ in rest):,} refusals"
        facts += f"<details><summary>{count}</summary>{bars(rest, most)}</details>"
    causes = bars((cause, count, "", "") for cause, count in figures.rejected) if figures.rejected else "<p>None.</p>"
    return _section(
        "refusals",
        "Refusals and rejections",
        "A refusal is an illegal proposal, by the fact that refused it. What is rejected became none of the other "
        "rows, by stage and cause.",
        f'<div class="two"><div><h3>Refusals by fact</h3>{facts}</div>'
        f"<div><h3>Rejected, by stage and cause</h3>{causes}</div></div>",
    )


def _speed(figures: Figures) -> str:
    drawn = "".join(
        f"<div><h3>{escape(where)}</h3>{bars((name, count, span, '') for name, span, count in tally)}</div>"
        for where, tally in figures.speedups.items()
    )
    lead = "Measured speedups of the program after a step against the one before it, in bins; within noise is no bin."
    return _section("speed", "Speed", lead, f'<div class="two">{drawn}</div>' if drawn else _UNMEASURED)


def _notable(figures: Figures) -> str:
    rare = _table(
        ("step", "family", "rows of its strategy"),
        [(_link(row, strategy), name_text(family), f"{count:,}") for row, strategy, family, count in figures.rarest],
        right=(2,),
    )
    slow = _table(
        ("step", "where", "median", "speedup"),
        [
            (
                _link(slow.row, slow.strategy),
                escape(slow.where),
                f"{slow.median_us:,.4g} µs",
                "" if slow.speedup is None else f"{slow.speedup:.3g}×",
            )
            for slow in figures.slowest
        ],
        right=(2, 3),
    )
    return _section(
        "rows",
        "Rare and slow",
        "One row of each of the rarest strategies. The slowest programs that were measured, each with a step that "
        "leads to it; the speedup is over the program before that step.",
        f'<div class="two"><div><h3>The rarest</h3>{rare}</div>'
        f"<div><h3>The slowest</h3>{slow if figures.slowest else _UNMEASURED}</div></div>",
    )


def _browser(shown: int, total: int) -> str:
    chosen = (
        f"All {total:,} rows."
        if shown == total
        else f"{shown:,} of {total:,} rows: those named above, then rows of each strategy in turn; "
        "<code>steptp report --rows</code> takes more."
    )
    filters = "".join(
        f'<select id="by-{name}" aria-label="{name}"><option value="">every {name}</option></select>'
        for name in ("strategy", "family", "depth")
    )
    turn = (
        '<div class="turn"><button type="button" id="previous" title="previous row (k)">‹ previous</button>'
        '<span id="place"></span><button type="button" id="next" title="next row (j)">next ›</button></div>'
    )
    return _section(
        "browse",
        "Rows",
        f'{chosen} <span id="told" aria-live="polite"></span>',
        f'<div class="filters">{filters}<input id="by-text" type="search" aria-label="search" '
        'placeholder="search programs, steps, reasoning"></div>'
        f'<div class="browser"><ul id="list"></ul><div id="pane">{turn}<div id="row"></div></div></div>',
    )


def _footer(figures: Figures) -> str:
    tools = ", ".join(f"{name} {version}" for name, version in sorted(figures.identity.tool_versions.items()))
    return f"<footer>Configuration {figures.identity.config_hash[:12]}. {escape(tools)}.</footer>"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _table(head: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[int] | None = None) -> str:
    """A table of HTML cells. `right`: the columns set to the right; all but the first by default."""
    numbers = range(1, len(head)) if right is None else right
    kinds = [" class=n" if n in numbers else "" for n in range(len(head))]
    top = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, kinds, strict=True))
    lines = "".join(
        "<tr>" + "".join(f"<td{kind}>{value}</td>" for value, kind in zip(line, kinds, strict=True)) + "</tr>"
        for line in body
    )
    return f'<div class="scroll"><table class="list"><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>'


def _link(row: str, text: str) -> str:
    return f'<a class="mono" href="#row={escape(row)}">{name_text(text)}</a>'


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
    chips += [f"takes {_counted(row.undoes, 'step', 'steps')} back"] if row.undoes else []
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
        "source": row.source.id,
        "path": [json.dumps(taken.model_dump(), ensure_ascii=False) for taken in row.path],
    }  # fmt: skip


def _faster(measured: MeasurementRow, row: StepRow) -> str:
    found = measured.speedup_vs_parent
    if found is None or measured.parent_state_id != row.state_id_before:
        return ""
    return f"{found.ratio:.3g}×, {'within noise' if found.within_noise else found.bin}"
