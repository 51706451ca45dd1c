"""What two runs differ in: what they were made with, and their rows by id."""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepTP.manifest import differences
from stepTP.publish.published import identity_of
from stepTP.records import CONFIGS, Row, StepRow
from stepTP.stats import run_rows

_EXAMPLES = 8  # rows whose columns are named


@dataclass(frozen=True, slots=True)
class Difference:
    """`made_with`: one line a difference. `rows`: by config how many each has, only one has, and that differ.

    `columns`: by config in how many rows of one id each column differs, the most first; `examples`: some of these rows.
    `strategies`: those of whose steps the two have other numbers.
    """

    made_with: tuple[str, ...]
    rows: dict[str, tuple[int, int, int, int, int]]
    columns: dict[str, dict[str, int]]
    strategies: tuple[tuple[str, int, int], ...]
    examples: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether all rows are equal, whatever they were made with."""
        return not any(any(counts[2:]) for counts in self.rows.values())

    def as_json(self) -> dict[str, Any]:
        keys = ("first", "second", "only_first", "only_second", "differ")
        rows = {config: dict(zip(keys, counts, strict=True)) for config, counts in self.rows.items()}
        return {**asdict(self), "rows": rows, "equal": self.equal}


def difference_of(one: Path, other: Path) -> Difference:
    """The difference of two finished runs or published folders. Raises what reading one raises."""
    rows: dict[str, tuple[int, int, int, int, int]] = {}
    columns: dict[str, dict[str, int]] = {}
    examples: list[str] = []
    tallies: list[Counter[str]] = []
    for config in CONFIGS:
        left, right = ({row.id: row for row in run_rows(folder, config)} for folder in (one, other))
        changed = [name for name, row in left.items() if name in right and row != right[name]]
        only = (sum(name not in right for name in left), sum(name not in left for name in right))
        rows[config] = (len(left), len(right), *only, len(changed))
        differing = {name: _columns(left[name], right[name]) for name in changed}
        tally = Counter(column for found in differing.values() for column in found)
        if tally:
            columns[config] = dict(sorted(tally.items(), key=lambda item: (-item[1], item[0])))
        told = changed[: max(0, _EXAMPLES - len(examples))]
        examples += [f"{config} {name}: {', '.join(differing[name])}" for name in told]
        if config == "steps":
            tallies = [Counter(row.strategy for row in s.values() if isinstance(row, StepRow)) for s in (left, right)]
    first, second = tallies
    names = sorted({*first, *second})
    strategies = tuple((name, first[name], second[name]) for name in names if first[name] != second[name])
    told = differences(identity_of(one).model_dump(), identity_of(other).model_dump())
    made_with = tuple(f"{name}: {left!r}, {right!r}" for name, left, right in told)
    return Difference(made_with, rows, columns, strategies, tuple(examples))


def _columns(one: Row, other: Row) -> list[str]:
    return [name for name in type(one).model_fields if getattr(one, name) != getattr(other, name)]
