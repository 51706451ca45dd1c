"""A search as a picture: the best state known after each evaluation, and every state that was valued, as SVG."""

import math
from html import escape

from stepTP.search.env import Environment

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 360, 64, 44, 36


def plot(env: Environment, title: str) -> str:
    """The speedup over the source, on a scale of powers of two, against the number of the state."""
    valued = [(node.number, env.gain(node)) for node in env.nodes if math.isfinite(env.gain(node))]
    last = max(1, len(env.nodes) - 1)
    low = math.floor(min(gain for _, gain in valued))
    high = max(low + 1, math.ceil(max(gain for _, gain in valued)))

    def x(number: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 16) * number / last, 1)

    def y(gain: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * (gain - low) / (high - low), 1)

    parts = [f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>']
    step = max(1, (high - low) // 8)
    for gain in range(low, high + 1, step):
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 16}" y1="{y(gain)}" y2="{y(gain)}" stroke="#ddd"/>')
        label = f"{2**gain:g}x" if gain >= 0 else f"1/{2**-gain:g}"
        parts.append(f'<text x="{_LEFT - 8}" y="{y(gain) + 4}" text-anchor="end">{label}</text>')
    below = _HEIGHT - _BOTTOM + 18
    parts += [f'<text x="{x(n)}" y="{below}" text-anchor="middle">{n}</text>' for n in sorted({0, last // 2, last})]
    axis = "states, in order of arrival"
    parts.append(f'<text x="{(_WIDTH + _LEFT) // 2}" y="{_HEIGHT - 8}" text-anchor="middle">{axis}</text>')
    parts += [f'<circle cx="{x(number)}" cy="{y(gain)}" r="2.5" fill="#7a9cc6"/>' for number, gain in valued]
    best, path = -math.inf, ""
    for number, gain in valued:
        if gain > best:
            path += f"H{x(number)}V{y(gain)}" if path else f"M{x(number)},{y(gain)}"
            best = gain
    parts.append(f'<path d="{path}H{x(last)}" fill="none" stroke="#c0392b" stroke-width="2"/>')
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(parts) + "\n</svg>\n"
