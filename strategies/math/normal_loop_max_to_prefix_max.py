"""Turns a maximum over a loop into a running maximum: the maxima of the first terms, of which the last is the result.

    Before    K^{n}_{x}L^{m}_{y}[D_{x} max=a;]
    After     K^{n}_{x}L^{m}_{y}[M_{x,y}=max(if_then_else(y>0,M_{x,y-1},-inf),a);] K^{n}_{x}[D_{x}=M_{x,m-1};]

Element y of a row of M is the maximum of its terms up to y. In a nest of its own the rows' loops come first, with their
guards; in one that holds more, nothing moves. Several loops over the terms, split or tiled ones, number them in the
order in which they are taken.

Legal when: `path` holds all of the maximum, taken over serial loops, with the same number of terms in each row; nothing
reads it before it is complete; each row has an element of its own.

Pays when: another reduction over the same loop needs the maximum: relative to the running one it can go along with it,
where it had to wait for the last term. Alone it only takes storage.

Leads to: normal_loop_summation_on_exp_to_prefix_summation_on_exp, operator_fusion, set_storage_layout.

Inverse: none.
"""

from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.reduction import accumulation_at, accumulations, why_not_reduction
from leir.edit import dtypes, walk
from leir.names import tensor_names, unused_tensor
from leir.syntax import MINUS_INFINITY, Call, Equation, Path, Program, Select, reads
from strategies.base import BitExact, Fact, Level, Strategy, describe_at, listed, path_text
from strategies.prefixes import (
    declared,
    order_text,
    read_when_done,
    rows_apart,
    scan_at,
    scan_terms,
    whole_text,
    why_not_scan,
)


class NormalLoopMaxToPrefixMax(Strategy):
    name: ClassVar[str] = "normal_loop_max_to_prefix_max"
    level: ClassVar[Level] = "math"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{readers} read {result}, which is known only when {loop} at {path} is through. The maximum of the terms so "
        "far is known at each of them, and what is taken relative to it can go along.",
        "{result} is the maximum of {extent} terms, {term}. {readers} wait for the last of them; with the maximum of "
        "every prefix at hand they need not.",
        "Whatever uses {result}, as {readers} do, is a pass of its own over the terms. A running maximum takes this "
        "dependence on the end of {loop} apart into steps from each term to the next.",
        "The nest at {path} forgets all maxima but the last. Those on the way are what a sum relative to the maximum "
        "needs, if it is to start before the maximum is final.",
        "{loop} takes the maximum of {term} into one element, {result}. Kept for each term instead, it is a "
        "recurrence: every element is the one before it or the new term.",
        "To take {result} and what depends on it in one loop, the maximum must exist at every iteration of {loop}, "
        "not only after the last.",
        "At {path} a maximum over {loop} is one number a row. As {extent} numbers a row, each the maximum up to its "
        "term, it can be used term by term.",
        "{result} is a maximum over {loop} at {path}; it can be had as the last of its running maxima.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{element} is the maximum of {earlier} and the term {term}, and of the term alone at the start of a row; "
        "{result} becomes {last}.",
        "The accumulation into {result} becomes a recurrence: {running} holds the maxima of all prefixes of a row, "
        "each from the one before. The last, {last}, is stored as {result}.",
        "{running} is new, with {elements}: one for every term. The first of a row starts from -inf, each other from "
        "{earlier}; {result} is set to {last} when all are there.",
        "Two nests take the place of {second_nest}: the first fills {running}, the second sets {result} to {last}.",
        "Where {result} was updated, {element} is set to the maximum of {earlier} and {term}. After the loop {result} "
        "is {last}.",
        "Every iteration of {loop} writes an element of its own, {element}, in place of the one {result} for all. "
        "{result} gets the value of {last} at the end.",
        "The maximum now leaves a trace: {running}, in which {element} is the maximum up to its term. {result} is "
        "copied from {last}.",
        "{result} is no longer accumulated; it is {last}, and {element} is made from {earlier} and {term}.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{running} takes {bytes}, though each iteration asks for no more of it than {earlier}. Maxima are exact, so no "
        "bit changes.",
        "What is taken relative to {result} may now be taken relative to {running}, in one loop with it. The same "
        "comparisons are made in the same order: every bit stays.",
        "The work is the same, a comparison a term; {bytes} are stored on top. No rounding is involved.",
        "A sum of exp that subtracts {result} may now subtract {element} and be rescaled as it grows. Until then "
        "{bytes} are spent; values keep every bit.",
        "The loop stays serial, since {element} needs {earlier}. What is gained is that the maximum is at hand within "
        "it. Every bit stays.",
        "Nothing is saved yet: {elements} are written where one a row was kept. But what is relative to the maximum "
        "so far need not wait for the end of {loop}. The maximum is the same, bit for bit.",
        "{result} has the same value as before, bit for bit, and its history is there for others at the price of "
        "{bytes}.",
        "{bytes} of running maxima are stored; {result} keeps its bits.",
    )

    path: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["NormalLoopMaxToPrefixMax"]:
        yield from (cls(path=path) for path in accumulations(program, "max="))

    def facts(self, program: Program) -> Iterator[Fact]:
        shown = describe_at(program, self.path)
        why = why_not_reduction(program, self.path, "max=") if accumulation_at(program, self.path) else shown
        yield Fact("nest-is-a-full-maximum", not why, why or whole_text(program, self.path))
        why = why_not_scan(program, self.path)
        scan = None if why else scan_at(program, self.path)
        yield Fact("terms-follow-one-another", not why, order_text(scan) if scan else why)
        assert scan is not None
        yield read_when_done(program, scan)
        yield rows_apart(self.rewrite(program), scan.equation.target)

    def rewrite(self, program: Program) -> Program:
        scan, running = scan_at(program, self.path), unused_tensor(program)
        before = Select(scan.has_earlier(), scan.element(running, -1), MINUS_INFINITY)
        now = Equation(scan.element(running, 0), "=", Call("max", (before, scan.equation.value)))
        after = scan.replaced(program, now, Equation(scan.equation.target, "=", scan.last(running)))
        return declared(after, running, dtypes(program)[scan.equation.target.tensor], scan.shape())

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        (running,) = tensor_names(after) - tensor_names(before)
        scan = scan_at(before, self.path)
        own = scan.equation.target.tensor
        readers = [path for path, s in walk(before) if isinstance(s, Equation) and reads(s.value, own)]
        result = scan_terms(before, self.path, running, dtypes(after)[running])
        if readers:
            result["readers"] = f"the equations at {listed(path_text(path) for path in readers)}"
            if len(readers) == 1:
                del result["readers"]
        return result
