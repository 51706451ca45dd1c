"""A step row as text: for a terminal in its width and in colours, for a file plain."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

import typer

from stepTP.records import Comparison, MeasurementRow, StepRow
from stepTP.report.marks import Pair, Segment, side_by_side

_INDENT = "    "
_PROSE = 100  # letters of a line of reasoning at most
_BREAKS = "[;,=+*/("  # after one of these, outside of subscripts, a line of a program is best broken
_LEAST = 4  # letters of a further line
_LOOK_BACK = 20  # how many letters before the end one is looked for


def describe_row(row: StepRow, *, colours: bool = False, width: int | None = None) -> str:
    """A step row as text, each part under its name.

    `width`, of a terminal: what is longer goes on in further lines, deeper, and programs are laid out in lines.
    `colours`, with a width: what goes is red, what comes is green, and names of parts are bold.
    """
    step = json.dumps({"strategy": row.strategy, "args": row.args})
    counted = ", ".join(f"{name} {count}" for name, count in row.tokens.model_dump().items() if count is not None)
    about = f"source {row.source.id} ({row.source.family}), depth {row.depth}, level {row.level}"
    prose = min(_PROSE + len(_INDENT), width or _PROSE + len(_INDENT))
    before, after = row.leir_before.splitlines(), row.leir_after.splitlines()
    if width is None:
        programs = [[_INDENT + line for line in lines] for lines in (before, after)]
    else:
        programs = _programs(side_by_side(row.leir_before, row.leir_after), colours, width)
    parts = {
        f"row {row.id}": wrapped(about, width),
        f"before ({row.state_id_before[:8]})": programs[0],
        "step": wrapped(step, width),
        "facts": [line for fact in row.facts for line in wrapped(f"{fact.name}: {fact.evidence}", width)],
        f"after ({row.state_id_after[:8]})": programs[1],
        "reasoning": [
            line
            for text in row.reasoning.splitlines()
            if text or width
            for line in wrapped(text, prose, _INDENT) or [""]
        ],
        "verification": [line for text in _verdicts(row) for line in wrapped(text, width)],
        "tokens": wrapped(counted or "not counted", width),
    }
    return "\n\n".join("\n".join((typer.style(n, bold=True) if colours else n, *lines)) for n, lines in parts.items())


def describe_measurement(row: MeasurementRow, width: int | None = None) -> str:
    """How long a program takes, where, and against which others."""
    sizes = "".join(f", {name}={value}" for name, value in row.sizes.items())
    where = f"{row.target} on {row.machine.device}{sizes}"
    if row.timing is None or row.status != "ok":
        return "\n".join(wrapped(f"{where}: {row.status}: {row.message}", width))
    against = {"parent": row.speedup_vs_parent, "source": row.speedup_vs_source, "eager": row.speedup_vs_eager}
    speedups = "".join(f"; against {name} {compared(found)}" for name, found in against.items() if found)
    text = f"{where}: {row.timing.median_us:.4g} us (interquartile range {row.timing.spread_us:.2g}){speedups}"
    return "\n".join(wrapped(text, width))


def compared(found: Comparison | None) -> str:
    """A speedup in words: its ratio and bin, or that it is within noise; empty where there is none."""
    if found is None:
        return ""
    return f"{found.ratio:.3g} {'within noise' if found.within_noise else found.bin}"


def _verdicts(row: StepRow) -> Iterator[str]:
    for v in row.verification:
        equal = "" if v.bit_equal is None else ", bit-equal" if v.bit_equal else ", not bit-equal"
        yield (
            f"{v.target}, inputs {', '.join(v.inputs)}: max abs error {v.max_abs:.3g} (bound there {v.tolerance:.3g}; "
            f"{v.bound_used:.3g} of a bound used at most), {v.max_ulp:g} ULP{equal}"
        )


def terminal_width() -> int | None:
    """Letters in a line of the terminal that standard output is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(text: str, width: int | None, further: str = 2 * _INDENT) -> list[str]:
    """Lines of at most `width` letters, the first indented and the others by `further`; one line without a width."""
    if width is None:
        return [_INDENT + text]
    return textwrap.wrap(
        text, max(width, 24), initial_indent=_INDENT, subsequent_indent=further, break_on_hyphens=False
    )


def _programs(pairs: Sequence[Pair], colours: bool, width: int) -> list[list[str]]:
    """The lines of both programs, the parts that differ in colour."""
    sides = [("red", [pair.before for pair in pairs]), ("green", [pair.after for pair in pairs])]
    return [
        [
            "".join(typer.style(text, fg=colour) if new and colours else text for text, new in piece)
            for line in lines
            if line is not None
            for piece in _pieces(line, width)
        ]
        for colour, lines in sides
    ]


def _pieces(line: Sequence[Segment], width: int) -> Iterator[list[Segment]]:
    """A line in indented pieces of at most `width` letters; what follows the first is two letters deeper."""
    text = "".join(part for part, _ in line)
    changed = [mark for part, mark in line for _ in part]
    own = len(text) - len(text.lstrip())
    start = 0
    while start < len(text):
        indent = _INDENT if start == 0 else _INDENT + " " * (own + 2)
        room = max(width - len(indent), 16)
        end = start + room
        if end < len(text):
            end = _break(text, max(start + own + 1, end - _LOOK_BACK), min(end, len(text) - _LEAST))
        piece: list[Segment] = [(indent, False)]
        for letter, mark in zip(text[start:end], changed[start:end], strict=True):
            if piece[-1][1] == mark:
                piece[-1] = piece[-1][0] + letter, mark
            else:
                piece.append((letter, mark))
        yield piece
        start = end


def _break(text: str, least: int, most: int) -> int:
    """Where a line is best broken, between two places: as late as it can be."""
    for place in range(most, least, -1):
        before = text[:place]
        if before[-1] in _BREAKS and before.count("{") == before.count("}"):
            return place
    return most
