"""Case files: what each strategy does to small programs, as text.

`tests/cases/<name>.txt` holds the cases of one strategy:

    === a title
    --- before
    in A_8;out C_8; ...
    --- step
    {"path": [0], "factor": 4}
    --- after, bit-exact              (or: --- after, rounded)
    in A_8;out C_8; ...

A case that is refused ends in another section instead, the fact that fails and its evidence:

    --- refused
    path-is-a-loop: (0,0) is an equation for C

(only the kind of evidence where it is an analysis', whose own tests look at the rest).

The cases of a strategy of another package lie beside its module, in `<name>.txt`.

The first case is the example in the catalog's page. `pytest --update-cases` writes the last section of every case anew.
"""

import json
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from leir.check import check
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Program
from strategies.base import Refused, Strategy
from strategies.catalog import strategy
from strategies.index import level_of

FOLDER = Path(__file__).parent.parent / "cases"


@dataclass(frozen=True, slots=True)
class Case:
    """`outcome` is the last section's title, and `result` its text."""

    title: str
    before: str
    step: str
    outcome: str
    result: str

    def program(self) -> Program:
        """The program before, which must be well-formed."""
        return _parsed(self.before, self.title)

    def instance(self, strategy: type[Strategy]) -> Strategy:
        return strategy.model_validate_json(self.step, strict=True)


@lru_cache(maxsize=4096)
def _parsed(text: str, title: str) -> Program:
    program = parse(text, title)
    diagnostics = check(program)
    assert not diagnostics, f"{title}: {diagnostics}"
    return program


def file_of(name: str) -> Path:
    """The case file of a strategy."""
    module = sys.modules[strategy(name).__module__]
    return FOLDER / f"{name}.txt" if level_of(name) else Path(str(module.__file__)).with_name(f"{name}.txt")


def read_cases(name: str) -> list[Case]:
    """The cases of a strategy, in the file's order."""
    cases: list[Case] = []
    for block in file_of(name).read_text(encoding="utf-8").split("=== ")[1:]:
        title, *sections = block.split("\n--- ")
        found = [section.split("\n", 1) for section in sections]
        assert [head for head, _ in found[:2]] == ["before", "step"] and len(found) == 3, f"{name}: {title}"
        (_, before), (_, step), (outcome, result) = found
        cases.append(Case(title.strip(), before.strip(), step.strip(), outcome.strip(), result.strip()))
    return cases


def write_cases(name: str, cases: list[Case]) -> None:
    """The cases as their file."""
    blocks = [
        f"=== {c.title}\n--- before\n{c.before}\n--- step\n{c.step}\n--- {c.outcome}\n{c.result}\n" for c in cases
    ]
    file_of(name).write_text("\n".join(blocks), encoding="utf-8")


def played(case: Case, strategy: type[Strategy]) -> Case:
    """The case with what the strategy does today."""
    program = case.program()
    step = case.instance(strategy)
    spelled = replace(case, before=to_text(program).strip(), step=json.dumps(step.to_json()["args"]))
    try:
        applied = step.apply(program)
    except Refused as refused:
        evidence = refused.fact.evidence
        if refused.fact.name == "stays-well-formed":
            evidence = ", ".join(dict.fromkeys(d.code for d in check(step.rewrite(program))))
        elif refused.fact.name == "flow-preserved":
            evidence = evidence.split(": ")[0]
        return replace(spelled, outcome="refused", result=f"{refused.fact.name}: {evidence}")
    outcome = "after, bit-exact" if applied.bit_exact else "after, rounded"
    return replace(spelled, outcome=outcome, result=to_text(applied.program).strip())
