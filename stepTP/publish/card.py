"""The dataset card: what it is, how it was made, what its claims rest on; all figures are counted from the rows.

Its header holds what the hub and `datasets` read: licence, configs, features, sizes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from stepTP.measurements import summary
from stepTP.records import SCHEMA_VERSION, MeasurementRow, StepRow
from stepTP.stats import run_rows, statistics
from stepTP.verify.measure.speedup import bins_table
from strategies.index import entries, level_of

if TYPE_CHECKING:
    from stepTP.publish.folder import Published

# What changed with each version of the rows, newest first.
HISTORY = {
    2: "splits by program and family; choices and trajectories; steps that take earlier ones back are marked; the fact "
    "that refuses a proposal has a column",
    1: "steps, programs, rejected, refusals",
}
WHAT = {
    "steps": "one verified, explained step",
    "choices": "one state, several of its legal steps, and some that are refused there",
    "trajectories": "one program and the steps taken from it in a row, with every state",
    "programs": "one PyTorch source and its translation",
    "refusals": "one illegal proposal, with the fact that refuses it",
    "rejected": "what did not become a row: stage, cause, step",
    "measurements": "the latency of one program on one machine",
    "rephrasings": "the reasoning of one step in another model's words, those that passed the checks alone",
}
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def card(run: Path, published: "Published", measured: Sequence[MeasurementRow]) -> str:
    """The text of README.md."""
    steps = [row for row in run_rows(run, "steps") if isinstance(row, StepRow)]
    found = statistics(run)
    parts = (
        _title(published, steps, found),
        _what_is_in_it(published),
        _example(steps),
        _loading(published),
        _making(published, found),
        _meaning(steps, found),
        _strategies(found),
        _families(found),
        _rejects(found),
        *([_latency(measured)] if measured else []),
        _checking(published),
        _limits(published, measured),
        _history(),
    )
    return f"---\n{_header(published, steps)}---\n\n" + "\n".join(parts)


def _header(published: "Published", steps: list[StepRow]) -> str:
    from datasets import DatasetInfo, SplitInfo
    from datasets.info import DatasetInfosDict
    from datasets.splits import SplitDict
    from huggingface_hub import DatasetCardData

    configs: list[dict[str, Any]] = []
    infos: dict[str, Any] = {}
    for config in published.manifest.rows:
        tables = [table for table in published.tables if table.config == config]
        files = [{"split": table.split, "path": f"{config}/{table.split}-*.parquet"} for table in tables]
        configs.append({"config_name": config, "data_files": files, **({"default": True} if config == "steps" else {})})
        splits = {t.split: SplitInfo(name=t.split, num_bytes=t.bytes, num_examples=t.rows) for t in tables}
        infos[config] = DatasetInfo(
            features=published.features[config],
            splits=SplitDict(splits),
            download_size=sum(file.bytes for table in tables for file in table.files.values()),
            dataset_size=sum(table.bytes for table in tables),
        )
    total = sum(sum(splits.values()) for splits in published.manifest.rows.values())
    licences = sorted({row.source.license.lower() for row in steps})
    data = DatasetCardData(
        pretty_name=published.manifest.name,
        license=licences[0] if len(licences) == 1 else licences,
        language=["en"],
        task_categories=["text-generation"],
        tags=["code", "tensor-programs", "compilers", "optimization", "reasoning", "verified"],
        size_categories=[next((name for most, name in _SIZES if total < most), "n>1M")],
        configs=configs,
    )
    DatasetInfosDict(infos).to_dataset_card_data(data)
    return yaml.safe_dump(data.to_dict(), sort_keys=False, allow_unicode=True, width=120)


def _title(published: "Published", steps: list[StepRow], found: dict[str, Any]) -> str:
    return f"""# {published.manifest.name}: verified steps of tensor-program optimisation

{len(steps):,} steps by {len(found["strategies"])} strategies on {found["sources_with_steps"]:,} PyTorch programs of
{found["families"]} families. Each step is **atomic** (one named rewrite with all its arguments), **verified** (the
program after it was compiled, run, and compared with the PyTorch module in float64, within a bound derived for each
output element) and **explained** (from facts that were computed). Programs are LEIR, a compact text of loops and
equations.
Made with stepTP {published.manifest.identity.code_version}.
"""


def _what_is_in_it(published: "Published") -> str:
    rows = published.manifest.rows
    splits = list(dict.fromkeys(split for counts in rows.values() for split in counts))
    body = [
        (f"`{config}`", WHAT[config], *(f"{counts.get(split, 0):,}" for split in splits), _bytes(published, config))
        for config, counts in rows.items()
    ]
    return f"""## What is in it

{_table(("config", "one row is", *splits, "size"), body)}
Programs are split, never steps: all rows of a program, and of programs that equal it up to names and sizes, are of one
split. `held_out` says what training has not seen: "program", or "family" where the whole family was kept back. Columns
that may hold anything (`args`, `names`, `knobs`, `tool_versions`, `sizes`) are JSON text. `schema.json` has every
column with its meaning, `manifest.json` the SHA-256 of every file.
"""


def _example(steps: list[StepRow]) -> str:
    rare = Counter(row.strategy for row in steps)
    row = min(steps, key=lambda r: (r.bit_exact, len(r.leir_before) + len(r.reasoning) > 1800, rare[r.strategy], r.id))
    step = json.dumps({"strategy": row.strategy, "args": row.args})
    facts = "\n".join(f"- {fact.name}: {fact.evidence}" for fact in row.facts)
    checked = "; ".join(
        f"{v.target}: error at most {v.max_abs:.3g} (bound there {v.tolerance:.3g})" for v in row.verification
    )
    reasoning = "\n".join(f"> {line}".rstrip() for line in row.reasoning.splitlines())
    return f"""## One row

Row `{row.id}`, of `{row.source.id}`; some columns:

```text
{row.leir_before.rstrip()}
```
`{step}`
```text
{row.leir_after.rstrip()}
```
{facts}

{reasoning}

{checked}.
"""


def _loading(published: "Published") -> str:
    others = ", ".join(f'"{config}"' for config in published.manifest.rows if config != "steps")
    first = next(iter(published.manifest.rows["steps"]))
    return f"""## How to load it

```python
from datasets import load_dataset

steps = load_dataset("OWNER/NAME", "steps", split="{first}")  # or the path of this folder, with no network
print(steps[0]["leir_before"], steps[0]["answer"])  # other configs: {others}
```

`streaming=True` works. For training, `steptp export FOLDER --format NAME` writes the files of TRL (`sft`, `stepwise`,
`rl`), ms-swift (`sft`), Axolotl (`sft_reasoning_content`), LLaMA-Factory (`sharegpt`) and verl (`rl`); FOLDER may be
this one.
"""


def _making(published: "Published", found: dict[str, Any]) -> str:
    identity = published.manifest.identity
    versions = ", ".join(f"{name} {version}" for name, version in sorted(identity.tool_versions.items()))
    kept = found["rows"]["steps"]
    config = yaml.safe_dump(identity.config, sort_keys=False, allow_unicode=True, width=110).rstrip()
    return f"""## How it was made

PyTorch modules are written by seeded families (or given), exported by `torch.export` and translated to LEIR; the
translation is checked against the module. From each program a seeded walk takes legal steps; a strategy proves its
preconditions by integer sets and interval analysis, and refuses what it cannot prove. The program after every step is
compiled and compared with the PyTorch module. The reasoning is composed from the facts: it names nothing that is not in
the programs or the facts, and the step can be read back from it. A second pass drops doubles, near-duplicates and what
two splits would share, and caps frequent strategies: of {kept + _dropped(found):,} verified steps, {kept:,} are kept.
The same configuration, code and tools give the same rows, byte for byte; latencies are measured apart.

Code {identity.code_version}, configuration {identity.config_hash[:12]}, strategies {identity.catalog_hash[:12]}, seed
{identity.seed}. Tools: {versions}.

<details><summary>The configuration</summary>

```yaml
{config}
```
</details>
"""


def _meaning(steps: list[StepRow], found: dict[str, Any]) -> str:
    kinds = sorted({kind.partition("/")[0] for row in steps for verdict in row.verification for kind in verdict.inputs})
    body = [
        (f"`{target}`", f"{worst['rows']:,}", f"{worst['bound_used']:.3g}", f"{worst['max_ulp']:.3g}")
        for target, worst in found["verification"].items()
    ]
    claimed = sum(row.bit_exact for row in steps)
    return f"""## What verified means

- The reference is the PyTorch module in float64, never the program before the step. Inputs: {", ".join(kinds)}; their
  draws are listed in `verification.inputs`.
- The tolerance is derived for each output element from the number formats, the lengths of its sums and the size of
  their terms; no constant is tuned. `bound_used` is the largest error in units of its own bound: at most 1, or there is
  no row.
- Outputs and temporaries are filled with NaN before each run, every element must be written, inputs must be unchanged,
  and a second run must give the same bits. For each program the check must reject planted errors (zeros, a constant, a
  copy of an input, slight perturbations, lost iterations), or the program is refused.
- {claimed:,} steps claim to change no bit, and were held to it; the others may round otherwise, within the bound.

{_table(("target", "programs checked", "largest share of a bound used", "largest error, ULP"), body)}"""


def _strategies(found: dict[str, Any]) -> str:
    known = {entry.name: entry for entry in entries()}
    body = [
        (f"`{name}`", known[name].level, counts["rows"], f"{counts['share']:.1%}", counts["families"],
         known[name].bit_exact, known[name].summary)
        if name in known
        else (f"`{name}`", "", counts["rows"], f"{counts['share']:.1%}", counts["families"], "", "of another package")
        for name, counts in found["strategies"].items()
    ]  # fmt: skip
    others = [f"`{name}`" for name in found["strategies"] if level_of(name) is None]
    added = f" Other packages add {', '.join(others)}." if others else ""
    head = ("strategy", "level", "rows", "share", "families", "bit for bit", "what it does")
    return f"""## Strategies

Names are those of the Step-TP paper (arXiv 2605.25954); definitions are stepTP's own.{added} The distribution has
{found["strategy_entropy_bits"]:.2f} bits of entropy, of {_bits(len(found["strategies"])):.2f} possible.

{_table(head, body)}"""


def _families(found: dict[str, Any]) -> str:
    families = ", ".join(f"{name} {count:,}" for name, count in found["source_families"].items())
    depths = ", ".join(f"{depth}: {count:,}" for depth, count in _numbered(found["depths"]))
    return f"""## Sources and depths

Steps by family of the source: {families}.

Steps by depth (how many steps from the source to the program after): {depths}.

Distinct states: {found["distinct_states"]:,}.
"""


def _rejects(found: dict[str, Any]) -> str:
    if not found["rejected"] and not found["refusals"]:
        return ""
    rejected = _table(("stage: cause", "rows"), Counter[str](found["rejected"]).most_common())
    facts = Counter[str]()
    for name, count in found["refusals"].items():
        facts[name.partition(": ")[2]] += count
    refused = _table(("fact that refused", "proposals"), facts.most_common(20))
    return f"""## What is not in `steps`

{rejected}
{refused}"""


def _latency(measured: Sequence[MeasurementRow]) -> str:
    tallies = summary(measured)
    body = [(title, ", ".join(f"{name} {n}" for name, n in tally.items())) for title, tally in tallies.items()]
    return f"""## Latency

Measured apart from verification, on inputs larger than the cache or rotated, after a warm-up; medians with their
spread, and the timed code was verified again. A speedup whose ranges meet is within noise and has no bin. Programs are
small, so that a CPU can verify them: on a GPU the start of a kernel is a large part of most of these times.

{_table(("where", "programs or speedups"), body)}
A step's `bin`, in its `latency`, is that of the speedup against the program before:

{bins_table()}"""


def _checking(published: "Published") -> str:
    return f"""## Check a row yourself

```bash
pip install -e '.[publish]'   # in a checkout of stepTP
steptp replay FOLDER      # every step again from its JSON: the same text, states and facts
steptp verify FOLDER      # compile and run every program again, against its PyTorch source
steptp show FOLDER#12     # one row, to read
```

With a row alone, and no more than the language and the strategy:

```python
import json
from leir.parser import parse
from leir.printer import to_text
from strategies.catalog import parse_step

step = parse_step({{"strategy": row["strategy"], "args": json.loads(row["args"])}})
assert to_text(step.apply(parse(row["leir_before"])).program) == row["leir_after"]
```

FOLDER is this repository, downloaded (`hf download --repo-type dataset`). The checks of rows of schema
{published.manifest.schema_version} need stepTP of that schema or a later one.
"""


def _limits(published: "Published", measured: Sequence[MeasurementRow]) -> str:
    targets = " and ".join(published.manifest.identity.config.get("verify", {}).get("targets", ["llvm"]))
    timed = (
        "Latencies are of the sizes in the rows, on the machines named above; they say little of other sizes."
        if measured
        else "No latency was measured: a step here is legal and right, not known to be fast."
    )
    return f"""## Limits

- Programs were checked on {targets}, at the sizes in the rows, on drawn inputs. That a step is legal is proved within
  the analyses' model; that its floating-point results are close is evidence, no proof.
- Sources are written by generators after the shapes of common networks, and are small enough to run on a CPU.
- {timed}
- Reasoning is composed, not written by a person or a model: it is right where the facts are, and its style is narrow.
- A walk has no goal: its steps are legal, and many bring nothing. Trajectories of origin "search" have an objective.
"""


def _history() -> str:
    assert max(HISTORY) == SCHEMA_VERSION
    return "## Changelog\n\n" + "".join(f"- Rows of schema {version}: {what}.\n" for version, what in HISTORY.items())


def _table(head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    rows = [tuple(map(_cell, row)) for row in body]
    lines = [tuple(head), ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _bytes(published: "Published", config: str) -> str:
    size = sum(f.bytes for table in published.tables if table.config == config for f in table.files.values())
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def _dropped(found: dict[str, Any]) -> int:
    return sum(count for name, count in found["rejected"].items() if name.startswith("filter: "))


def _numbered(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: int(item[0]))


def _bits(kinds: int) -> float:
    from math import log2

    return log2(kinds) if kinds else 0.0
