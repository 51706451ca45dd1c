"""Fuses two directly nested loops into one that runs over all pairs of their iterations.

    Before    K^{n}_{x}L^{m}_{y=a}[...x...y...]
    After     K^{n*m}_{x=a}[...(x-a)//m...(x-a)%m+a...]

Where the body has the sum that a split leaves, x*m+y, the fused loop's variable takes its place.

Legal when: the outer loop holds the inner one and nothing else, and the inner one is serial or of the outer one's kind,
which the fused loop keeps. Iterations keep their order, so every value keeps its flow. Where the kind claims that
iterations are independent, the pairs must be; the other rules of the kind are proved again.

Pays when: neither loop has iterations enough for a GPU axis, for all cores, or for a split that fits, or the two walk
one row of memory. Where subscripts need both parts, the division and the remainder are the price.

Leads to: loop_binding, loop_split.

Inverse: loop_split.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

from leir.edit import expressions, map_statement, replace_at, statement_at, walk, walk_expression, walk_with
from leir.printer import expression_text, header_text
from leir.syntax import Binary, Expr, Integer, Loop, Path, Program, Stmt, Variable
from strategies.base import BitExact, Fact, Level, Strategy, counted, describe, listed, path_text
from strategies.blocks import block_index
from strategies.kinds import independence
from strategies.openings import a_loop


class LoopFusion(Strategy):
    name: ClassVar[str] = "loop_fusion"
    level: ClassVar[Level] = "operator"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "Loops {outer} and {inner} at {path} are the two parts of one index, {index}: one loop can run over it whole.",
        "Loop {outer} at {path} has {outer_runs} and {inner}, directly below, {inner_extent}: one loop of "
        "{extent} can be split in blocks of other sizes.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{header} becomes {new_header}. {outer} now counts pairs: below, {index} is written {fused}.",
        "{header} becomes {new_header}. {outer} now counts pairs: what was {outer} is {quotient}, and what was {inner} "
        "is {remainder}.",
        "{header} becomes {new_header}; {nothing} below needs {outer} or {inner}, so the body stays as it is.",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "{order}, so every result keeps its bits. One loop is started where {starts} were{price}.",
        "Nothing is computed in another order, and no bit changes. What it costs, and no total counts, is integer "
        "arithmetic: {parts_text} by {inner_extent} wherever {parts} {stand}.",
    )

    path: Path

    @classmethod
    def candidates(cls, program: Program) -> Iterator["LoopFusion"]:
        for path, node in walk(program):
            if isinstance(node, Loop) and (inner := _directly_below(node)) and inner.kind in ("L", node.kind):
                yield cls(path=path)

    def facts(self, program: Program) -> Iterator[Fact]:
        outer = yield from a_loop(program, self.path)
        below = _directly_below(outer)
        evidence = f"{outer.variable} holds {describe(outer.body[0])}"
        if below is None and len(outer.body) > 1:
            evidence = f"{outer.variable} holds {len(outer.body)} statements"
        yield Fact(
            "loops-are-directly-nested", below is not None, f"{evidence} and nothing else" if below else evidence
        )
        assert below is not None
        agree = below.kind == "L" or (below.kind == outer.kind != "B")
        kinds = f"the outer loop is {outer.kind}, the inner one {below.kind}"
        yield Fact("inner-kind-gives-way", agree, f"{kinds}; the fused loop is {outer.kind}" if agree else kinds)
        fused = statement_at(self.rewrite(program), self.path)
        assert isinstance(fused, Loop)
        pairs = f"{outer.extent}*{below.extent} = {counted(fused.extent, 'value')} of {fused.variable}"
        quotient, remainder = _parts(outer, below)
        parts = f"{expression_text(quotient)} and {expression_text(remainder)}"
        yield Fact("extent-fits-an-index", fused.extent < 2**31, f"{pairs}; {parts} take each pair once, in order")
        if outer.kind in ("P", "B"):
            yield Fact("pairs-are-independent", *independence(program, (*self.path, 0)))

    def rewrite(self, program: Program) -> Program:
        outer = statement_at(program, self.path)
        assert isinstance(outer, Loop)
        inner = outer.body[0]
        assert isinstance(inner, Loop)
        body = tuple(
            map_statement(statement, partial(_over_pairs, outer=outer, inner=inner)) for statement in inner.body
        )
        fused = replace(outer, extent=outer.extent * inner.extent, first=inner.first, body=body)
        return replace_at(program, self.path, fused)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        outer, fused = statement_at(before, self.path), statement_at(after, self.path)
        assert isinstance(outer, Loop) and isinstance(fused, Loop)
        inner = _directly_below(outer)
        assert inner is not None
        quotient, remainder = _parts(outer, inner)
        used = [part for body in inner.body for e in _expressions(body) for _, part in walk_expression(e)]
        result = {
            "price": "",
            "path": path_text(self.path),
            "outer": outer.variable,
            "inner": inner.variable,
            "outer_runs": counted(outer.extent, "iteration"),
            "inner_extent": str(inner.extent),
            "extent": str(fused.extent),
            "order": "The one iteration runs as it did",
            "header": header_text((outer, inner)),
            "new_header": header_text((fused,)),
            "starts": str(outer.extent + 1),
        }
        if fused.extent > 1:
            result["order"] = f"The {fused.extent} iterations run in the order they had"
        if fused.kind in ("P", "B"):
            result["order"] = "Each iteration does what one pair of iterations did"
        index = block_index(outer, inner.extent, inner.variable)
        if outer.first == 0 and index in used:
            return {**result, "index": expression_text(index), "fused": fused.variable}
        each = (("a division", outer, quotient), ("a remainder", inner, remainder))
        paid = {word: expression_text(part) for word, loop, part in each if Variable(loop.variable) in used}
        if not paid:
            return {**result, "nothing": "nothing"}
        result |= {"quotient": expression_text(quotient), "remainder": expression_text(remainder)}
        result |= {"parts_text": listed(paid), "parts": listed(paid.values())}
        result["stand"] = "stand" if len(paid) > 1 else "stands"
        result["price"] = f"; the price, which no total counts, is {listed(paid)} wherever {listed(paid.values())} "
        result["price"] += result["stand"]
        return result


def _directly_below(loop: Loop) -> Loop | None:
    """The loop that is all that stands below another."""
    return loop.body[0] if len(loop.body) == 1 and isinstance(loop.body[0], Loop) else None


def _parts(outer: Loop, inner: Loop) -> tuple[Expr, Expr]:
    """The values of the two loops' variables in terms of the fused loop's, which has the outer one's name."""
    count: Expr = Variable(outer.variable)
    if inner.first:
        count = Binary("-", count, Integer(inner.first))
    quotient = Binary("//", count, Integer(inner.extent))
    remainder = Binary("%", count, Integer(inner.extent))
    return _plus(quotient, outer.first), _plus(remainder, inner.first)


def _plus(expression: Expr, number: int) -> Expr:
    return Binary("+", expression, Integer(number)) if number else expression


def _over_pairs(expression: Expr, outer: Loop, inner: Loop) -> Expr:
    """An expression, whose operands are rewritten already, in terms of the fused loop's variable."""
    quotient, remainder = _parts(outer, inner)
    index = Binary("+", Binary("*", quotient, Integer(inner.extent)), remainder)
    if expression == Variable(outer.variable):
        return quotient
    if expression == Variable(inner.variable):
        return remainder
    if expression == index and outer.first == 0:
        return Variable(outer.variable)
    return expression


def _expressions(statement: Stmt) -> Iterator[Expr]:
    for _, node in walk_with(statement):
        yield from expressions(node)
