"""Whether an expression has the value that an equation stored, were it computed again where the value is read.

For an equation that writes each element of its tensor once, the instance that wrote what is read is known by the
element. Its operands must not be written between that instance and the read, and must live in one lifetime.
"""

from collections.abc import Iterator

from leir.analysis.dependence import at, iteration
from leir.analysis.isl import TooHard, example, question
from leir.analysis.model import Statement, Use, domain, lifetimes, reach, statements_of, subscripts, time
from leir.edit import accesses
from leir.printer import equation_text, expression_text
from leir.syntax import Equation, Path, Program


def why_value_differs(program: Program, definition: Path) -> str:
    """Why an operand of an equation may have changed where the equation's tensor is read; empty if none has.

    The equation writes no element twice in a lifetime (`reduction.writes_apart`), nothing else writes its tensor, and
    it does not read it. What cannot be decided counts as changed.
    """
    statements = statements_of(program)
    source = next(s for s in statements if s.path == definition)
    tensor = source.uses[-1].access.tensor
    readers = [(s, use) for s in statements for use in s.uses if use.mode == "read" and use.access.tensor == tensor]
    life = lifetimes(program)
    for operand in source.uses:
        if operand.mode != "read":
            continue
        name = operand.access.tensor
        writers = [s for s in statements if isinstance(s.node, Equation) and s.node.target.tensor == name]
        for reader, read in readers:
            if reason := _why_lifetimes_differ(source, operand, reader, read, life):
                return reason
            for writer in writers:
                if reason := _why_overwritten(source, operand, writer, reader, read, life):
                    return reason
    return ""


def _why_lifetimes_differ(source: Statement, operand: Use, reader: Statement, read: Use, life: dict[str, int]) -> str:
    name = operand.access.tensor
    where = _same_value(source, reader, read, life)
    for number in range(min(life.get(name, 0), len(source.loops), len(reader.loops))):
        dimensions = [*source.dimensions("x"), *reader.dimensions("y")]
        try:
            found = example(question(dimensions, [*where, f"x{number} != y{number}"]))
        except TooHard as reason:
            return f"it is too hard to say whether {name} is the same: {reason}"
        if found is not None:
            return f"{expression_text(read.access)} is read in another lifetime of {name}"
    return ""


def _why_overwritten(
    source: Statement, operand: Use, writer: Statement, reader: Statement, read: Use, life: dict[str, int]
) -> str:
    """A write of an operand's element after the equation has read it, and before the value is read."""
    target = writer.uses[-1]
    where = [*_same_value(source, reader, read, life), *reach(source, operand, "x"), *domain(writer, "w")]
    own = min(life.get(target.access.tensor, 0), len(source.loops), len(writer.loops))
    where += [f"x{n} = w{n}" for n in range(own)]
    where += _equal(subscripts(operand, source.names("x")), subscripts(target, writer.names("w")))
    dimensions = [*source.dimensions("x"), *writer.dimensions("w"), *reader.dimensions("y")]
    shown = equation_text(writer.node)
    for earlier in _precedes(time(source, "x"), time(writer, "w")):
        for later in _precedes(time(writer, "w"), time(reader, "y")):
            try:
                found = example(question(dimensions, [*where, *earlier, *later]))
            except TooHard as reason:
                return f"it is too hard to say whether {shown} comes between: {reason}"
            if found is not None:
                values = found[len(source.loops) : len(source.loops) + len(writer.loops)]
                when = at(iteration(writer, values))
                written, asked = expression_text(operand.access), expression_text(read.access)
                return f"{shown} writes {written}{when}, before {asked} is read"
    return ""


def _same_value(source: Statement, reader: Statement, read: Use, life: dict[str, int]) -> list[str]:
    """isl constraints: instance x of the equation wrote what instance y of the reader reads."""
    own = min(life.get(read.access.tensor, 0), len(source.loops), len(reader.loops))
    where = [*domain(source, "x"), *reach(reader, read, "y"), *(f"x{n} = y{n}" for n in range(own))]
    return where + _equal(subscripts(source.uses[-1], source.names("x")), subscripts(read, reader.names("y")))


def _equal(left: list[str | None], right: list[str | None]) -> list[str]:
    """Equal subscripts, as far as both are quasi-affine."""
    return [f"{a} = {b}" for a, b in zip(left, right, strict=True) if a is not None and b is not None]


def _precedes(first: list[str], second: list[str]) -> Iterator[list[str]]:
    """The ways in which one moment of the schedule comes before another, as isl constraints."""
    equal: list[str] = []
    for a, b in zip(first, second, strict=False):
        if _is_number(a) and _is_number(b):
            if int(a) < int(b):
                yield equal
            if int(a) != int(b):
                return
            continue
        yield [*equal, f"{a} < {b}"]
        equal = [*equal, f"{a} = {b}"]


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


def reads_of(program: Program, tensor: str) -> list[Path]:
    """The paths of the statements that read a tensor themselves, once for each read."""
    found = [(s.path, use) for s in statements_of(program) for use in s.uses]
    return [path for path, use in found if use.mode == "read" and use.access.tensor == tensor]


def is_free_of(node: Equation, tensor: str) -> bool:
    """Whether an equation reads nothing of a tensor, in its value or in a subscript."""
    parts = (*node.target.indices, node.value)
    return all(access.tensor != tensor for part in parts for access in accesses(part))
