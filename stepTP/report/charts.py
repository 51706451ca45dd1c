"""Charts as HTML and SVG text: no script, no library, colours by the page's variables."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from statistics import fmean, median


def bars(rows: Iterable[tuple[str, int, str, str]], most: int | None = None) -> str:
    """Horizontal bars: label, count, what stands beside the count, and the class that colours it."""
    found = list(rows)
    top = most or max((count for _, count, _, _ in found), default=1) or 1
    lines = "".join(
        f'<div class="bar {escape(kind)}" title="{escape(label)}: {count:,} {escape(note)}">'
        f'<span class="label">{name_text(label)}</span>'
        f'<span class="track">{_filled(100 * count / top)}</span>'
        f'<span class="count">{count:,}</span><span class="note">{escape(note)}</span></div>'
        for label, count, note, kind in found
    )
    return f'<div class="bars">{lines}</div>'


def _filled(percent: float) -> str:
    return f'<i style="width:{percent:.2f}%"></i>' if percent else ""


def name_text(name: str) -> str:
    """A name as HTML that may be broken after its underscores."""
    return escape(name).replace("_", "_<wbr>")


def histogram(values: Sequence[float], title: str, bins: int = 24) -> str:
    """A histogram with mean and median; the last bin takes what lies beyond the 99th percentile."""
    if not values:
        return ""
    ordered = sorted(values)
    middle, low = median(ordered), ordered[0]
    high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    step = (high - low) / bins or 1.0
    counts = Counter(min(bins - 1, int((value - low) / step)) for value in values)
    top, width, height = max(counts.values()), 260, 84
    columns = "".join(
        f'<rect x="{n * width / bins:.1f}" y="{height - height * counts[n] / top:.1f}" '
        f'width="{width / bins - 1:.1f}" height="{height * counts[n] / top:.1f}">'
        f"<title>{low + n * step:.4g} {f'to {low + (n + 1) * step:.4g}' if n < bins - 1 else 'and more'}: "
        f"{counts[n]:,}</title></rect>"
        for n in range(bins)
        if counts[n]
    )
    mark = min((middle - low) / step / bins, 1) * width
    end = f"{high:.4g}{' and more' if ordered[-1] > high else ''}"
    return (
        f"<figure><figcaption>{escape(title)}<b>mean {fmean(values):.4g}, median {middle:.4g}</b></figcaption>"
        f'<svg viewBox="0 0 {width} {height + 16}" class="histogram" role="img" aria-label="{escape(title)}">{columns}'
        f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="0" y2="{height}"/>'
        f'<text x="0" y="{height + 13}">{low:.4g}</text>'
        f'<text x="{width}" y="{height + 13}" text-anchor="end">{end}</text></svg></figure>'
    )


def error_map(points: Sequence[tuple[float, float, str]]) -> str:
    """Largest error against its tolerance, both by thirds of decades: how many verdicts lie in each cell."""
    if not points:
        return ""
    cells = Counter((_third(tolerance), _third(error)) for error, tolerance, _ in points)
    left, right = min(x for x, _ in cells), max(x for x, _ in cells) + 1
    low, high = min(y for _, y in cells), max(max(y for _, y in cells) + 1, right)
    size, edge = max(5.0, min(11.0, 620 / (right - left + high - low))), 44
    width, height = (right - left) * size, (high - low) * size
    top = max(cells.values())

    def at(x: float, y: float) -> tuple[float, float]:
        return edge + (x - left) * size, height - (y - low) * size + 6

    squares = "".join(
        f'<rect x="{at(x, y + 1)[0]:.1f}" y="{at(x, y + 1)[1]:.1f}" width="{size - 0.6:.1f}" height="{size - 0.6:.1f}" '
        f'style="opacity:{0.25 + 0.75 * math.log1p(count) / math.log1p(top):.2f}"><title>tolerance about '
        f"{10 ** (x / 3):.1e}, error about {10 ** (y / 3):.1e}: {count:,}</title></rect>"
        for (x, y), count in sorted(cells.items())
    )
    (x1, y1), (x2, y2) = at(max(left, low), max(left, low)), at(min(right, high), min(right, high))
    ticks = "".join(
        f'<text x="{at(x, low)[0]:.1f}" y="{height + 22:.1f}" text-anchor="middle">1e{x // 3}</text>'
        for x in range(left, right + 1)
        if x % 9 == 0
    ) + "".join(
        f'<text x="{edge - 6}" y="{at(left, y)[1] + 3:.1f}" text-anchor="end">1e{y // 3}</text>'
        for y in range(low, high + 1)
        if y % 9 == 0
    )
    middle = f"{height / 2:.0f}"
    return (
        f'<svg viewBox="0 0 {width + edge + 12:.0f} {height + 44:.0f}" class="map" role="img" '
        f'aria-label="error against tolerance" style="max-width:{width + edge + 12:.0f}px">{squares}'
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>{ticks}'
        f'<text x="{edge + width / 2:.0f}" y="{height + 38:.0f}" text-anchor="middle">tolerance</text>'
        f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">error</text>'
        "</svg>"
    )


def grid(names: Sequence[tuple[str, str]], families: Sequence[str], counts: dict[tuple[str, str], int]) -> str:
    """Rows by strategy (with its level) and family, as a table of shades."""
    top = max(counts.values(), default=1)
    head = "".join(f'<th class="side"><span>{escape(family)}</span></th>' for family in families)
    body = "".join(
        f'<tr class="{escape(level)}"><th>{name_text(name)}</th>'
        + "".join(
            f'<td title="{escape(name)}, {escape(family)}: {n:,}" '
            f'style="--shade:{math.sqrt(n / top):.3f}"{"" if n else " class=none"}></td>'
            for family, n in ((family, counts.get((name, family), 0)) for family in families)
        )
        + "</tr>"
        for name, level in names
    )
    top_row = f"<thead><tr><th></th>{head}</tr></thead>"
    return f'<div class="scroll"><table class="grid">{top_row}<tbody>{body}</tbody></table></div>'


def _third(value: float) -> int:
    """The third of a decade that a number lies in."""
    return math.floor(math.log10(value) * 3)
