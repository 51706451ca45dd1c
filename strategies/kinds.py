"""What the four strategies share that change the kind of a loop: one loop takes a kind that claims something, or gives
it up for the serial kind that claims nothing. Kinds never change what a program computes.
"""

from collections.abc import Iterable
from dataclasses import replace

from leir.analysis.access import tensors
from leir.analysis.dependence import Touch, carries_dependence, loop_number, touches_by_tensor
from leir.analysis.kernels import axis_of
from leir.edit import allocations_in, enclosing, replace_at, statement_at, walk_with
from leir.names import substitute_each
from leir.printer import expression_text, header_text
from leir.syntax import Equation, Guard, Kind, Loop, Path, Program, Variable
from strategies.base import counted, describe_at, listed, path_text, statement_or_none
from strategies.blocks import loops_of_nest
from strategies.dependences import in_nest

WORDS: dict[Kind, str] = {"L": "serial", "P": "parallel", "V": "vectorised", "U": "unrolled", "B": "bound"}


def with_kind(program: Program, path: Path, kind: Kind, variable: str = "") -> Program:
    """The program with the loop at `path` of another kind and, if `variable` is given, its variable renamed."""
    loop = loop_at(program, path)
    name = variable or loop.variable
    body = loop.body if name == loop.variable else substitute_each(loop.body, {loop.variable: Variable(name)})
    return replace_at(program, path, replace(loop, kind=kind, variable=name, body=body))


def loop_at(program: Program, path: Path) -> Loop:
    """The loop at a path that is known to lead to one."""
    loop = statement_at(program, path)
    assert isinstance(loop, Loop)
    return loop


def is_of_kind(program: Program, path: Path, kind: Kind) -> tuple[bool, str]:
    """Whether a loop of a kind stands at the path, and what does, in words."""
    statement = statement_or_none(program, path)
    return isinstance(statement, Loop) and statement.kind == kind, describe_at(program, path)


def independence(program: Program, path: Path) -> tuple[bool, str]:
    """Whether no two iterations of the loop at `path` touch one element that one of them writes, and why.

    Where an accumulation is what ties them together, the evidence names the step that takes them apart, or says why it
    cannot.
    """
    loop = loop_at(program, path)
    found = carries_dependence(program, path)
    if found is None:
        parts = (_apart(program, path), in_nest(program, path))
        return True, "; ".join(part for part in parts if part)
    text = str(found)
    if found.kind == "reduction":
        from strategies.operator.reduction_factorization import ReductionFactorization  # it is one of a level above

        apart = ReductionFactorization(path=path, tensor=found.tensor, parts=2)
        hindrance = next((fact.evidence for fact in apart.facts(program) if not fact.holds), None)
        text += f"; reduction_factorization of {loop.variable} "
        text += (
            "first gives its iterations partial results of their own, which a second nest combines"
            if hindrance is None
            else f"would take them apart, but {hindrance}"
        )
    return False, text


def _apart(program: Program, path: Path) -> str:
    """Why the iterations of a loop that carries no dependence have nothing to do with each other."""
    loop = loop_at(program, path)
    known = tensors(program)
    private: list[str] = []
    named: list[str] = []
    alone: dict[str, str] = {}
    proved: list[str] = []
    for tensor, touches in touches_by_tensor(program, path).items():
        alloc = known[tensor].alloc or ()
        if alloc[: len(path)] == path and len(alloc) > len(path):
            private.append(tensor)
        elif _name_the_iteration(touches, path, loop.variable):
            used = dict.fromkeys(expression_text(touch.use.access) for touch in touches)
            if len(used) == 1:
                alone[tensor] = next(iter(used))
            else:
                named.append(tensor)
        else:
            proved.append(tensor)
    parts: list[str] = []
    if private:
        parts.append(f"{listed(private)} {_live(private)} within one iteration of {loop.variable}")
    if named:
        parts.append(f"every access of {listed(named)} has {loop.variable} in the same place")
    if alone:
        only = "access" if len(alone) == 1 else "accesses"
        text = (
            f"{loop.variable} is a subscript of {listed(alone.values())}, the only {only} of {listed(alone)} below it"
        )
        parts.append(text)
    if proved:
        parts.append(f"no two iterations of {loop.variable} touch one element of {listed(proved)} (integer sets)")
    return "; ".join(parts) or f"no iteration of {loop.variable} touches an element"


def _live(names: list[str]) -> str:
    return "live" if len(names) > 1 else "lives"


def _name_the_iteration(touches: Iterable[Touch], path: Path, variable: str) -> bool:
    common: set[int] | None = None
    for touch in touches:
        number = loop_number(touch.statement, path)
        if touch.statement.names("x")[variable] != f"x{number}":
            return False  # hidden by an inner loop of that name
        alone = {n for n, index in enumerate(touch.use.access.indices) if index == Variable(variable)}
        common = alone if common is None else common & alone
    return bool(common)


def loop_terms(before: Program, after: Program, path: Path) -> dict[str, str]:
    """Terms about the loop whose kind changes, and the nest that it stands in.

    Sentences with `extent` are about a loop that takes a kind, those with `given_up` about one that becomes serial.
    """
    old, new = loop_at(before, path), loop_at(after, path)
    equations = [n for _, n in walk_with(old) if isinstance(n, Equation)]
    count, noun = (len(equations), "equation") if equations else (len(allocations_in(old)), "declaration")
    result = {
        "path": path_text(path),
        "variable": old.variable,
        "new_variable": new.variable,
        "given_up" if new.kind == "L" else "extent": str(old.extent),
        "kind": WORDS[old.kind],
        "new_kind": WORDS[new.kind],
        "header": header_text(loops_of_nest(old)),
        "new_header": header_text(loops_of_nest(new)),
        "equations": noun if count == 1 else f"{count} {noun}s",
        "stay": "stay" if count > 1 else "stays",
    }
    if equations:
        result["targets"] = listed(dict.fromkeys(node.target.tensor for node in equations))
    instances = instances_below(before, path)
    if instances and new.kind != "L":
        result["per_iteration"] = counted(instances // old.extent, "equation instance")
        result["instances"] = counted(instances, "equation instance")
    return result


def instances_below(program: Program, path: Path) -> int | None:
    """How many equation instances one run of the loop makes; None where guards or choices leave that open."""
    loop = loop_at(program, path)
    total = 0
    for inner, node in walk_with(loop):
        if isinstance(node, Guard):
            return None
        if isinstance(node, Equation):
            around = [n for _, n in enclosing(program, (*path, *inner)) if isinstance(n, Loop)]
            size = 1
            for one in around[len([n for _, n in enclosing(program, path) if isinstance(n, Loop)]) :]:
                size *= one.extent
            total += size
    return total


def in_kernel(program: Program, path: Path) -> bool:
    """Whether the statement at a path stands inside a `B` loop."""
    return any(axis_of(node) for _, node in enclosing(program, path))
