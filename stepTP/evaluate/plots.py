"""Plots as SVG text: bars with confidence intervals, and lines over steps. Nothing is drawn that is not in the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

BAR, GAP, WIDTH = 18, 8, 720
LETTER = 6.8  # the width of a letter at most, in the mean over a label
FILL = "#90cdf4"
COLOURS = ("#3182ce", "#dd6b20", "#38a169", "#805ad5", "#b7791f", "#d53f8c")  # to be read on white and on black


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
    left = 16 + LETTER * max((len(bar.label) for bar in entries), default=0)
    scale = (WIDTH - left - 130) / end
    height = 30 + len(entries) * (BAR + GAP)
    parts = [_head(height, title), f'<text x="0" y="14" class="title">{escape(title)}</text>']
    for n, bar in enumerate(entries):
        top = 26 + n * (BAR + GAP)
        middle = top + BAR / 2
        parts.append(f'<text x="{left - 8:.1f}" y="{middle + 4}" text-anchor="end">{escape(bar.label)}</text>')
        if bar.value is None:
            parts.append(f'<text x="{left:.1f}" y="{middle + 4}">no data</text>')
            continue
        parts.append(f'<rect x="{left:.1f}" y="{top}" width="{bar.value * scale:.1f}" height="{BAR}" fill="{FILL}"/>')
        if bar.low is not None and bar.high is not None:
            low, high = left + bar.low * scale, left + bar.high * scale
            parts.append(
                f'<path class="whisker" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8"/>'
                f'<path class="whisker" d="M{high:.1f} {middle - 4}v8"/>'
            )
        text = number(bar.value, percent) + (f"  {bar.note}" if bar.note else "")
        right = left + max(bar.value, bar.high or 0.0) * scale + 6
        parts.append(f'<text x="{right:.1f}" y="{middle + 4}">{escape(text)}</text>')
    return "".join((*parts, "</svg>"))


def lines(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]], along: str) -> str:
    """Lines through points (x, y), over the range of both axes; `along` names x. Empty where there is no point."""
    points = [point for _, line in series for point in line]
    if not points:
        return ""
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    wide, tall = WIDTH - 120, 220

    def place(x: float, y: float) -> str:
        across, up = (x - left) / ((right - left) or 1), (y - low) / ((high - low) or 1)
        return f"{50 + across * wide:.1f},{30 + tall - up * tall:.1f}"

    parts = [_head(tall + 60 + 18 * len(series), title), f'<text x="0" y="14" class="title">{escape(title)}</text>']
    parts.append(f'<path d="M50 30V{30 + tall}H{50 + wide}" class="axis"/>')
    for value in (low, (low + high) / 2, high) if high > low else (low,):
        y = float(place(left, value).split(",")[1])
        parts.append(f'<path d="M50 {y}H{50 + wide}" class="rule"/>')
        parts.append(f'<text x="44" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    parts.append(f'<text x="50" y="{46 + tall}">{left:g}</text>')
    parts.append(f'<text x="{50 + wide}" y="{46 + tall}" text-anchor="end">{right:g} {escape(along)}</text>')
    for n, (name, line) in enumerate(series):
        colour = COLOURS[n % len(COLOURS)]
        dashes = f' stroke-dasharray="{6 - n % 3} {3 * (n % 3)}"' if n % 3 else ""  # lines may lie on one another
        stroke = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        parts.append(f'<polyline points="{" ".join(place(*p) for p in line)}" {stroke}/>')
        middle = 62 + tall + 18 * n
        parts.append(f'<path d="M50 {middle}h28" {stroke}/>')
        parts.append(f'<text x="86" y="{middle + 4}" fill="{colour}">{escape(name)}</text>')
    return "".join((*parts, "</svg>"))


def number(value: float | None, percent: bool) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}%" if percent else f"{value:.3g}"


def _head(height: int, title: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
