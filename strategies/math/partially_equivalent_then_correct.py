"""Lays the operands of several padded windows end to end, computes all as one, and corrects the seams.

    Before    L^{n,w}_{x,u}(0<=x+u-1&&x+u-1<n)[C_x+=A_{x+u-1};] L^{n,w}_{x,u}(0<=x+u-1&&x+u-1<n)[D_x+=E_{x+u-1};]
    After     L^{n}_{x}[T_x=A_x;] L^{n}_{x}[T_{n+x}=E_x;]
              L^{2*n,w}_{x,u}(0<=x+u-1&&x+u-1<2*n)[R_x+=T_{x+u-1};]
              L^{1,w}_{x=n-1,u}(0<=x+u-1&&x+u-1<n)[C_x+=A_{x+u-1};] L^{1,w}_{x,u}(0<=x+u-1&&x+u-1<n)[D_x+=E_{x+u-1};]
              L^{n-1}_{x}[C_x=R_x;] L^{n-1}_{x=1}[D_x=R_{n+x};]

Convolutions, pools and sums of shifted elements, in any number of dimensions, in one list or in one nest. They are
compared by meaning: loops may be split, or in another order where no rounding depends on it, operands laid out
otherwise, and terms computed ahead. `along` is the loop of the first nest along which operands are laid end to end;
what a nest reads that does not move with it (weights) is stacked, and chosen by the number of the operand. Windows near
a seam see the neighbour in place of the padding: the joint results are right but there. The few that are wrong are
computed again, as before, and all others are taken from the joint nest.

Legal when: the nests are alike but for the tensors that they read and write; operands are of one length along the loop;
none of the nests uses another's result; and what they read is the same, and nobody reads their results, up to the place
where they meet. Which results are wrong is computed exactly, and those alone are computed again.

Pays when: each nest alone is too small to fill the machine, or its start costs more than its work: one wide nest takes
their place. The price is a copy of the operands, and the seams.

Inverse: none in one step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import prod
from typing import ClassVar

from pydantic import Field

from leir.analysis.access import tensors
from leir.analysis.isl import Box, TooHard
from leir.analysis.kernels import BYTES
from leir.analysis.likeness import NotAlike
from leir.analysis.nestforms import equation_path, nest_form
from leir.analysis.seams import conditions_on, right_boxes, why_not_affine, wrong_boxes
from leir.analysis.windows import Windows, windows_at
from leir.edit import (
    accesses,
    dtypes,
    enclosing,
    equation_paths,
    insert_at,
    sole_equation,
    statement_at,
    variables_of,
    walk,
    without,
)
from leir.printer import equation_text, header_text, statement_text
from leir.syntax import AssignOp, Equation, Guard, Loop, Path, Program
from strategies.base import (
    BitExact,
    Fact,
    Gridded,
    Level,
    capitalised,
    counted,
    describe_at,
    listed,
    path_text,
    statement_or_none,
)
from strategies.grid import DEFAULT, Grid
from strategies.joining import Joint, meeting_place, size_of

NAMES: dict[AssignOp, str] = {"+=": "sum", "*=": "product", "max=": "maximum", "min=": "minimum", "=": "value"}


class PartiallyEquivalentThenCorrect(Gridded):
    name: ClassVar[str] = "partially_equivalent_then_correct"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{nests} slide one window over {read}: {count} with one header, {header}. With what they read laid end to "
        "end along {x}, they make one nest of {long} values of {x}, and {right_count} of its {total} results are right "
        "as they come.",
        "Only {wrong_count} of the {total} results of {nests} would see the neighbour in place of the padding if "
        "{operands} were laid end to end along {x}. One nest can compute the rest.",
        "Nothing but padding tells the nests at {nests} where their operands end. It matters to {wrong_count} of "
        "{total} results: {wrong}. So they can run as one, and these be computed again.",
        "Each of the nests at {nests} has {each} iterations. One nest of {all} does the work of all, if what goes "
        "wrong at the seams is put right: {wrong}.",
        "What do {nests} differ in? In tensors alone: each computes a {word} like {equation}. Joined along {x}, they "
        "get {wrong_count} results wrong, to be computed again.",
        "The results {results} come from {count} that wait for nothing of each other and meet at ({place}). Joined "
        "along {x}, they differ from what they are now at the seams alone, in {wrong_count} of {total} places.",
        "{nests} read {weights} besides, each what is its own: stacked, that is chosen by {which}. What "
        "moves with {x}, {read}, can be laid end to end, and {right_count} of {total} results do not notice.",
        "The nests at {nests} are alike but for their tensors, and {right_count} of the {total} results stay right if "
        "all are computed as one along {x}.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{laid} {hold} {operands}, end to end{beside}. {joint_header} computes all of it into {result}; the results "
        "near the seams are computed again from the operands themselves, and all others are copied from {result}.",
        "In place of {nests}: statements that lay {operands} end to end in {laid}{beside}, one nest into {result}, "
        "{corrections} for what is wrong in it, and copies of what is right into {results}.",
        "The loop {x} runs to {long} instead of {extent}, over {laid}, and the bound that ends a window moves with it. "
        "Then {wrong}: there the old nests run again, over these places only. The other places of {results} are "
        "taken from {result}.",
        "First {laid} {are} filled with {operands}, end to end{beside}; then {result} is computed, {joint}; "
        "{corrections} and copies of the right part of {result} into {results} come last.",
        "{results} now get their values in two ways. {wrong}, so these places are computed as before; everywhere else "
        "they are read off {result}, which one nest computes from {laid}.",
        "The statements at {nests} go. At ({place}) now stand {new_count} others: copies into {filled}, the joint nest "
        "with the header {joint_header}, {corrections}, and copies out of {result}.",
        "{weights} {stacked_are} stacked in {stacked}, with a first subscript that tells whose they are, {which} in "
        "the joint nest. {laid} {hold} {operands}, end to end. The joint nest fills {result}, the seams come from "
        "{corrections}, and the rest of {results} is copied.",
        "One nest over {laid} takes the place of {count}. Its results go to {result}, from there to {results}, "
        "but for those at the seams, which come from {corrections}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "One nest of {all} iterations does what {count} of {each} did, to be tiled and bound once. Copies of what "
        "is read take {bytes}, and {again} iterations run twice. {exactly}",
        "The correction computes {wrong_count} of {total} results again, {again} iterations beside the {all} of the "
        "joint nest. {exactly}",
        "Every result has the terms it had, in their order: the right ones in the joint nest, the others in "
        "nests of their own. So every bit stays, for {bytes} of operands that are copied.",
        "The {count} become a single one, with {long} values of {x}. What that costs: {bytes} of operands that are "
        "copied, what is copied out of {result}, and {again} iterations for the seams. No rounding changes.",
        "Bits do not change. The work grows by {again} iterations, and by the copies into {filled} and out of "
        "{result}; in return {x} has {long} independent values in one nest in place of {extent} in each of {count}.",
        "What was {count} to schedule is one, over {long} values of {x}. {exactly}",
        "{copies}: {bytes} in all. In return one nest computes the {word} for all {total} results; {wrong_count} of "
        "these are computed again.",
        "{right_count} results come from the joint nest and {wrong_count} from the corrections, each from its "
        "terms in the order they always had; so the step is bit-exact.",
    )

    nests: tuple[Path, ...] = Field(min_length=2)
    along: Path

    @classmethod
    def candidates(cls, program: Program, grid: Grid = DEFAULT) -> Iterator["PartiallyEquivalentThenCorrect"]:
        for group in _groups(program, grid.alike):
            first = equation_path(program, group[0])
            assert first is not None
            for along, level in enclosing(program, first):
                if isinstance(level, Loop) and _is_padded(program, first, level.variable):
                    yield cls(nests=group, along=along)

    def facts(self, program: Program) -> Iterator[Fact]:
        own = [equation_path(program, path) if statement_or_none(program, path) else None for path in self.nests]
        single = all(a is not None and b is not None and a < b for a, b in pairwise(own))
        evidence = f"{_shown(self.nests)} hold one equation each, in this order"
        if not single:
            found = ", ".join(describe_at(program, path) for path in self.nests)
            evidence = f"nests of one equation each, in order, are wanted: {found}"
        yield Fact("paths-are-nests", single, evidence)
        windows, evidence = _windows_or_none(program, self.nests, self.along)
        yield Fact("nests-are-alike", windows is not None, evidence)
        assert windows is not None
        why = _why_types_differ(program, windows)
        yield Fact("types-are-equal", not why, why or f"results are {dtypes(program)[windows.targets[0].tensor]}")
        why = _why_written_elsewhere(program, windows)
        names = listed(target.tensor for target in windows.targets)
        yield Fact("results-have-one-writer", not why, why or f"nothing else writes {names}")
        place, evidence = meeting_place(program, windows)
        yield Fact("nests-can-meet", place is not None, evidence)
        wrong, why = _wrong_or_none(windows)
        x = windows.x.variable
        evidence = f"all conditions on {x} are quasi-affine, so the wrong results are known exactly"
        yield Fact("conditions-can-be-decided", wrong is not None, why if wrong is None else evidence)
        assert wrong is not None
        evidence = f"{_seams_text(windows, wrong)}; {why}"
        if not any(wrong):
            evidence = f"no window reaches over a seam along {x}: tensor_concat_to_fuse_operators joins such nests"
        yield Fact("seams-are-wrong", any(wrong), evidence)
        right = [sum(map(size_of, right_boxes(windows, boxes))) for boxes in wrong]
        lost = [target.tensor for target, count in zip(windows.targets, right, strict=True) if not count]
        each = zip(right, windows.targets, strict=True)
        counts = (f"{n} results of {t.tensor}" if not i else f"{n} of {t.tensor}" for i, (n, t) in enumerate(each))
        evidence = f"{listed(counts)} are right"
        yield Fact("some-results-are-right", not lost, f"all of {lost[0]} is wrong" if lost else evidence)

    def rewrite(self, program: Program) -> Program:
        joint = self._joint(program)
        above, number, new = joint.windows.list_, self._place(program), joint.statements
        depth = len(above)

        def moved(path: Path) -> Path:
            return (*above, path[depth] + len(new), *path[depth + 1 :]) if path[depth] >= number else path

        after = insert_at(program, (*above, number), *new)
        after = without(after, {moved(path) for path in joint.windows.nests}, {})
        return replace(after, body=(*joint.declared, *after.body))

    def _place(self, program: Program) -> int:
        place, _ = meeting_place(program, windows_at(program, self.nests, self.along))
        assert place is not None
        return place

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        joint = self._joint(before)
        windows, count = joint.windows, len(self.nests)
        wrong, exactly = _wrong_or_none(windows)
        assert wrong is not None
        place = self._place(before)
        x, operands = windows.x, _in_turn(windows)
        total = count * prod(loop.extent for loop in windows.kept)
        again = sum(size_of(box) for boxes in wrong for box in boxes)
        each = prod(loop.extent for loop in windows.loops)
        over = prod(loop.extent for loop in windows.loops if loop not in windows.kept)
        result = {
            "nests": _shown(self.nests),
            "count": counted(count, "nest"),
            "place": str(place),
            "operands": operands,
            "read": _names_of(windows, laid=True),
            "x": x.variable,
            "extent": str(x.extent),
            "long": str(joint.long.extent),
            "header": header_text(windows.levels[0]),
            "word": NAMES[windows.equations[0].op],
            "equation": equation_text(windows.equations[0]),
            "results": listed(target.tensor for target in windows.targets),
            "each": f"up to {each}",  # the padding leaves some out
            "all": f"up to {each // x.extent * joint.long.extent}",
            "total": str(total),
            "wrong_count": str(again),
            "right_count": str(total - again),
            "again": f"up to {again * over}",
            "wrong": _seams_text(windows, wrong),
            "exactly": capitalised(exactly) + ", so none is computed twice without need."
            if "only" in exactly
            else capitalised(exactly) + ".",
            "laid": listed(joint.laid),
            "filled": listed([*joint.laid, *joint.stacked]),
            "result": joint.result.tensor,
            "joint": statement_text(joint.nest),
            "joint_header": header_text(joint.levels),
            "corrections": counted(len(joint.corrections), "correction"),
            "new_count": str(len(joint.statements)),
            "bytes": counted(_bytes(after, [*joint.laid, *joint.stacked]), "byte"),
        }
        several, result["beside"] = len(joint.laid) > 1, ""
        result |= {"hold": "hold" if several else "holds", "are": "are" if several else "is"}
        result["copies"] = f"{capitalised(operands)} are laid end to end in {listed(joint.laid)}"
        if joint.stacked:
            weights = _names_of(windows, laid=False)
            result |= {"weights": weights, "stacked_are": "are" if " and " in weights else "is"}
            result["copies"] += f", and {weights} {result['stacked_are']} stacked in {listed(joint.stacked)}"
            result["stacked"] = listed(joint.stacked)
            result["which"] = f"{x.variable}//{windows.pitch}"
            result["beside"] = f", and {weights} stacked in {result['stacked']}"
        return result

    def _joint(self, program: Program) -> Joint:
        windows = windows_at(program, self.nests, self.along)
        wrong, _ = _wrong_or_none(windows)
        assert wrong is not None
        return Joint(program, windows, wrong)


def _shown(paths: Sequence[Path]) -> str:
    return listed(map(path_text, paths))


def _bytes(program: Program, names: Sequence[str]) -> int:
    """What tensors take."""
    known = tensors(program)
    return sum(prod(known[name].shape) * BYTES[known[name].dtype] for name in names)


def _names_of(windows: Windows, laid: bool) -> str:
    """The tensors that the nests read, of the operands that are laid end to end or of those that are stacked."""
    found = [o for o in windows.operands if (o.along is not None) == laid and not o.is_shared]
    return listed(dict.fromkeys(read.tensor for operand in found for read in operand.reads))


def _in_turn(windows: Windows) -> str:
    """The tensors that are laid end to end, one for each nest; one that comes again says so: `two copies of A`."""
    laid = {o.source: o.reads for o in windows.operands if o.along is not None}
    names = [read.tensor for reads in laid.values() for read in reads]
    times = {name: names.count(name) for name in names}
    return listed(name if count == 1 else f"{_times_text(count)} copies of {name}" for name, count in times.items())


def _times_text(count: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(count, str(count))


def _groups(program: Program, most: int) -> Iterator[tuple[Path, ...]]:
    """Pairs of nests that may be alike, of the first `most`, and all that are at once.

    Each nest is the largest that holds nothing else.
    """
    alike: dict[object, list[Path]] = {}
    for path in equation_paths(program):
        if not _is_padded(program, path):
            continue
        form = nest_form(program, path, 0, opened=True)
        likeness = (
            form.equation.op,
            sum(1 for _ in accesses(form.equation.value)),
            *sorted(n.extent for n in form.loops),
        )
        nest = path
        while len(nest) > 1 and sole_equation(statement_at(program, nest[:-1])) is not None:
            nest = nest[:-1]
        alike.setdefault(likeness, []).append(nest)
    for paths in alike.values():
        yield from combinations(paths[:most], 2)
        if len(paths) > 2:
            yield tuple(paths)


def _is_padded(program: Program, path: Path, x: str | None = None) -> bool:
    """Whether results of an equation, or those along a loop, may be subject to padding: a condition decides by it."""
    equation = statement_at(program, path)
    assert isinstance(equation, Equation)
    guards = [level.condition for _, level in enclosing(program, path) if isinstance(level, Guard)]
    names = variables_of(equation.target) if x is None else variables_of(equation.target) & {x}
    decided = any(name in variables_of(guard) for guard in guards for name in names)
    return decided or any(any(conditions_on(equation.value, name)) for name in sorted(names))


def _windows_or_none(program: Program, nests: Sequence[Path], along: Path) -> tuple[Windows | None, str]:
    try:
        windows = windows_at(program, nests, along)
    except NotAlike as error:
        return None, f"{_shown(nests)} cannot be laid end to end along {path_text(along)}: {error}"
    operands = _names_of(windows, laid=True)
    return windows, f"{_shown(nests)} differ in tensors alone; along {windows.x.variable} they read {operands}"


def _why_types_differ(program: Program, windows: Windows) -> str:
    types = dtypes(program)
    for accesses_of in (windows.targets, *(operand.reads for operand in windows.operands)):
        found = dict.fromkeys(types[access.tensor] for access in accesses_of)
        if len(found) > 1:
            return f"{listed(a.tensor for a in accesses_of)} are {listed(found)}"
    return ""


def _why_written_elsewhere(program: Program, windows: Windows) -> str:
    for target in windows.targets:
        writers = [s for _, s in walk(program) if isinstance(s, Equation) and s.target.tensor == target.tensor]
        if len(writers) > 1:
            return f"{len(writers)} equations write {target.tensor}"
    return ""


def _wrong_or_none(windows: Windows) -> tuple[tuple[tuple[Box, ...], ...] | None, str]:
    """For each nest the boxes of its wrong results, and in words whether they are exact."""
    if why := why_not_affine(windows):
        return None, why
    try:
        found = [wrong_boxes(windows, number) for number in range(len(windows.nests))]
    except TooHard as reason:
        return None, f"it is too hard to say which results are wrong: {reason}"
    exact = all(exactly for _, exactly in found)
    evidence = "the boxes to compute again hold wrong results only" if exact else "the boxes also hold right results"
    return tuple(boxes for boxes, _ in found), evidence


def _seams_text(windows: Windows, wrong: Sequence[Sequence[Box]]) -> str:
    x = windows.x.variable
    parts: list[str] = []
    for target, boxes in zip(windows.targets, wrong, strict=True):
        runs = [f"{low}" if low == high else f"{low}..{high}" for (low, high), *_ in boxes]
        if runs:
            parts.append(f"{target.tensor} is wrong at {x}={listed(runs)}")
    return "; ".join(parts)
