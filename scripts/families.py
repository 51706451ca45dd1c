"""Prints what each family of source programs gives: how many programs differ, and how many translate.

    python scripts/families.py                          # all families: about ten minutes of two cores
    python scripts/families.py softmax scans --checked 40 --workers 1
    python scripts/families.py --checked 0              # texts alone: seconds

*Distinct* programs are those of `--draws` draws, by their text, and by their structure: the text with names numbered in
order of appearance, sizes and docstrings left out. *Refused* are degenerate programs (a constant output, an input that
nothing depends on), *verified* those whose translation computes what their module does, of `--checked` programs with
structures of their own. Programs a second are of one core's processor time.
"""

import argparse
import ast
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from stepTP.sources import SourceProgram, draws, families
from stepTP.verify.pool import Failure, Pool

TRANSLATE = "stepTP.intake.translate"
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one family: counts of `drawn` programs, of those `checked`, and what became of those that do not verify."""

    family: str
    per_second: float
    drawn: int
    texts: int
    structures: int
    checked: int
    refused: int
    verified: int
    problems: tuple[str, ...]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("family", nargs="*", help="all where none is named")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--draws", type=int, default=1_000)
    arguments.add_argument("--checked", type=int, default=10)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--write", type=Path, help="the figures as JSON")
    options = arguments.parse_args()
    known = [family.name for family in families()]
    if unknown := sorted(set(options.family) - set(known)):
        sys.exit(f"no family {', '.join(unknown)}; there are {', '.join(known)}")
    names = options.family or known
    with Pool(options.workers, TIMEOUT_S) as pool:
        found = [
            figures(name, options.seed, options.draws, options.checked, pool) for name in tqdm(names, disable=None)
        ]
    if options.write:
        rows = [{name: getattr(each, name) for name in Figures.__slots__} for each in found]
        options.write.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(found)))


def figures(family: str, seed: int, drawn: int, checked: int, pool: Pool) -> Figures:
    """What `drawn` draws of a family give, and what becomes of its first `checked` structures."""
    start = time.process_time()
    programs = list(draws(family, seed, drawn))
    took = time.process_time() - start
    by_structure: dict[str, SourceProgram] = {}
    for text, program in {program.torch_code: program for program in programs}.items():
        by_structure.setdefault(structure(text), program)
    answers = list(_translated(list(by_structure.values())[:checked], pool))
    problems = tuple(f"{name}: {answer['message']}" for name, answer in answers if answer["status"] != "verified")
    statuses = Counter(answer["status"] for _, answer in answers)
    return Figures(
        family=family,
        per_second=drawn / took if took else float("inf"),
        drawn=drawn,
        texts=len({program.torch_code for program in programs}),
        structures=len(by_structure),
        checked=len(answers),
        refused=statuses["refused"],
        verified=statuses["verified"],
        problems=problems,
    )


def _translated(programs: Sequence[SourceProgram], pool: Pool) -> Iterator[tuple[str, dict[str, Any]]]:
    asked = [pool.submit(TRANSLATE, {"code": each.torch_code, "file": each.id}) for each in programs]
    for program, future in zip(programs, asked, strict=True):
        answer = future.result()
        failed = isinstance(answer, Failure)
        yield program.id, {"status": "error", "message": answer.message} if failed else answer


def structure(text: str) -> str:
    """A program without what does not shape it: names are numbered, constants at the top and docstrings are gone."""
    tree = ast.parse(text)
    sizes = [target.id for node in tree.body if isinstance(node, ast.Assign) and _is_size(node.value)
             for target in node.targets if isinstance(target, ast.Name)]  # fmt: skip
    tree.body = [node for node in tree.body if not (isinstance(node, ast.Assign) and _is_size(node.value))]
    numbered: dict[str, str] = dict.fromkeys(sizes, "size")
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_self(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    for node in _in_order(tree):
        if isinstance(node, ast.Name) and (node.id in own or node.id in numbered):
            node.id = numbered.setdefault(node.id, f"n{len(numbered)}")
        elif isinstance(node, ast.arg):
            node.arg = numbered.setdefault(node.arg, f"n{len(numbered)}")
        elif isinstance(node, ast.Attribute) and _is_self(node.value):
            node.attr = numbered.setdefault(f"self.{node.attr}", f"n{len(numbered)}")
    return ast.dump(tree)


def _is_size(value: ast.expr) -> bool:
    """Numbers at the top of a file; a dtype there is structure."""
    return not any(isinstance(node, ast.Attribute) for node in ast.walk(value))


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "n0")


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree as they are read, unlike `ast.walk`, which goes level by level."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def table(found: Sequence[Figures]) -> Iterator[str]:
    """The figures as a Markdown table, then what did not verify."""
    yield "| family | programs/s | drawn | texts | structures | checked | refused | verified |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in found:
        yield (
            f"| {each.family} | {each.per_second:,.0f} | {each.drawn} | {each.texts} | {each.structures} "
            f"| {each.checked} | {each.refused} | {each.verified} |"
        )
    checked, refused, verified = (sum(getattr(each, n) for each in found) for n in ("checked", "refused", "verified"))
    yield f"| {len(found)} families | | | | | {checked} | {refused} | {verified} |"
    for each in found:
        yield from (f"- {problem}" for problem in each.problems)


if __name__ == "__main__":
    main()
