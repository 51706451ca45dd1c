"""Plots as SVG text: bars with confidence intervals, and lines over steps. Nothing is drawn that is not in the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

BAR, GAP, LABEL, WIDTH = 18, 8, 190, 720
FILL = "#90cdf4"
COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b7791f", "#97266d")


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its interval; None where there is none."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


def bars(title: str, entries: Sequence[Bar], largest: float | None = None, percent: bool = True) -> str:
    """Horizontal bars, with a whisker over each interval. `largest`: where the axis ends; the largest value if None."""
    shown = [value for bar in entries for value in (bar.value, bar.high) if value is not None]
    end = largest or max(shown, default=1.0) or 1.0
    scale = (WIDTH - LABEL - 130) / end
    height = 30 + len(entries) * (BAR + GAP)
    parts = [_head(height, title), f'<text x="0" y="14" class="title">{escape(title)}</text>']
    for n, bar in enumerate(entries):
        top = 26 + n * (BAR + GAP)
        middle = top + BAR / 2
        parts.append(f'<text x="{LABEL - 8}" y="{middle + 4}" text-anchor="end">{escape(bar.label)}</text>')
        if bar.value is None:
            parts.append(f'<text x="{LABEL}" y="{middle + 4}">no data</text>')
            continue
        parts.append(f'<rect x="{LABEL}" y="{top}" width="{bar.value * scale:.1f}" height="{BAR}" fill="{FILL}"/>')
        if bar.low is not None and bar.high is not None:
            low, high = LABEL + bar.low * scale, LABEL + bar.high * scale
            parts.append(
                f'<path class="whisker" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8"/>'
                f'<path class="whisker" d="M{high:.1f} {middle - 4}v8"/>'
            )
        text = number(bar.value, percent) + (f"  {bar.note}" if bar.note else "")
        right = LABEL + max(bar.value, bar.high or 0.0) * scale + 6
        parts.append(f'<text x="{right:.1f}" y="{middle + 4}">{escape(text)}</text>')
    return "".join((*parts, "</svg>"))


def lines(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]], along: str) -> str:
    """Lines through points (x, y), with the range of both axes; `along` names x."""
    points = [point for _, line in series for point in line]
    if not points:
        return ""
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(0.0, *(y for _, y in points)), max(y for _, y in points)
    wide, tall = WIDTH - 120, 220

    def place(x: float, y: float) -> str:
        across, up = (x - left) / ((right - left) or 1), (y - low) / ((high - low) or 1)
        return f"{50 + across * wide:.1f},{30 + tall - up * tall:.1f}"

    parts = [_head(tall + 60 + 18 * len(series), title), f'<text x="0" y="14" class="title">{escape(title)}</text>']
    parts.append(f'<path d="M50 30V{30 + tall}H{50 + wide}" class="axis"/>')
    for value, y in ((high, 36), (low, 30 + tall)):
        parts.append(f'<text x="44" y="{y}" text-anchor="end">{value:.3g}</text>')
    parts.append(f'<text x="50" y="{46 + tall}">{left:g}</text>')
    parts.append(f'<text x="{50 + wide}" y="{46 + tall}" text-anchor="end">{right:g} {escape(along)}</text>')
    for n, (name, line) in enumerate(series):
        colour = COLOURS[n % len(COLOURS)]
        parts.append(
            f'<polyline points="{" ".join(place(*p) for p in line)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(f'<text x="50" y="{66 + tall + 18 * n}" fill="{colour}">{escape(name)}</text>')
    return "".join((*parts, "</svg>"))


def number(value: float | None, percent: bool) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}%" if percent else f"{value:.3g}"


def _head(height: int, title: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
