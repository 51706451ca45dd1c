"""A search as a picture: the best state known after each evaluation, and every state that was valued, as SVG."""

import math
from html import escape

from stepTP.search.env import Environment

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 720, 360, 64, 44, 58, 16
_STATE, _BEST = "#7a9cc6", "#c0392b"


def plot(env: Environment, title: str) -> str:
    """The speedup over the source, on a scale of powers of two, against the number of the state."""
    valued = [(node.number, env.gain(node)) for node in env.nodes if math.isfinite(env.gain(node))]
    last = max(1, len(env.nodes) - 1)
    ticks = _ticks(2 ** min(gain for _, gain in valued), 2 ** max(gain for _, gain in valued))
    low, high = math.log2(ticks[0]), math.log2(ticks[-1])

    def x(number: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * number / last, 1)

    def y(gain: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * (gain - low) / (high - low), 1)

    end = _WIDTH - _RIGHT
    about = f"speedup over the source, {env.objective.name} for {env.settings.target}"
    parts = [
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="40" fill="#666">{escape(about)}</text>',
        f'<rect x="{end - 190}" y="33" width="6" height="6" rx="3" fill="{_STATE}"/>',
        f'<text x="{end - 180}" y="40">a state</text>',
        f'<path d="M{end - 112} 36h18" stroke="{_BEST}" stroke-width="2"/>',
        f'<text x="{end - 88}" y="40">the best so far</text>',
    ]
    for speedup in ticks:
        height = y(math.log2(speedup))
        parts.append(f'<line x1="{_LEFT}" x2="{end}" y1="{height}" y2="{height}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{height + 4}" text-anchor="end">{speedup:.4g}x</text>')
    below = _HEIGHT - _BOTTOM + 18
    parts += [f'<text x="{x(n)}" y="{below}" text-anchor="middle">{n}</text>' for n in sorted({0, last // 2, last})]
    axis = "states, in order of arrival"
    parts.append(f'<text x="{(_WIDTH + _LEFT) // 2}" y="{_HEIGHT - 8}" text-anchor="middle">{axis}</text>')
    parts += [f'<circle cx="{x(number)}" cy="{y(gain)}" r="2.5" fill="{_STATE}"/>' for number, gain in valued]
    best, path = -math.inf, ""
    for number, gain in valued:
        if gain > best:
            path += f"H{x(number)}V{y(gain)}" if path else f"M{x(number)},{y(gain)}"
            best = gain
    parts.append(f'<path d="{path}H{x(last)}" fill="none" stroke="{_BEST}" stroke-width="2"/>')
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(parts) + "\n</svg>\n"


def _ticks(least: float, most: float) -> list[float]:
    """Speedups from below the least to above the most: powers of two, or round numbers where these lie close."""
    if most < 3 * least:
        step = next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (most - least) / step <= 6), 1.0)
        first = max(1, math.floor(least / step))
        return [round(n * step, 2) for n in range(first, max(first + 1, math.ceil(most / step)) + 1)]
    low, high = math.floor(math.log2(least)), math.ceil(math.log2(most))
    step_of_powers = max(1, (high - low) // 8)
    return [2.0**n for n in range(low, high + step_of_powers, step_of_powers)]
