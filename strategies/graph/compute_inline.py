"""Computes a temporary's value where it is read, instead of storing it first: its nest goes, and its storage.

    Before    K^{n}_{x}[T_{x}=f(x);] ...T_{e}...
    After     ...f(e)...

Every read is replaced, and the declaration goes too, as does a nest in which nothing but declarations is left. Where
storing rounds or converts the value, the expression is wrapped in `cast`, so that readers find what they found.

Legal when: one equation writes the temporary, each element at most once in a lifetime, and no accumulation; the
subscripts give each loop variable that its value uses (alone with an added constant, as a digit of `i*8+j`, or by
`i//8` and `i%8`), or it belongs to a loop around the declaration; and no operand is written between the store and a
read. Programs read only what was written, so every read lies in the domain of the equation. That the operands'
subscripts stay in range, without the guards around the equation, is proved again. No other statement moves, so that
every other value keeps its writer.

Pays when: the value is cheap, or read once: a store, a load and the storage are saved, and a nest. Read more often, it
is computed more often.

Leads to: dead_code_elimination, factorization, online_softmax.

Inverse: expression_splitting.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from leir.analysis.access import Tensor, tensors
from leir.analysis.affine import Interval
from leir.analysis.inversion import solved
from leir.analysis.kernels import BYTES
from leir.analysis.model import lifetimes
from leir.analysis.ranges import ranges
from leir.analysis.recomputation import is_free_of, reads_of, why_value_differs
from leir.analysis.reduction import writes_apart
from leir.analysis.types import INTEGERS, Weak, integer_range, is_integer, promote, type_of
from leir.edit import (
    accesses,
    computes_beside,
    dtypes,
    enclosing,
    expressions,
    iterations_around,
    loops_around,
    map_expression,
    map_statement,
    may_be_skipped,
    replace_at,
    statement_at,
    variables_of,
    walk,
    walk_expression,
)
from leir.names import substitute_in
from leir.printer import equation_text, expression_text
from leir.syntax import Access, Cast, Equation, Expr, Guard, Loop, Path, Place, Program, operands
from strategies.base import BitExact, Fact, Level, Strategy, counted, either, listed, numbered, path_text
from strategies.memories import WORDS, role_text


class ComputeInline(Strategy):
    name: ClassVar[str] = "compute_inline"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{tensor} holds {value} from {definition} on, and {one_place} reads it: computed there, the value need not "
        "be stored.",
        "{tensor} holds {value} from {definition} on for {places} that read it; each can compute it from {operands}, "
        "unchanged since then.",
        "The statement at {definition} does nothing but keep {value} in {tensor}; what reads that can compute it.",
        "Why store {value}? Each read of {tensor} can find it from {operands}, which nothing changes in between.",
        "{tensor} keeps {bytes} in {memory} for a value, {value}, that {whoever} can compute.",
        "{tensor} stands between the equations at {definition} and {reader}: with {inlined} for {access}, they are one "
        "formula.",
        "In {around}, {inlined} can take the place of {access}, without {tensor} in between.",
        "{tensor} has one equation, {equation}, and its value can stand wherever {tensor} is read.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{equation} at {definition} goes, and where it was read its value stands: {inlined} for {access}.",
        "{equation} at {definition} goes, and every read of {tensor} becomes its value; {access} is now {inlined}, "
        "which rounds or converts to {dtype} as the store did.",
        "{tensor} disappears: where {access} was read, {inlined} is computed.",
        "What reads {tensor} takes over its equation, {equation}; {access} turns into {inlined}.",
        "No statement writes {tensor} any more; its value is written out where it was read, {inlined} for {access}.",
        "The equation at {definition} is removed, and its value is put in place of every read of {tensor}.",
        "Substitute {inlined} for {access}, and drop {equation}.",
        "There is one equation less: what {tensor} held is part of what reads it, as {inlined} for {access}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{tensor} is no longer written and read, and its {bytes} in {memory} {are} free. The value is computed "
        "{often}, from the same operands, so every bit stays.",
        "The {bytes} of {tensor} in {memory} {are} not needed any more. Each read gets the value that was stored, so "
        "every bit stays.",
        "Saved {are} {bytes} of storage in {memory}, and the traffic of the store and the {loads} of {tensor}; every "
        "result keeps its bits.",
        "What {tensor} held is part of one formula now, {formula}, where factorization, cancellation and their like "
        "can see it. No bit changes.",
        "{subscripted} is read by {inlined} directly, no longer through {tensor}. The element is the same, and so is "
        "every bit.",
        "The value is computed {often}. Since nothing writes {any_operand} in between, every bit stays.",
        "In {places} the value is computed that one statement computed for all; no bit of a result changes.",
        "{tensor}, {bytes} in {memory}, is no longer stored and loaded; each read computes instead, to the same bits.",
        "The program has {fewer}, without {tensor}, and no result changes by a bit.",
    )

    tensor: str

    @classmethod
    def candidates(cls, program: Program) -> Iterator["ComputeInline"]:
        for tensor in tensors(program).values():
            found = _definitions(program, tensor.name)
            is_stored = len(found) == 1 and found[0][1].op == "="
            if tensor.role == "temporary" and is_stored and reads_of(program, tensor.name):
                yield cls(tensor=tensor.name)

    def facts(self, program: Program) -> Iterator[Fact]:
        known = tensors(program).get(self.tensor)
        is_own = known is not None and known.role == "temporary"
        yield Fact("tensor-is-a-temporary", is_own, role_text(program, self.tensor))
        found = _definitions(program, self.tensor)
        at = f", at {listed(path_text(path) for path, _ in found)}" if found else ""
        evidence = f"{self.tensor} has {numbered(len(found), 'equation')}{at}"
        yield Fact("has-one-equation", len(found) == 1, evidence)
        ((path, equation),) = found
        here = f"the equation at {path_text(path)}"
        is_store = equation.op == "="
        yield Fact("is-no-accumulation", is_store, f"{here} {'stores its value' if is_store else 'accumulates'}")
        free = is_free_of(equation, self.tensor)
        yield Fact("value-is-not-recursive", free, f"{here} {'does not read' if free else 'reads'} {self.tensor}")
        reads = len(reads_of(program, self.tensor))
        yield Fact("is-read", reads > 0, f"{self.tensor} is read in {numbered(reads, 'place')}")
        apart = writes_apart(program, path)
        evidence = f"no two iterations of {here} write one element"
        yield Fact("writes-each-element-once", apart, evidence if apart else f"{evidence}: not provable")
        lost = _Inlining(program, self.tensor).undetermined()
        evidence = f"the subscripts of {expression_text(equation.target)} give every variable of its value"
        if not variables_of(equation.value):
            evidence = f"the value of {self.tensor}, {expression_text(equation.value)}, has no loop variable"
        if lost:
            evidence = f"the subscripts of {expression_text(equation.target)} do not give {', '.join(lost)}"
        yield Fact("subscripts-are-invertible", not lost, evidence)
        why = why_value_differs(program, path)
        value = expression_text(equation.value)
        evidence = (
            f"nothing writes an operand of {value} between its store at {path_text(path)} and a read of {self.tensor}"
        )
        if not any(accesses(equation.value)):
            beside = " but loop variables" if variables_of(equation.value) else ""
            evidence = f"the value of {self.tensor}, {value}, has no operand{beside}"
        yield Fact("operands-are-unchanged", not why, why or evidence)

    def rewrite(self, program: Program) -> Program:
        inlining = _Inlining(program, self.tensor)
        holder = inlining.path
        while len(holder) > 1 and not computes_beside(program, holder):
            holder = holder[:-1]
        after = replace_at(program, holder)
        alloc = inlining.tensor.alloc  # ahead of the equation, so that its path is still the same
        after = after if alloc is None else replace_at(after, alloc)
        return replace(after, body=tuple(map_statement(s, inlining.replaced) for s in after.body))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        inlining = _Inlining(before, self.tensor)
        known, equation = inlining.tensor, inlining.equation
        reads = reads_of(before, self.tensor)
        reader = statement_at(before, reads[0])
        access = next(a for part in expressions(reader) for a in accesses(part) if a.tensor == self.tensor)
        inlined = map_expression(access, inlining.replaced)
        size = prod(known.shape) * BYTES[known.dtype]
        result = {
            "tensor": self.tensor,
            "value": expression_text(equation.value),
            "definition": path_text(inlining.path),
            "equation": equation_text(equation),
            "access": expression_text(access),
            "inlined": expression_text(inlined),
            "bytes": counted(size, "byte"),
            "are": "is" if size == 1 else "are",
            "memory": WORDS[known.scope],
            "loads": "load" if len(reads) == 1 else "loads",
            "whoever": "its one reader" if len(reads) == 1 else "each of its readers",
        }
        names = dict.fromkeys(read.tensor for read in accesses(equation.value))
        if names:
            result |= {"operands": listed(names), "any_operand": either(names)}
        if len(reads) > 1:
            result["places"] = counted(len(reads), "place")
        else:
            result["one_place"] = "one place"
        result |= self._surroundings(before, access, inlined, reads)
        if inlining.converts:
            result["dtype"] = known.dtype
        around = [level for path in (inlining.path, *reads) for _, level in enclosing(before, path)]
        if not any(isinstance(level, Guard) for level in around):
            old = iterations_around(before, inlining.path)
            new = sum(iterations_around(before, path) for path in reads)
            parts = [
                (e, *found) for p in reads for e in expressions(statement_at(before, p)) for found in walk_expression(e)
            ]
            own = ((e, within) for e, within, part in parts if isinstance(part, Access) and part.tensor == self.tensor)
            most = "at most " if any(may_be_skipped(e, within) for e, within in own) else ""
            result["often"] = f"{most}as often as before" if new == old else f"{most}{new} times instead of {old}"
        if len(tensors(before)) - len(tensors(after)) == 1:
            result["fewer"] = "one tensor less"
        return result

    def _surroundings(self, program: Program, access: Access, inlined: Expr, reads: list[Path]) -> dict[str, str]:
        """Terms of what stands around the first read: the formula that it is part of, or the access of a subscript."""
        reader = statement_at(program, reads[0])
        found = (
            (whole, within) for whole in expressions(reader) for within, e in walk_expression(whole) if e == access
        )
        whole, within = next(found)
        outer = [whole]
        for number in within[:-1]:
            outer.append(operands(outer[-1])[number])
        if not within or not isinstance(reader, Equation) or whole == reader.target:
            return {}
        if subscripted := [each for each in outer if isinstance(each, Access)]:
            return {"subscripted": subscripted[-1].tensor}
        formula = map_expression(outer[-1], lambda e: inlined if e == access else e)
        result = {"around": expression_text(outer[-1]), "formula": expression_text(formula)}
        if len(reads) == 1:
            result["reader"] = path_text(reads[0])
        return result


@dataclass(frozen=True, slots=True)
class _Inlining:
    """The single equation of a tensor, as what replaces reads of it."""

    program: Program
    name: str

    @property
    def path(self) -> Path:
        ((path, _),) = _definitions(self.program, self.name)
        return path

    @property
    def equation(self) -> Equation:
        ((_, equation),) = _definitions(self.program, self.name)
        return equation

    @property
    def tensor(self) -> Tensor:
        return tensors(self.program)[self.name]

    @property
    def converts(self) -> bool:
        """Whether storing the value may change it, or the type that its readers compute in."""
        kind, dtype = type_of(self.equation.value, dtypes(self.program)), self.tensor.dtype
        if dtype not in INTEGERS or isinstance(kind, Weak) or not is_integer(kind):
            return kind != dtype
        narrower = promote(kind, dtype) != kind
        (low, high), values = integer_range(dtype), ranges(self.program).at(Place(self.path, (1,)))
        return narrower or not low <= values.low <= values.high <= high

    def lifetime(self) -> set[str]:
        """The variables of the loops around the declaration: the same where the tensor is written and read."""
        loops = loops_around(self.program, self.path)
        return {loop.variable for loop in loops[: lifetimes(self.program).get(self.name, 0)]}

    def values(self, access: Access) -> dict[str, Expr]:
        """The loops' variables in the iteration that wrote an element, as far as the subscripts give them."""
        kept = self.lifetime()
        own = {v: ends for v, ends in _ends(loops_around(self.program, self.path)).items() if v not in kept}
        everywhere = _ends(node for _, node in walk(self.program) if isinstance(node, Loop))
        return solved(self.equation.target.indices, access.indices, own, everywhere)

    def undetermined(self) -> list[str]:
        """The variables of the value that neither a subscript nor the lifetime gives."""
        return sorted(variables_of(self.equation.value) - self.lifetime() - self.values(self.equation.target).keys())

    def replaced(self, expression: Expr) -> Expr:
        """The value, for a read of the tensor; anything else as it is."""
        if not isinstance(expression, Access) or expression.tensor != self.name:
            return expression
        value = substitute_in(self.equation.value, self.values(expression))
        return Cast(self.tensor.dtype, value) if self.converts else value


def _ends(loops: Iterable[Loop]) -> dict[str, Interval]:
    """The first and the last value of each variable, of all loops that bind it."""
    ends: dict[str, Interval] = {}
    for loop in loops:
        first, last = loop.first, loop.first + loop.extent - 1
        low, high = ends.get(loop.variable, (first, last))
        ends[loop.variable] = (min(low, first), max(high, last))
    return ends


def _definitions(program: Program, tensor: str) -> list[tuple[Path, Equation]]:
    """The equations that write a tensor, with their paths."""
    nodes = ((path, node) for path, node in walk(program) if isinstance(node, Equation))
    return [(path, node) for path, node in nodes if node.target.tensor == tensor]
