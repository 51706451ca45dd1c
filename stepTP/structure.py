"""What is left of a program without its names and sizes: by this, near-duplicates and overlaps are known.

Two programs have one structure if they differ in nothing but the names of tensors and loops, extents, and other numbers
(scales and divisors follow from extents). Operators, loop kinds, their nesting, ranks, dtypes and scopes stay.
"""

import hashlib
import re
from dataclasses import replace

from leir.canonical import canonical
from leir.edit import accesses, walk
from leir.names import rename_tensors
from leir.printer import to_text
from leir.syntax import Alloc, Declaration, Program

_SIZE = re.compile(r"(?<![A-Za-z0-9.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")
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
    names = _names(program)
    plain = canonical(rename_tensors(program, names))
    plain = replace(plain, inputs=_sorted(plain.inputs), outputs=_sorted(plain.outputs))
    return without_sizes(to_text(plain))


def without_sizes(leir: str) -> str:
    """The text with every number replaced by one mark; names and dtypes keep their digits."""
    return _SIZE.sub("#", leir)


def _names(program: Program) -> dict[str, str]:
    """New names for all tensors, by first access; those that nothing accesses come last, in the order of the text."""
    accessed = dict.fromkeys(access.tensor for access in accesses(program))
    declared = (d.tensor for d in (*program.inputs, *program.outputs))
    allocated = (s.tensor for _, s in walk(program) if isinstance(s, Alloc))
    return {name: f"S{number}" for number, name in enumerate(dict.fromkeys((*accessed, *declared, *allocated)))}


def _sorted(declarations: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
    return tuple(sorted(declarations, key=lambda declaration: declaration.tensor))
