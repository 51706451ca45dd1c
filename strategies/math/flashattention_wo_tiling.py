"""Takes scores, softmax and the sum of weighted values of an attention in one pass, without the matrix of scores.

    Before    K^{n}_{x}L^{m}_{y}[S_{x,y}=s;] K^{n}_{x}L^{m}_{y}[D_{x} max=S_{x,y};]
              K^{n}_{x}L^{m}_{y}[E_{x}+=exp(S_{x,y}-D_{x});]
              K^{n}_{x}L^{k}_{z}L^{m}_{y}[O_{x,z}+=exp(S_{x,y}-D_{x})/E_{x}*v;]
    After     K^{n}_{x}[M^{t,l};Z^{t,l};R^{t,l}_{k};M=-inf;Z=0.0;L^{k}_{z}[R_{z}=0.0;]
                L^{m}_{y}[N^{t,l};F^{t,l};W^{t,l};N=max(M,s);F=if_then_else(M==N,1.0,exp(M-N));
                  W=if_then_else(N==-inf,0.0,exp(s-N));Z=Z*F+W;L^{k}_{z}[R_{z}=R_{z}*F+W*v;]M=N;]
                L^{k}_{z}[O_{x,z}=R_{z}/Z;]]

(Dao et al., "FlashAttention", 2022; Rabe and Staats, "Self-attention does not need O(n^2) memory", 2021.) Each row
keeps the maximum M of the scores seen so far, the sum Z of exp(s-M) and the weighted sum R; a score that raises the
maximum to N rescales both by exp(M-N). Scores are computed where they are used, the product of query and key with them,
whatever scale, bias or mask they have; heads may share keys and values. The parts may be fused, split, inlined or
tiled; the sum may leave the division to its reader. D and E are stored where something else reads them.

`block`: how many of the inner loops over y are taken at once. Their scores are kept in registers, the maximum rises and
the row is rescaled once for all of them: what a tiled attention does with a block of keys.

Legal when: the weights are exp(s-D), or that over E, of which D is the maximum and E the sum over the terms of the
weighted sum, each once; nothing else reads the scores, and D and E are read later, if at all;
no operand changes between its old place and the pass; rows have elements of their own. A row may begin with -inf: both
exponentials are guarded where their difference would be inf-inf, unless scores are bounded below. A row of -inf alone
gives what it gave before, NaN, or the 0 that the weights then have. The new registers have the computing type.

Pays when: the scores do not fit the caches, as their number grows with the square of the tokens: neither they nor the
weights are stored or read again, for one rescaling of the row at each score, or each block of them.

Leads to: loop_split, loop_binding, set_storage_scope, cache_read_write.

Inverse: none.
"""

import math
from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from leir.analysis.access import tensors
from leir.analysis.attention import (
    Attention,
    may_be_weighted_sum,
    read_elsewhere,
    tensor_written,
    why_changed,
)
from leir.analysis.attention_search import Match
from leir.analysis.definitions import shared_levels
from leir.analysis.kernels import BYTES
from leir.analysis.ranges import ranges
from leir.analysis.reduction import why_not_reduction, writes_apart
from leir.analysis.softmax import NotFound
from leir.edit import (
    accesses,
    enclosing,
    loops_around,
    nested,
    statements_at,
    walk,
    without,
)
from leir.names import bound_variables, unused_variable
from leir.printer import equation_text, expression_text, header_text
from leir.syntax import (
    Access,
    Alloc,
    Equation,
    Guard,
    Loop,
    Path,
    Place,
    Program,
    Stmt,
)
from strategies.base import BitExact, Fact, Level, Strategy, counted, describe_at, listed, path_text, statement_or_none
from strategies.passes import Registers, all_inner, loops_of, row_of


class FlashattentionWoTiling(Strategy):
    name: ClassVar[str] = "flashattention_wo_tiling"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "never"
    choice: ClassVar[tuple[str, ...]] = (
        "{output} sums values weighted by a softmax over {keys} terms a row. Its scores reach it through {gone}, "
        "{bytes} in all, which serve nothing else, and are stored and read again.",
        "{gone} stand between the operands and {output}, with a score for each pair of a row and a term, {pairs} of "
        "them here: taken in one pass, none of these tensors has to exist.",
        "The nest at {path} is the end of an attention. It waits for {maximum} and {total}, each a pass of its own "
        "over the same {keys} scores of a row; a running maximum lets all three follow the scores as they come.",
        "Three passes go over the scores of a row: one for the maximum {maximum}, one for the sum {total}, one for "
        "the weighted sum {output}. Only the maximum makes them wait for each other, and it can be corrected "
        "afterwards.",
        "The term of {output} is a value times exp(s-{maximum}), where {maximum} is the maximum of s={score} over the "
        "same {keys} terms. Whatever was summed relative to a smaller maximum is made right by one factor.",
        "A row of {output} is a softmax of {keys} scores times values. Both its sum and its weighted sum are linear "
        "in the exponentials, so that both can be kept relative to the maximum so far and rescaled when it rises.",
        "{rows} rows, {keys} terms each: the scores s={score} are needed for {maximum}, and again for the weights of "
        "{output}. In one pass a score is needed once.",
        "What {output} sums has the weights of a softmax: exp({score}-{maximum}), with the maximum over the very "
        "terms of the sum.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "One nest over the rows takes the place of {parts}. Registers {registers} keep the maximum so far and what "
        "was summed relative to it; {new} is the maximum with the {unit} at hand, and {factor} rescales what was "
        "summed before.",
        "{nests} become one pass. For each {unit}, {new} is the new maximum, {factor} is exp({running}-{new}), "
        "{accumulators} are multiplied by it, and the new terms come in relative to {new}; at the row's end {output} "
        "is stored.",
        "The scores move into the nest of {output}: each is {made} where it is used. {running} starts at -inf and "
        "follows the maximum; {accumulators} follow it by the factor {factor}.",
        "Each row starts with {running}=-inf and zeros in {accumulators}. Then, {unit} by {unit}: the scores, the new "
        "maximum {new}, the factor {factor} for what is there already, and the weighted values on top.",
        "{nests} go; what they made is made in passing. A row lives in {registers}, and stores no more than {stored}.",
        "The sum at {path} is taken together with its softmax. Where it read weights it now has {running}, the "
        "maximum of the scores seen, and {factor}, by which {accumulators} are kept relative to it.",
        "Maximum, sum and weighted sum advance side by side through the {keys} terms of a row, in {registers}; each "
        "{unit} that raises the maximum to {new} rescales the others by {factor}.",
        "For each {unit}, the pass computes {new}, the maximum so far, and {factor}, which is exp({running}-{new}); "
        "{accumulators} are rescaled by {factor} and added to, and {stored} {are} stored when the row is done.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{gone}, {bytes}, are no longer stored, nor read back; {elements} registers last through a row. {guards} "
        "The sums are formed relative to other maxima, so the result agrees to rounding, not bit for bit.",
        "{bytes} of {gone} go, scores of each pair of a row and a term among them. In return each {unit} costs a "
        "factor, by which {accumulators} are rescaled. {guards}",
        "The {pairs} scores are used one {unit} at a time, and nothing of {gone} passes through memory. {guards} "
        "Roundings differ, as the terms are scaled by other maxima on their way.",
        "The whole row is one pass over its {keys} terms, which later steps can cut: rows for blocks of a GPU, terms "
        "for what is staged in shared memory. {guards} Results agree to rounding.",
        "From term to term, {elements} registers of a row are kept, however many terms it has. {guards} Since sums "
        "are rescaled on the way, {output} may differ in its last bits.",
        "A row waits no more for its own maximum: scores, {maximum} and {output} come from one pass. Each {unit} "
        "rescales {accumulators}. {guards} Results are rounded otherwise than before.",
        "A row is computed in registers, and stores no more than {stored}. The price is the rescaling of "
        "{accumulators} at each {unit}. {guards}",
        "{output} is computed by one nest. {guards} The sums are rounded otherwise than before, so {output} is close, "
        "but not equal in every bit.",
    )

    path: Path
    block: int = Field(default=0, ge=0)

    @classmethod
    def candidates(cls, program: Program) -> Iterator["FlashattentionWoTiling"]:
        for path in [(), *(path for path, node in walk(program) if isinstance(node, Loop | Guard))]:
            listed = statements_at(program, path)
            if path and len(listed) == 1:
                continue  # the nest around it is the one to take
            for number, statement in enumerate(listed):
                nest = (*path, number)
                if isinstance(statement, Loop | Guard) and may_be_weighted_sum(program, nest):
                    loops = sum(isinstance(level, Loop) for level in _key_levels(program, nest))
                    for block in range(max(1, loops)):
                        yield cls(path=nest, block=block)

    def facts(self, program: Program) -> Iterator[Fact]:
        statement = statement_or_none(program, self.path)
        why = why_not_reduction(program, self.path, "+=") if isinstance(statement, Loop | Guard) else ""
        if not isinstance(statement, Loop | Guard):
            why = describe_at(program, self.path)
        if why:
            yield Fact("path-is-one-sum", False, f"{why}; the path must be that of a nest with one sum")
            return
        match = Match(program, self.path)
        text = equation_text(match.equation)
        yield Fact(
            "path-is-one-sum", True, f"{text} sums over {listed(sorted(match.keys))} and alone writes its tensor"
        )
        try:
            weights = match.weights()
        except NotFound as reason:
            yield Fact("weights-are-exponentials", False, str(reason))
            return
        shown = f"a term is a value times exp({expression_text(weights.score)}-{expression_text(weights.maximum)})"
        shown += f", over {expression_text(weights.total)}" if weights.total else ""
        yield Fact("weights-are-exponentials", True, shown)
        try:
            found = match.attention(weights.maximum)
        except NotFound as reason:
            yield Fact("softmax-is-over-the-terms", False, str(reason))
            return
        yield Fact("softmax-is-over-the-terms", True, _softmax_text(found))
        loops = sum(isinstance(level, Loop) for level in found.keys)
        fits = self.block < loops and not (self.block and _reads_inner(found))
        shown = _block_text(found, self.block)
        if self.block < loops and not fits:
            shown = f"{expression_text(found.weights.value)} needs a reduction of its own for each term of a block"
        yield Fact("block-leaves-a-loop", fits, shown)
        yield _scores_serve(program, found)
        yield _read_later(program, found)
        why = why_changed(match.definitions, found)
        shown = "nothing writes an operand between its old place and that of the pass"
        yield Fact("operands-are-unchanged", not why, why or shown)
        yield _rows_apart(self.rewrite(program), found)

    def rewrite(self, program: Program) -> Program:
        found = _attention(program, self.path)
        rows = found.rows
        if not rows and len(self.path) == 1:  # an `l` tensor may not be declared outside all nests
            taken = bound_variables(program).union(*(loops_of(each) for each in all_inner(found.inner)))
            rows = (Loop("L", unused_variable(taken), 1, 0, ()),)
        elsewhere = read_elsewhere(program, found)
        stored = tuple(s.access.tensor for s in (found.maximum, found.total) if s and s.access.tensor in elsewhere)
        registers = Registers.of(program, found, self.block)
        row = row_of(found, registers, self.block, stored, _may_be_infinite(program, found))
        return _with_pass(program, self.path, found, stored, nested(rows, row))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        found = _attention(before, self.path)
        own = Registers.of(before, found, self.block)
        kept = tensors(after)
        opened = dict.fromkeys(tensor_written(before, path) for path in found.opened)
        gone = [tensors(before)[name] for name in opened if name not in kept]
        nests = dict.fromkeys(path[: _list_length(path, self.path) + 1] for path in (*found.opened, found.path))
        statistics = [s.access for s in (found.maximum, found.total) if s and s.access.tensor in kept]
        accumulators = [*([own.total.tensor] if found.total else []), own.result]
        columns = math.prod(level.extent for level in found.columns if isinstance(level, Loop))
        keys = math.prod(level.extent for level in found.keys if isinstance(level, Loop))
        rows = math.prod(loop.extent for loop in loops_around(before, found.path)) // (keys * columns)
        guarded = _may_be_infinite(before, found)
        result = {
            "output": expression_text(found.target),
            "path": path_text(self.path),
            "score": expression_text(found.weights.score),
            "maximum": expression_text(found.maximum.access),
            "parts": f"the nests at {listed(path_text(path) for path in sorted(nests))}",
            "registers": listed([own.largest.tensor, *accumulators]),
            "accumulators": listed(accumulators),
            "running": own.largest.tensor,
            "new": own.new.tensor,
            "factor": own.factor.tensor,
            "stored": listed(expression_text(access) for access in (*statistics, found.target)),
            "are": "are" if statistics else "is",
            "unit": "block of terms" if self.block else "term",
            "elements": str(1 + bool(found.total) + columns),
            "guards": "Rows may begin with -inf: the exponentials are guarded until a score is above it."
            if guarded
            else "Scores are never -inf, so that -inf is never taken from itself.",
        }
        if not isinstance(found.weights.score, Access) or found.inner:
            result["made"] = "computed"
        if len(nests) == 1:
            result["parts"] = f"the nest at {path_text(self.path)}"
        else:
            result["nests"] = result["parts"]
        if found.total:
            result["total"] = expression_text(found.total.access)
        around = (level for _, level in enclosing(before, found.path))
        if not any(isinstance(level, Guard) for level in (*around, *found.keys)):
            result |= {"keys": str(keys), "rows": str(rows), "pairs": str(rows * keys)}
        if gone and all(tensor.scope == "g" for tensor in gone):
            size = sum(math.prod(tensor.shape) * BYTES[tensor.dtype] for tensor in gone)
            result |= {"gone": listed(tensor.name for tensor in gone), "bytes": f"{size} bytes"}
        return result


def _list_length(path: Path, nest: Path) -> int:
    """How many levels a statement's path shares with the list that holds a nest."""
    return min(shared_levels(path, nest), len(nest) - 1)


def _attention(program: Program, path: Path) -> Attention:
    match = Match(program, path)
    return match.attention(match.weights().maximum)


def _key_levels(program: Program, nest: Path) -> tuple[Loop | Guard, ...]:
    """The loops of a nest that its sum does not keep apart."""
    match = Match(program, nest)
    return tuple(n for n in match.levels if isinstance(n, Loop) and n.variable in match.keys)


def _block_text(found: Attention, block: int) -> str:
    """Which loops over the terms a block takes, and which are left."""
    loops = [level for level in found.keys if isinstance(level, Loop)]
    if block >= len(loops):
        return f"a block of {counted(block, 'loop')} leaves none of {header_text(loops)}"
    outside, inside = loops[: len(loops) - block], loops[len(loops) - block :]
    taken = f"{header_text(inside)} is" if inside else "no loop over the terms is"
    return f"{taken} taken into a block, and {header_text(outside)} is left"


def _softmax_text(found: Attention) -> str:
    largest, total = found.maximum.access, found.total
    text = f"{expression_text(largest)} is the maximum of the same scores, over the same terms"
    return f"{text}, and {expression_text(total.access)} the sum of the exponentials" if total else text


def _reads_inner(found: Attention) -> bool:
    own = {inner.access for inner in found.inner}
    return any(access in own for access in accesses(found.weights.value))


def _scores_serve(program: Program, found: Attention) -> Fact:
    """That what is computed in the pass need not be stored for others, but for maximum and sum."""
    kept = {s.access.tensor for s in (found.maximum, found.total) if s}
    for tensor, paths in read_elsewhere(program, found).items():
        if tensor not in kept:
            shown = f"{tensor} is also read at {listed(path_text(path) for path in paths)}"
            return Fact("scores-serve-this-sum-alone", False, shown)
    names = dict.fromkeys(tensor_written(program, path) for path in found.opened)
    shown = listed(name for name in names if name not in kept) if set(names) - kept else "no tensor"
    be = "are" if len(set(names) - kept) > 1 else "is"
    return Fact("scores-serve-this-sum-alone", True, f"{shown} {be} read for this sum, its maximum and its total only")


def _read_later(program: Program, found: Attention) -> Fact:
    """That maximum and sum, where they are read by others, are read after the weighted sum."""
    elsewhere = read_elsewhere(program, found)
    for statistic in (found.maximum, found.total):
        for path in elsewhere.get(statistic.access.tensor, ()) if statistic else ():
            common = shared_levels(path, found.path)
            if path[common] <= found.path[common]:
                assert statistic is not None
                shown = f"{statistic.access.tensor} is read at {path_text(path)}, ahead of the sum"
                return Fact("statistics-are-read-later", False, shown)
    return Fact("statistics-are-read-later", True, "nothing reads maximum or total ahead of the sum")


def _rows_apart(after: Program, found: Attention) -> Fact:
    """That no two rows share an element that they store."""
    targets = [found.target, *(s.access for s in (found.maximum, found.total) if s)]
    own = [(path, s.target) for path, s in walk(after) if isinstance(s, Equation) and s.target in targets]
    shared = [target for path, target in own if not writes_apart(after, path)]
    shown = listed(expression_text(target) for target in shared or [target for _, target in own])
    evidence = f"{shown} may be the element of more than one row" if shared else f"each row has its own {shown}"
    return Fact("rows-are-apart", not shared, evidence)


def _may_be_infinite(program: Program, found: Attention) -> bool:
    """Whether a score may be -inf."""
    return ranges(program).at(Place(found.maximum.path, (1,))).low == -math.inf


def _with_pass(
    program: Program, nest: Path, found: Attention, stored: tuple[str, ...], new: tuple[Stmt, ...]
) -> Program:
    """The program with the pass for the nest, without the equations that serve it alone, and what only held them."""
    gone = {tensor_written(program, path) for path in found.opened} - set(stored)
    declared = (path for path, s in walk(program) if isinstance(s, Alloc) and s.tensor in gone)
    return without(program, {*found.opened, *declared}, {nest: new})
