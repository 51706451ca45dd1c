"""What fails: a program, a program with the steps taken from it, or a program and another that it should equal.

As text it is LEIR with lines of comment before it, so that every command reads its program:

    # step {"strategy": "loop_split", "args": {"path": [0], "factor": 2}}
    in A_4;out C_4;
    L^4_i[C_i=A_i;]

`# step` gives a step that leads on from the program, several one after the other; `# against` a program that it should
compute the same as, and `# bit-exact` that it should do so bit for bit; `# narrated` the id of the row whose reasoning
is on trial; `# inputs` what keys the draws of inputs, where it is not as usual.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leir.edit import expressions, iterations_around, walk, walk_expression
from leir.parser import parse_source
from leir.printer import to_text
from leir.syntax import Alloc, Declaration, Equation, Expr, Integer, Loop, Program, Real, Stmt
from stepTP.records import Step

_STEP, _AGAINST, _BIT_EXACT, _NARRATED, _INPUTS = "# step ", "# against ", "# bit-exact", "# narrated ", "# inputs "


class SubjectError(ValueError):
    """A line of comment that should say a step or a program does not. The message names file, line and remedy."""


class Inputs(BaseModel):
    """What keys the draws of inputs, as in a build: the source's `id`, `seed`, and `draws` of each kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str = "minimise"
    seed: int = Field(default=0, ge=0)
    draws: int = Field(default=1, ge=1, le=100)


_USUAL = Inputs()


@dataclass(frozen=True, slots=True)
class Subject:
    """`steps` lead on from `program`; what they give is to compute what `program` does, and each is to apply.

    Without steps the program itself is to be well formed, to compile, and to compute what `against` does, or what it
    means itself. `bit_exact`: with the bits of `against`. A step without arguments is whatever its strategy proposes.
    `narrated`: the id of a row; the reasoning of its step, the last, is on trial in place of results.
    """

    program: Program
    steps: tuple[Step, ...] = ()
    against: Program | None = None
    bit_exact: bool = False
    narrated: str | None = None
    inputs: Inputs = _USUAL

    @property
    def text(self) -> str:
        """What `read_subject` reads back; equal for equal subjects alone."""
        lines = [f"{_STEP}{json.dumps(step.model_dump())}" for step in self.steps]
        if self.against is not None:
            lines.append(_AGAINST + " ".join(to_text(self.against).split("\n")).strip())
        if self.bit_exact:
            lines.append(_BIT_EXACT)
        if self.narrated is not None:
            lines.append(_NARRATED + self.narrated)
        if self.inputs != _USUAL:
            lines.append(_INPUTS + self.inputs.model_dump_json())
        return "".join(f"{line}\n" for line in lines) + to_text(self.program)


def read_subject(text: str, file: str) -> Subject:
    """Raises ParseError, SubjectError."""
    found = Subject(parse_source(text, file).program)
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(_STEP):
            found = replace(found, steps=(*found.steps, read_step(line.removeprefix(_STEP), f"{file}:{number}")))
        elif line.startswith(_AGAINST):
            found = replace(found, against=parse_source(line.removeprefix(_AGAINST), f"{file}:{number}").program)
        elif line.rstrip() == _BIT_EXACT:
            found = replace(found, bit_exact=True)
        elif line.startswith(_NARRATED):
            found = replace(found, narrated=line.removeprefix(_NARRATED).strip())
        elif line.startswith(_INPUTS):
            try:
                found = replace(found, inputs=Inputs.model_validate_json(line.removeprefix(_INPUTS)))
            except ValidationError:
                usual = _USUAL.model_dump_json()
                raise SubjectError(f"{file}:{number}: no inputs: write {usual} with other values") from None
    if found.narrated is not None and not found.steps:
        raise SubjectError(f"{file}: {_NARRATED.strip()} is about a step: write {_STEP}{{...}} before it")
    return found


def read_step(text: str, where: str) -> Step:
    """A step from JSON. Raises SubjectError."""
    try:
        return Step.model_validate(json.loads(text))
    except (ValueError, ValidationError, RecursionError):
        raise SubjectError(f'{where}: no step: write {{"strategy": NAME, "args": {{...}}}} as JSON') from None


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """How much there is to look at. A smaller subject is one whose first figure that differs is smaller.

    `steps`: one without arguments, which stands for all that its strategy proposes, counts as two.
    `nodes`: statements, expressions and axes of tensors. `marks`: loops that are not serial, accumulations, declared
    types other than f32. `numbers`: the sum of all extents, sizes and integers. `characters`: of the text.
    """

    steps: int
    nodes: int
    marks: int
    numbers: int
    characters: int


def size_of(subject: Subject) -> Size:
    programs = [p for p in (subject.program, subject.against) if p is not None]
    statements = [s for p in programs for _, s in walk(p)]
    inside = [e for s in statements for own in expressions(s) for _, e in walk_expression(own)]
    declared = [d for p in programs for d in (*p.inputs, *p.outputs)] + [s for s in statements if isinstance(s, Alloc)]
    return Size(
        steps=sum(1 if step.args else 2 for step in subject.steps),
        nodes=len(statements) + len(inside) + len(declared) + sum(len(d.shape) for d in declared),
        marks=sum(map(_is_marked, [*statements, *declared])),
        numbers=sum(_number(part) for part in (*statements, *inside))
        + sum(sum(d.shape) for d in declared)
        + sum(abs(n) for step in subject.steps for n in integers_of(step).values()),
        characters=len(subject.text),
    )


def _is_marked(part: Stmt | Declaration) -> bool:
    match part:
        case Loop(kind=kind):
            return kind != "L"
        case Equation(op=op):
            return op != "="
        case Alloc(dtype=dtype) | Declaration(dtype=dtype):
            return dtype != "f32"
        case _:
            return False


def _number(part: Stmt | Expr) -> int:
    match part:
        case Loop(extent=extent, first=first):
            return extent + first
        case Integer(value):
            return value
        case Real(value):
            return 1 if value in (0.0, 1.0) else 2
        case _:
            return 0


def integers_of(step: Step) -> dict[str, int]:
    """The arguments that are numbers, such as factors; those of paths are in lists."""
    return {name: value for name, value in step.args.items() if type(value) is int}


def figures(subject: Subject) -> dict[str, Any]:
    """Its size for people: steps, statements, iterations of its equations, and characters of its program."""
    program = subject.program
    paths = [path for path, s in walk(program) if isinstance(s, Equation)]
    return {
        "steps": len(subject.steps),
        "statements": sum(1 for _ in walk(program)),
        "iterations": sum(iterations_around(program, path) for path in paths),
        "characters": len(to_text(program)),
    }
