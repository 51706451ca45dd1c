"""What is left of a program without its names and sizes: by this, near-duplicates and overlaps are known.

Two programs have one structure if they differ in nothing but the names of tensors and loops, extents, and other numbers
(scales and divisors follow from extents). Operators, loop kinds, their nesting, ranks, dtypes and scopes stay.
"""

import hashlib
import re

from leir.canonical import canonical_text
from leir.syntax import KINDS, Program

_SIZE = re.compile(r"(?<![A-Za-z0-9.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_TENSOR = re.compile(r"(?<![A-Za-z0-9])[A-Z]\d*(?![A-Za-z0-9])")
_DIGITS = 16


def structure(program: Program) -> str:
    """16 hexadecimal digits, equal for programs that are equal up to names and sizes."""
    return hashlib.sha256(structure_text(program).encode()).hexdigest()[:_DIGITS]


def structure_of_step(strategy: str, before: Program, after: Program) -> str:
    """16 hexadecimal digits, equal for steps of one strategy between programs of one structure."""
    parts = (strategy, structure_text(before), structure_text(after))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]


def structure_text(program: Program) -> str:
    """The program with tensors named by their first appearance in the body, loops by depth, and a mark for numbers."""
    signature, _, body = without_sizes(canonical_text(program)).partition("\n")
    inputs, outputs = signature.removesuffix(";").split(";out ")
    names: dict[str, str] = {}

    def renamed(text: str) -> str:
        return _TENSOR.sub(lambda found: _renamed(found[0], names), text)

    body = renamed(body)
    declared = (sorted(map(renamed, _declarations(side.removeprefix("in ")))) for side in (inputs, outputs))
    return "\n".join((*map(",".join, declared), body))


def without_sizes(leir: str) -> str:
    """The text with every number replaced by one mark; names and dtypes keep their digits."""
    return _SIZE.sub("#", leir)


def _renamed(name: str, names: dict[str, str]) -> str:
    return name if name in KINDS else names.setdefault(name, f"S{len(names)}")


def _declarations(side: str) -> list[str]:
    """The declarations of one side of a signature: commas within braces divide none."""
    return re.split(r",(?![^{]*\})", side)
