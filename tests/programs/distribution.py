"""What programs contain."""

from collections.abc import Iterable

from leir.edit import accesses, walk, walk_places
from leir.syntax import Access, Alloc, Binary, Equation, Guard, Integer, Loop, Program, Select


def describe(program: Program) -> dict[str, bool]:
    """What a program contains: the properties whose shares `distribution` prints."""
    statements = [statement for _, statement in walk(program)]
    expressions = [expression for _, expression in walk_places(program)]
    equations = [s for s in statements if isinstance(s, Equation)]
    allocs = [s for s in statements if isinstance(s, Alloc)]
    loops = [s for s in statements if isinstance(s, Loop)]
    nests = sum(isinstance(s, Loop) for s in program.body)
    gathers = any(
        isinstance(index, Access) or any(isinstance(a, Access) for a in accesses(index))
        for e in expressions if isinstance(e, Access) for index in e.indices
    )  # fmt: skip
    guards = any(isinstance(s, Guard) for s in statements)
    staged = any(a.scope != "g" for a in allocs)
    dtypes = {d.dtype for d in (*program.inputs, *program.outputs)} | {a.dtype for a in allocs}
    result = {
        "three nests": nests >= 3,
        "guard": guards,
        "gather": gathers,
        "s or l": staged,
        "three nests and a guard, gather, s or l": nests >= 3 and (guards or gathers or staged),
        "guard, gather, s or l": guards or gathers or staged,
        "if_then_else": any(isinstance(e, Select) for e in expressions),
        "// or %": any(isinstance(e, Binary) and e.op in ("//", "%") for e in expressions),
        "several outputs": len(program.outputs) > 1,
        "rank 0": any(not d.shape for d in (*program.inputs, *program.outputs)) or any(
            isinstance(e, Access) and not e.indices for e in expressions),
        "extent 1": any(loop.extent == 1 for loop in loops),
        "first value": any(loop.first for loop in loops),
        "phases": any(isinstance(s, Loop) and s.kind == "B" and sum(
            isinstance(b, Loop) and b.kind == "B" for b in s.body) > 1 for s in statements),
        "integer subscript literal": any(
            isinstance(e, Access) and any(isinstance(i, Integer) for i in e.indices) for e in expressions),
    }  # fmt: skip
    for kind in "PVUB":
        result[f"{kind} loop"] = any(loop.kind == kind for loop in loops)
    for op in ("+=", "*=", "max=", "min="):
        result[f"reduction {op}"] = any(equation.op == op for equation in equations)
    for dtype in ("f16", "bf16", "f64", "i8", "i32", "i64", "bool"):
        result[dtype] = dtype in dtypes
    return result


def distribution(programs: Iterable[Program]) -> str:
    """A table of shares: which part of the programs contains what."""
    described = [describe(program) for program in programs]
    names = described[0] if described else {}
    shares = [f"{sum(d[name] for d in described) / len(described):6.1%}  {name}" for name in names]
    return "\n".join([f"{len(described)} programs", *shares])
