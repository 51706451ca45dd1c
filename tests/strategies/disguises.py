"""Disguised variants of each strategy's pattern, and the share in which the strategy still finds its place.

    python -m tests.strategies.disguises > tests/strategies/README.md   # all strategies, 20 variants each: the page
    python -m tests.strategies.disguises operator_fusion --missed       # one, with the variants that it misses

The pattern is the program before a legal step of the strategy's case file. A variant computes the same from the same
arrays, but is written otherwise: operands commuted, tensors and loops renamed, loops that begin at one, an input
transposed or copied first, an output computed elsewhere and copied last, another dtype, a batch of two around
everything, other nests before, after or in between, and legal steps of other strategies (loops reordered, split or made
parallel; nests fused or cut; temporaries stored otherwise; parts of expressions computed ahead). A place counts as
found where a legal step changes the part of the program that writes the tensors which the case's own step is about.
`UNDONE` names the disguises under which a pattern is there no longer: a nest in between parts two neighbours.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

from leir.analysis.flow import unchanged_ends
from leir.analysis.types import is_float
from leir.check import check
from leir.edit import map_statement, walk, walk_with, with_dtypes
from leir.names import rename_tensors, substitute_each, substitute_in, tensor_names, tensor_sequence, unused_tensor
from leir.printer import to_text
from leir.syntax import (
    AXES,
    Access,
    Alloc,
    Binary,
    Call,
    Declaration,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Program,
    Real,
    Stmt,
    Variable,
)
from strategies.base import Applied, Refused, Strategy
from strategies.catalog import names, print_step, strategy
from tests.programs import keyed
from tests.strategies.cases import read_cases
from tests.strategies.walks import tried

VARIANTS = 20
TRIES = 400  # candidates of a strategy that are tried on a variant
DRAWS = 8  # candidates that are drawn for a disguise by a step, until one is legal


@dataclass(frozen=True, slots=True)
class Variant:
    """A program in disguise. `tensors`: what those of the pattern are called now. `worn`: the disguises, in order.

    `transposed`: the number of an input whose first two dimensions are swapped, and whether every tensor has a first
    dimension for a `batch` of two: with both, the arrays of the pattern are those of the variant.
    """

    program: Program
    tensors: Mapping[str, str]
    worn: tuple[str, ...] = ()
    transposed: int | None = None
    batch: bool = False


Disguise = Callable[[Variant, random.Random], Variant | None]


def retyped(variant: Variant, draw: random.Random) -> Variant | None:
    dtype: DType = draw.choice(("f64", "f16", "bf16"))
    return replace(variant, program=with_dtypes(variant.program, {"f32": dtype}))


def transposed(variant: Variant, draw: random.Random) -> Variant | None:
    """An input with its first two dimensions swapped, in the signature and wherever it is read."""
    inputs = variant.program.inputs
    choices = [number for number, declaration in enumerate(inputs) if len(declaration.shape) > 1]
    if not choices:
        return None
    chosen = draw.choice(choices)
    name, shape = inputs[chosen].tensor, inputs[chosen].shape
    flipped = replace(inputs[chosen], shape=(shape[1], shape[0], *shape[2:]))

    def swap(expression: Expr) -> Expr:
        if isinstance(expression, Access) and expression.tensor == name:
            return Access(name, (expression.indices[1], expression.indices[0], *expression.indices[2:]))
        return expression

    body = tuple(map_statement(statement, swap) for statement in variant.program.body)
    program = Program((*inputs[:chosen], flipped, *inputs[chosen + 1 :]), variant.program.outputs, body)
    return replace(variant, program=program, transposed=chosen)


def batched(variant: Variant, draw: random.Random) -> Variant | None:
    """Everything twice, in one loop around it all, with a first dimension of two for every global tensor."""
    program = variant.program
    taken = {node.variable for _, node in walk(program) if isinstance(node, Loop)}
    batch = next(name for name in draw.sample(VARIABLES, len(VARIABLES)) if name not in taken)
    near = {n.tensor for _, n in walk(program) if isinstance(n, Alloc) and n.scope != "g"}

    def deeper(declarations: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
        return tuple(replace(d, shape=(2, *d.shape)) for d in declarations)

    def batch_of(expression: Expr) -> Expr:
        if isinstance(expression, Access) and expression.tensor not in near:
            return Access(expression.tensor, (Variable(batch), *expression.indices))
        return expression

    allocs = tuple(replace(s, shape=(2, *s.shape)) for s in program.body if isinstance(s, Alloc))
    body = tuple(map_statement(s, batch_of) for s in program.body if not isinstance(s, Alloc))
    whole = Program(deeper(program.inputs), deeper(program.outputs), (*allocs, Loop("L", batch, 2, 0, body)))
    return replace(variant, program=whole, batch=True)


def commuted(variant: Variant, draw: random.Random) -> Variant | None:
    """Operands of sums, products, maxima and comparisons change sides, half of them."""
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}

    def swap(expression: Expr) -> Expr:
        match expression:
            case Binary("+" | "*" | "==" | "!=" as op, left, right) if draw.random() < 0.5:
                return Binary(op, right, left)
            case Binary("<" | ">" | "<=" | ">=" as op, left, right) if draw.random() < 0.5:
                return Binary(turned[op], right, left)  # pyright: ignore[reportArgumentType]
            case Call("max" | "min" as function, (left, right)) if draw.random() < 0.5:
                return Call(function, (right, left))
            case _:
                return expression

    body = tuple(map_statement(statement, swap) for statement in variant.program.body)
    return replace(variant, program=replace(variant.program, body=body))


def renamed(variant: Variant, draw: random.Random) -> Variant | None:
    """Other names for all tensors, those of the signature too, and for all loops."""
    old = sorted(tensor_names(variant.program))
    new = dict(zip(old, draw.sample(list(islice(tensor_sequence(), 60)), len(old)), strict=True))
    program = rename_tensors(variant.program, new)
    body = tuple(_with_loops_renamed(statement, {}, draw) for statement in program.body)
    tensors = {name: new[now] for name, now in variant.tensors.items()}
    return replace(variant, program=replace(program, body=body), tensors=tensors)


def _with_loops_renamed(statement: Stmt, around: dict[str, Expr], draw: random.Random) -> Stmt:
    match statement:
        case Loop(kind, variable, _, _, body):
            axis = variable[:2] if kind == "B" and variable[:2] in AXES else ""
            taken = {v.name for v in around.values() if isinstance(v, Variable)}
            free = [axis + name for name in VARIABLES if axis + name not in taken]
            name = draw.choice(free)
            below = {**around, variable: Variable(name)}
            return replace(statement, variable=name, body=tuple(_with_loops_renamed(s, below, draw) for s in body))
        case Guard(condition, body):
            return Guard(substitute_in(condition, around), tuple(_with_loops_renamed(s, around, draw) for s in body))
        case Equation():
            return map_statement(statement, lambda e: around.get(e.name, e) if isinstance(e, Variable) else e)
        case Alloc():
            return statement


VARIABLES = [f"{letter}{digit}" for digit in range(3) for letter in "ghjkmnqrsuvwxyz"]


def shifted(variant: Variant, draw: random.Random) -> Variant | None:
    """A loop that begins at one, so that its subscripts are no plain variables."""
    loops = [(path, node) for path, node in walk(variant.program) if isinstance(node, Loop) and node.first == 0]
    loops = [(path, node) for path, node in loops if node.kind in ("L", "P")]
    if not loops:
        return None
    chosen = draw.choice(loops)[1]
    index = Binary("-", Variable(chosen.variable), Integer(1))
    moved = replace(chosen, first=1, body=substitute_each(chosen.body, {chosen.variable: index}))

    def visit(statement: Stmt) -> Stmt:
        if statement is chosen:
            return moved
        if isinstance(statement, Loop | Guard):
            return replace(statement, body=tuple(map(visit, statement.body)))
        return statement

    return replace(variant, program=replace(variant.program, body=tuple(map(visit, variant.program.body))))


def surrounded(variant: Variant, draw: random.Random) -> Variant | None:
    """Another nest ahead of everything, or after it."""
    return _with_another_nest(variant, draw, draw.choice((0, len(variant.program.body))))


def interrupted(variant: Variant, draw: random.Random) -> Variant | None:
    """Another nest between two statements of the program."""
    last = len(variant.program.body)
    return _with_another_nest(variant, draw, draw.randrange(1, last)) if last > 1 else None


def _with_another_nest(variant: Variant, draw: random.Random, at: int) -> Variant | None:
    """A nest for another output, from an input."""
    program = variant.program
    choices = [declaration for declaration in program.inputs if declaration.dtype[0] != "i"]
    choices = [declaration for declaration in choices if declaration.dtype != "bool"]
    if not choices:
        return None
    source = draw.choice(choices)
    variables = draw.sample(VARIABLES, len(source.shape))
    indices = tuple(map(Variable, variables))
    value = Binary("+", Binary("*", Access(source.tensor, indices), Real(3.0)), Real(0.25))
    new = unused_tensor(program)
    nest: Stmt = Equation(Access(new, indices), "=", value)
    for variable, extent in zip(reversed(variables), reversed(source.shape), strict=True):
        nest = Loop("L", variable, extent, 0, (nest,))
    outputs = (*program.outputs, Declaration(new, source.dtype, source.shape))
    return replace(variant, program=Program(program.inputs, outputs, (*program.body[:at], nest, *program.body[at:])))


def copied(variant: Variant, draw: random.Random) -> Variant | None:
    """An input is copied to a temporary first, which is read in its place."""
    program = variant.program
    choices = [declaration for declaration in program.inputs if is_float(declaration.dtype)]
    if not choices:
        return None
    source, new = draw.choice(choices), unused_tensor(program)
    renamed_program = rename_tensors(program, {source.tensor: new})
    body = (_copy(source.shape, source.tensor, new, draw), *renamed_program.body)
    return replace(variant, program=_declared(replace(program, body=body), new, source))


def stored(variant: Variant, draw: random.Random) -> Variant | None:
    """An output is computed in a temporary, and copied last."""
    program = variant.program
    chosen, new = draw.choice(program.outputs), unused_tensor(program)
    renamed_program = rename_tensors(program, {chosen.tensor: new})
    body = (*renamed_program.body, _copy(chosen.shape, new, chosen.tensor, draw))
    tensors = {name: new if now == chosen.tensor else now for name, now in variant.tensors.items()}
    return replace(variant, program=_declared(replace(program, body=body), new, chosen), tensors=tensors)


def _copy(shape: tuple[int, ...], source: str, target: str, draw: random.Random) -> Stmt:
    variables = draw.sample(VARIABLES, len(shape))
    indices = tuple(map(Variable, variables))
    nest: Stmt = Equation(Access(target, indices), "=", Access(source, indices))
    for variable, extent in zip(reversed(variables), reversed(shape), strict=True):
        nest = Loop("L", variable, extent, 0, (nest,))
    return nest


def _declared(program: Program, new: str, like: Declaration) -> Program:
    """The program with the declaration that a temporary of this type and shape needs."""
    if like.dtype == program.outputs[0].dtype:
        return program
    return replace(program, body=(Alloc(new, like.dtype, "g", like.shape), *program.body))


def by_steps_of(name: str) -> Disguise:
    """The disguise that a legal, bit-exact step of a strategy is, drawn among its candidates."""

    def disguise(variant: Variant, draw: random.Random) -> Variant | None:
        steps = list(strategy(name).candidates(variant.program))
        for step in draw.sample(steps, min(DRAWS, len(steps))):
            outcome = tried(step, variant.program)
            if isinstance(outcome, Applied) and outcome.bit_exact:
                return replace(variant, program=outcome.program)
        return None

    return disguise


# In the order in which they are put on: what goes by the number of an input or the first dimensions comes first.
DISGUISES: dict[str, Disguise] = {
    "retyped": retyped, "transposed": transposed, "batched": batched,
    "copied": copied, "stored": stored, "surrounded": surrounded, "interrupted": interrupted,
    "spread": by_steps_of("expression_splitting"), "fused": by_steps_of("operator_fusion"),
    "cut": by_steps_of("operator_fission"), "reordered": by_steps_of("loop_reorder"),
    "split": by_steps_of("loop_split"), "relaid": by_steps_of("set_storage_layout"),
    "parallel": by_steps_of("loop_parallelization"), "shifted": shifted, "commuted": commuted, "renamed": renamed,
}  # fmt: skip

ALGEBRAIC = (  # they rewrite what stands in one equation
    "apart", "cancellation", "collect", "expand_cancellation", "expand_collect", "expand_factorization",
    "factorization", "together",
)  # fmt: skip
OF_FUNCTIONS = ("expand_log", "expand_powsimp", "logsimp", "powsimp")  # these too, by identities of functions

# The disguises that leave no place for a step: neighbours are no longer neighbours, headers no longer equal; a serial
# loop is no longer serial, or its elements lie apart; a value is passed between two nests, or is written by two; one of
# two nests that were alike is cut, or they are no nests of their own; an expression is in two equations; bounds
# and spare roundings are those of one type.
UNDONE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*ALGEBRAIC, *OF_FUNCTIONS), ("spread",)),
    "dead_code_elimination": ("cut",),
    "expression_reorder": ("interrupted", "fused"),
    "expression_splitting": ("spread",),
    "loop_binding": ("parallel",),
    "loop_unrolling": ("parallel",),
    "loop_vectorization": ("parallel", "reordered", "transposed"),
    "operator_fission": ("cut", "spread"),
    "operator_fusion": ("interrupted", "fused", "split", "reordered", "parallel", "shifted"),
    "set_storage_scope": ("cut",),
    "additive_split": ("retyped", "spread"),
    "multiplicative_split": ("retyped", "spread"),
    "exponential_split": ("retyped", "spread"),
    "tensor_concat_to_fuse_operators": ("fused", "split", "spread"),
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A program that a step of a strategy applies to, and the tensors that the step is about."""

    program: Program
    about: tuple[str, ...]


@cache
def pattern_of(name: str, number: int) -> Pattern:
    """The one behind variant `number` of a strategy: its legal cases take turns."""
    cases = [case for case in read_cases(name) if case.outcome.startswith("after")]
    case = cases[number % len(cases)]
    outcome = tried(case.instance(strategy(name)), case.program())
    assert isinstance(outcome, Applied), f"{name}: {case.title}"
    return Pattern(case.program(), changed(case.program(), outcome.program))


def changed(before: Program, after: Program) -> tuple[str, ...]:
    """The tensors that the part of a program which differs after a step writes, in order of appearance."""
    one, other = _computing(before.body), _computing(after.body)
    while True:
        first, last = unchanged_ends(replace(before, body=one), replace(after, body=other))
        one, other = one[first : len(one) - last], other[first : len(other) - last]
        match one, other:
            case (Loop() as a,), (Loop() as b,) if replace(a, body=b.body) == b:
                one, other = _computing(a.body), _computing(b.body)
            case (Guard() as a,), (Guard() as b,) if a.condition == b.condition:
                one, other = _computing(a.body), _computing(b.body)
            case _:
                nodes = [node for statement in one for _, node in walk_with(statement)]
                return tuple(dict.fromkeys(n.target.tensor for n in nodes if isinstance(n, Equation)))


def _computing(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return tuple(statement for statement in body if not isinstance(statement, Alloc))


def disguised(name: str, number: int) -> tuple[Pattern, Variant]:
    """Variant `number` of a strategy's patterns, in two to four disguises where so many can be put on.

    It is well-formed, and the same in every process.
    """
    pattern = pattern_of(name, number)
    draw = keyed("disguises", name, number)
    allowed = [worn for worn in DISGUISES if worn not in UNDONE.get(name, ())]
    wanted, order = draw.choice((2, 3, 4)), draw.sample(allowed, len(allowed))
    variant = wearing(pattern, (), name, number)
    for size in range(wanted, len(order) + 1):
        variant = wearing(pattern, order[:size], name, number)
        if len(variant.worn) >= wanted:
            break
    return pattern, variant


def wearing(pattern: Pattern, chosen: Sequence[str], name: str, number: int) -> Variant:
    """A pattern with those of the disguises that change it and leave it well-formed."""
    variant = Variant(pattern.program, {tensor: tensor for tensor in tensor_names(pattern.program)})
    for worn in (worn for worn in DISGUISES if worn in chosen):
        other = DISGUISES[worn](variant, keyed("disguises", name, number, worn))
        if other is not None and other.program != variant.program and not check(other.program):
            variant = replace(other, worn=(*variant.worn, worn))
    return variant


def finding_step(name: str, pattern: Pattern, variant: Variant) -> Strategy | None:
    """The first legal step of a strategy that changes what the pattern's step is about; None if it finds none."""
    wanted = {variant.tensors[tensor] for tensor in pattern.about}
    for step in islice(strategy(name).candidates(variant.program), TRIES):
        outcome = tried(step, variant.program)
        if isinstance(outcome, Applied) and wanted <= set(changed(variant.program, outcome.program)):
            return step
    return None


def trials(name: str, count: int = VARIANTS) -> Iterator[tuple[Variant, Strategy | None]]:
    """The variants of a strategy, with the step that finds the place."""
    for number in range(count):
        pattern, variant = disguised(name, number)
        yield variant, finding_step(name, pattern, variant)


def refusals(name: str, variant: Variant) -> str:
    """Why the candidates of a strategy do not find a variant's place: the refusals, or the steps at other places."""
    steps = islice(strategy(name).candidates(variant.program), TRIES)
    outcomes = ((step, tried(step, variant.program)) for step in steps)
    lines = [f"  {o}" if isinstance(o, Refused) else f"  {print_step(s)} is legal elsewhere" for s, o in outcomes]
    return "\n".join(dict.fromkeys(lines)) or "  no candidates"


def row(name: str, results: Sequence[tuple[Variant, Strategy | None]]) -> str:
    """The line of a strategy in the table: what it finds, and what the variants wear that it does not."""
    missed = [variant for variant, step in results if step is None]
    found = len(results) - len(missed)
    under = "; ".join(", ".join(variant.worn) for variant in missed)
    return f"| {name} | {found} of {len(results)} | {100 * found / len(results):.0f}% | {under} |"


PAGE = """# What strategies find in disguise

`python -m tests.strategies.disguises > tests/strategies/README.md` writes this page: of every strategy, the share of
variants of its case file's patterns in which it still finds its place, and the disguises of those that it misses.
`tests/strategies/disguises.py` says what the disguises are, and which of them leave no place for a step.
"""
HEADER = "| strategy | found | share | missed under |\n|---|---|---|---|"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("strategies", nargs="*", help="all of the catalog, if none is named")
    arguments.add_argument("--variants", type=int, default=VARIANTS)
    arguments.add_argument("--missed", action="store_true", help="also print the variants that are not found")
    options = arguments.parse_args()
    print(HEADER if options.strategies else f"{PAGE}\n{HEADER}")
    for name in options.strategies or names():
        results = list(trials(name, options.variants))
        print(row(name, results), flush=True)
        if options.missed:
            missed = [variant for variant, step in results if step is None]
            print("\n".join(f"\n{', '.join(v.worn)}:\n{to_text(v.program)}{refusals(name, v)}" for v in missed))


if __name__ == "__main__":
    main()
