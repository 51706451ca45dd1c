"""Cuts one axis of an operator in two: slices of its operands, a nest for each part, and the parts put together.

    Before    K^{n}_{x}[C_{x}=f(A_{x});]
    After     L^{k}_{x}[S_{x}=A_{x};] L^{n-k}_{x}[T_{x}=A_{x+k};]
              K^{k}_{x}[R_{x}=f(S_{x});] K^{n-k}_{x}[Q_{x}=f(T_{x});]
              L^{k}_{x}[C_{x}=R_{x};] L^{n-k}_{x}[C_{x+k}=Q_{x};]

The nest at `path` holds one equation; `axis` is the variable of one of its loops, and the first part takes its first
`at` iterations. On a spatial axis, one that the result is subscripted by, the parts are put side by side. On a
reduction axis each part accumulates into a temporary of its own, in f32 for f16 and bf16, and both are combined by the
operator. Operands that the axis runs over are sliced where their subscripts are plain variables; a window (`A_{x+u}`)
is read in place.

Legal when: no two results are stored in one element, the nest does not read its result, and where it accumulates its
terms may be regrouped. That subscripts stay in range and that all parts are written is proved again.

Pays when: the parts can run at once or in different places, each fits a memory that the whole does not, or they are to
be scheduled differently. The price is a copy of each slice, which compute_inline takes away again, and of the results.

Leads to: compute_inline, loop_binding, operator_fusion.

Inverse: tensor_concat_to_fuse_operators, on a spatial axis.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from pydantic import Field

from leir.analysis.types import computing_type
from leir.edit import (
    dtypes,
    enclosing,
    iterations_around,
    map_expression,
    replace_at,
    tensors_read,
    variables_of,
    walk_with,
)
from leir.printer import equation_text, expression_text, header_text
from leir.syntax import Access, AssignOp, DType, Equation, Expr, Guard, Loop, Path, Program, Stmt
from strategies.base import (
    BitExact,
    Fact,
    Gridded,
    Level,
    called,
    counted,
    describe_at,
    listed,
    path_text,
    statement_or_none,
)
from strategies.blocks import reorderable_accumulations
from strategies.grid import DEFAULT, Grid
from strategies.work import (
    PUT,
    Work,
    copy_of,
    declared,
    grouping_text,
    into,
    keeps_order_of_terms,
    moved,
    moved_access,
    new_names,
    out_of,
    plain_reads,
    reads_tensor,
    result_entry,
    results_lie_apart,
    why_guards_are_open,
    work_at,
    works,
)

WORDS: dict[AssignOp, str] = {"+=": "sum", "*=": "product", "max=": "maximum", "min=": "minimum"}


class TensorSplitToDecoupleOperators(Gridded):
    name: ClassVar[str] = "tensor_split_to_decouple_operators"
    level: ClassVar[Level] = "graph"
    bit_exact: ClassVar[BitExact] = "depends"
    choice: ClassVar[tuple[str, ...]] = (
        "The {extent} iterations of {spatial_axis} in the nest at {path} write elements of {target} that lie apart: "
        "{lead} and the {rest} have nothing to do with each other.",
        "{equation} reduces over {reduced_axis}. Its {extent} terms can be taken in two groups, {first} and {second}, "
        "that meet only at the end.",
        "In {equation}, {spatial_axis} runs over {slices} and over the result alike, so that a slice of the operands "
        "gives a slice of {target}.",
        "All {extent} terms of {equation} go into one {word}, one after the other. Two partial ones, of {first} and "
        "{second} terms, need not wait for each other.",
        "{header} is one piece of work; cut at {first} along {axis}, it is two that can be placed and scheduled apart.",
        "The nest at {path} reads {slices} along {axis}: what {axis} picks in its first {iterations_first} is for one "
        "operator, what it picks in the {rest} for another.",
        "As a whole the nest at {path} has {iterations} iterations; cut along {axis}, none of its parts has more than "
        "{largest}.",
        "Along {axis}, the operator at {path} is {extent} long. Two operators of {first} and {second} do the same.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "For this operator {copied_slices}{still}. A nest computes {entry} from the first part, another {other_entry} "
        "from the second, and {target} is made of both.",
        "The nest becomes two, {header_first} for {entry} and {header_second} for {other_entry}, and {target} takes "
        "their results in turn.",
        "{count} statements take the place of the nest at {path}; the two that do its work end in {first_equation} and "
        "{second_equation}.",
        "{equation} becomes {first_equation} and {second_equation}, and {combining} put their results together.",
        "Instead of one {word} over {reduced_axis} there are two partial ones, {entry} and {other_entry}; {combining} "
        "combine them.",
        "One nest takes {first} of the {extent} iterations of {axis}, with {entry} as its result; another takes the "
        "{rest}, with {other_entry}.",
        "First {copied_slices}{still}; then two nests run, {headers}, and {combining} put their results together.",
        "The two nests write {entry} and {other_entry}, and {target} gets its values from these: {combining}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The two operators are independent: they may run at once, or be tiled and bound differently. {exact_target} is "
        "computed from the same operands in the same order, so every bit stays.",
        "Each part takes its terms in the order they had, and the parts are combined last: that groups the terms of "
        "{rounded_target} anew, so results agree to rounding.",
        "The two equations run {runs} together, as often as the one did; {new_tensors} take {copied} besides. {bits}",
        "Neither part waits for the other, and no work is done twice: the two equations run {runs} together, as often "
        "as the one before. {bits}",
        "{target} is put together from parts now, and the two operators write {entry} and {other_entry}. {bits}",
        "Neither part waits for the other. The price: {price}. {bits}",
        "No part runs more than {largest_runs}, where the nest ran {iterations}. {bits}",
        "The two nests can take different ways from here: other orders, tiles or bindings. {bits}",
    )

    path: Path
    axis: str
    at: int = Field(ge=1)

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["TensorSplitToDecoupleOperators"]:
        for work in works(program):
            for loop in () if reads_tensor(work, work.target) else work.loops:
                cut = loop.variable in variables_of(work.equation.target) or work.equation.op != "="
                if cut and loop.extent > 1:
                    power = 1 << (loop.extent - 1).bit_length() - 1
                    sizes = dict.fromkeys((loop.extent // 2, power, *(n for n in grid.cuts if n < loop.extent)))
                    yield from (cls(path=work.path, axis=loop.variable, at=at) for at in sizes)

    def facts(self, program: Program) -> Iterator[Fact]:
        statement = statement_or_none(program, self.path)
        work = work_at(program, self.path) if statement is not None else None
        evidence = f"{describe_at(program, self.path)}, not a perfect nest around one equation"
        if work is not None:
            evidence = f"{header_text(work.levels)} holds {equation_text(work.equation)} and nothing else"
        yield Fact("nest-holds-one-equation", work is not None, evidence)
        assert work is not None
        loop = work.axis(self.axis)
        evidence = f"the loops of {path_text(self.path)} are {listed(one.variable for one in work.loops) or 'none'}"
        if loop is not None:
            evidence = f"{self.axis} is a loop of {loop.extent} of the nest"
        yield Fact("axis-is-a-loop-of-the-nest", loop is not None, evidence)
        assert loop is not None
        inside = self.at < loop.extent
        yield Fact("cut-is-inside", inside, f"the first part has {self.at} of {counted(loop.extent, 'iteration')}")
        text = equation_text(work.equation)
        evidence = f"{text} reduces over {self.axis}"
        if loop in work.spatial:
            evidence = f"{self.axis} is in the subscripts of the result of {text}"
        fits = loop in work.spatial or work.equation.op != "="
        if not fits:
            evidence = f"{text} overwrites one result along {self.axis}"
        yield Fact("axis-is-spatial-or-reduced", fits, evidence)
        read = reads_tensor(work, work.target)
        evidence = f"the nest {'reads' if read else 'does not read'} {work.target}, which it writes"
        yield Fact("result-is-not-read-inside", not read, evidence)
        why = why_guards_are_open(work)
        yield Fact("guards-are-known", not why, why or "no guard of the nest depends on more than its loops")
        apart = results_lie_apart(program, work)
        evidence = f"no two results of {text} go to one element"
        yield Fact("results-lie-apart", apart, evidence if apart else f"{evidence}: not provable")
        free = work.equation.op == "=" or work.equation_path in reorderable_accumulations(program, self.path)
        evidence = (
            f"{text} is a plain store, no sum, so that no order of terms is at stake"
            if work.equation.op == "="
            else grouping_text(work.equation)
        )
        yield Fact(
            "terms-may-be-regrouped", free, evidence if free else f"{text} cuts each partial result to an integer"
        )

    def rewrite(self, program: Program) -> Program:
        cut = self._cut(program)
        return declared(replace_at(program, self.path, *cut.statements), cut.new)

    def is_bit_exact(self, program: Program) -> bool:
        work = work_at(program, self.path)
        assert work is not None
        loop = work.axis(self.axis)
        if loop in work.spatial:
            return keeps_order_of_terms(program, work)
        return work.equation_path in reorderable_accumulations(program, self.path, exact=True)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        work, cut = work_at(before, self.path), self._cut(before)
        assert work is not None
        loop = work.axis(self.axis)
        assert loop is not None
        result = {
            "path": path_text(self.path),
            "axis": self.axis,
            "spatial_axis" if loop in work.spatial else "reduced_axis": self.axis,
            "header": header_text(work.levels),
            "target": work.target,
            "equation": equation_text(work.equation),
            "extent": str(loop.extent),
            "first": str(self.at),
            "second": str(loop.extent - self.at),
            "lead": "the first one" if self.at == 1 else f"the first {self.at}",
            "rest": "last one" if loop.extent - self.at == 1 else f"other {loop.extent - self.at}",
            "entry": expression_text(cut.entries[0]),
            "other_entry": expression_text(cut.entries[1]),
            "count": str(len(cut.statements)),
            "header_first": header_text(cut.works[0].levels),
            "header_second": header_text(cut.works[1].levels),
        }
        one, other = result["header_first"], result["header_second"]
        result["headers"] = f"both under {one}" if one == other else f"{one} and {other}"
        equations = [
            equation_text(node) for s in cut.statements for _, node in walk_with(s) if isinstance(node, Equation)
        ]
        result["first_equation"], result["second_equation"] = equations[-4:-2]
        result["combining"] = listed(equations[-2:])
        if work.equation.op != "=" and loop not in work.spatial:
            result["word"] = WORDS[work.equation.op]
        if cut.sliced:
            result["slices"] = listed(cut.sliced)
            result["copied_slices"] = _slices_text(cut, loop, self.at)
            result["still"] = _still_text(before, self.path, cut.sliced)
            result["iterations_first"] = "iteration" if self.at == 1 else f"{self.at} iterations"
        exact = self.is_bit_exact(before)
        result["exact_target" if exact else "rounded_target"] = work.target
        result["bits"] = "Every bit stays." if exact else "The terms are grouped anew, so results agree to rounding."
        guarded = any(isinstance(level, Guard) for level in work.levels)
        outside = [level for _, level in enclosing(before, self.path)]
        if not guarded and not any(isinstance(level, Guard) for level in outside):
            runs = iterations_around(before, self.path) * prod(one.extent for one in work.loops)
            result["iterations"] = str(runs)
            result["runs"] = "once" if runs == 1 else f"{runs} times"
            largest = runs // loop.extent * max(self.at, loop.extent - self.at)
            result["largest"], result["largest_runs"] = str(largest), counted(largest, "iteration")
            result["copied"] = counted(sum(prod(shape) for _, _, shape in cut.new), "element")
            result["new_tensors"] = (
                "the slices and the results of the parts" if cut.sliced else "the results of the parts"
            )
        put = f"{PUT[work.equation.op]} {work.target}"
        are = "is" if len(cut.sliced) == 1 else "are"
        result["price"] = (
            f"{f'{listed(cut.sliced)} {are} copied in slices, and ' if cut.sliced else ''}both results are {put}"
        )
        del after
        return result

    def _cut(self, program: Program) -> "_Cut":
        work = work_at(program, self.path)
        assert work is not None
        loop = work.axis(self.axis)
        assert loop is not None
        names, types = new_names(program), dtypes(program)
        reads = [access for access in plain_reads(program, work) if self.axis in variables_of(access)]
        slices: list[Stmt] = []
        new: list[tuple[str, DType, tuple[int, ...]]] = []
        parts: list[Work] = []
        copied: list[tuple[tuple[str, str], ...]] = []
        for first, extent in ((0, self.at), (self.at, loop.extent - self.at)):
            part = moved(work, loop, loop.first + first, extent)
            entries: dict[Expr, Access] = {}
            for read in reads:
                access = moved_access(read, loop, loop.first + first)
                entry = entries[access] = Access(next(names), part.indices_of(access))
                slices.append(copy_of(part, access, entry))
                new.append((entry.tensor, types[access.tensor], part.shape_of(entry)))
            copied.append(
                tuple((read.tensor, entry.tensor) for read, entry in zip(reads, entries.values(), strict=True))
            )
            value = map_expression(part.equation.value, lambda e, known=entries: known.get(e, e))
            parts.append(replace(part, equation=replace(part.equation, value=value)))
        results = [result_entry(next(names), part) for part in parts]
        kept = types[work.target] if loop in work.spatial else computing_type(types[work.target])
        for entry, part in zip(results, parts, strict=True):
            new.append((entry.tensor, kept, part.shape_of(entry)))
        nests = [into(part, entry) for part, entry in zip(parts, results, strict=True)]
        out = [out_of(part, entry) for part, entry in zip(parts, results, strict=True)]
        sliced = tuple(dict.fromkeys(access.tensor for access in reads))
        return _Cut((*slices, *nests, *out), tuple(new), tuple(results), tuple(parts), sliced, tuple(copied))


@dataclass(frozen=True, slots=True)
class _Cut:
    """What takes the place of the nest: its statements, the temporaries, and the results of the two works.

    `sliced`: the operands that are; `slices`: the slices of both parts in turn, each with its operand.
    """

    statements: tuple[Stmt, ...]
    new: tuple[tuple[str, DType, tuple[int, ...]], ...]
    entries: tuple[Access, ...]
    works: tuple[Work, ...]
    sliced: tuple[str, ...]
    slices: tuple[tuple[tuple[str, str], ...], ...]


def _slices_text(cut: _Cut, loop: Loop, at: int) -> str:
    """Which operands are copied to which slices: `A is copied in two slices, I (i=0) and J (i=1 to 3)`."""
    runs = [(loop.first, at), (loop.first + at, loop.extent - at)]
    values = [f"{loop.variable}={low}" + (f" to {low + count - 1}" if count > 1 else "") for low, count in runs]
    (source, *names), *others = (
        (source, first, second) for (source, first), (_, second) in zip(*cut.slices, strict=True)
    )
    shown = " and ".join(f"{name} ({value})" for name, value in zip(names, values, strict=True))
    also = "".join(f", {other} in {first} and {second}" for other, first, second in others)
    return f"{source} is copied in two slices, {shown}{also}"


def _still_text(program: Program, path: Path, sliced: tuple[str, ...]) -> str:
    """Which other nests read the operands, and so the whole of them; empty where none does."""
    others = (node for number, node in enumerate(program.body) if number != path[0])
    reading = {called(node): [t for t in sliced if t in tensors_read(node)] for node in others}
    parts = [f"{name} still reads {listed(tensors)}" for name, tensors in reading.items() if tensors]
    if not parts:
        return ""
    more = f" and {counted(len(parts) - 1, 'other')} as well" if len(parts) > 1 else ""
    return f"; {parts[0]}{more}"
