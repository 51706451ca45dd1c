"""Whether two nests are one computation on different operands, and what each reads where the other reads its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations, product

from leir.analysis.box import as_sum
from leir.analysis.nestforms import NestForm
from leir.edit import accesses, variables_of, with_operands
from leir.names import substitute_in
from leir.syntax import Access, Binary, Expr, Integer, Loop, Variable, operands

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_MOST_ORDERS = 32  # in which the operands of an equation are tried
_MOST_NAMINGS = 24  # of the loops over results
_HOLE = Access("")  # where an operand stands in the shape of an equation
Placed = tuple[Access, Access, tuple[tuple[Expr, int], ...]]  # a read, its layout, its indices with their sizes


class NotAlike(Exception):
    """The nests are not one computation on different operands; the message says what differs."""


def slot(number: int) -> str:
    """What stands for a place in the layout of an operand."""
    return f"#{number}"


def places_of(read: Access, own: set[str], sizes: Mapping[str, tuple[int, ...]]) -> Placed:
    """A read with the indices that its nest's loops move, those that are x//n and x%n as one."""
    shape = sizes[read.tensor]
    layout, indices = list(read.indices), list[tuple[Expr, int]]()
    taken: set[int] = set()
    for number, index in enumerate(read.indices):
        if any(accesses(index)):
            raise NotAlike(f"another tensor says where {read.tensor} is read")
        if number in taken or not variables_of(index) & own:
            continue
        place: Expr = Variable(slot(len(indices)))
        for other, rest in enumerate(read.indices):
            match index, rest:
                case Binary("//", whole, Integer(size)), Binary("%", same, Integer(by)) if size == by and as_sum(
                    whole
                ) == as_sum(same):
                    taken.add(other)
                    layout[number], layout[other] = (
                        Binary("//", place, Integer(size)),
                        Binary("%", place, Integer(size)),
                    )
                    indices.append((whole, shape[number] * size))
                    break
                case _:
                    pass
        else:
            if not _is_remainder(index, read.indices):
                layout[number] = place
                indices.append((index, shape[number]))
    return read, Access(read.tensor, tuple(layout)), tuple(indices)


def _is_remainder(index: Expr, others: Sequence[Expr]) -> bool:
    """Whether an index is x%n, where another is x//n."""
    match index:
        case Binary("%", whole, Integer(size)):
            return any(
                isinstance(other, Binary) and other.op == "//" and other.right == Integer(size)
                and as_sum(other.left) == as_sum(whole)
                for other in others
            )  # fmt: skip
        case _:
            return False


def alike(
    form: NestForm, first: NestForm, shape: Expr, places: Sequence[Placed], sizes: Mapping[str, tuple[int, ...]]
) -> tuple[NestForm, list[Placed]]:
    """A nest in the loops of the first, operands of sums and products in its order. Raises NotAlike.

    Loops over terms keep their order, on which rounding may depend.
    """
    if sorted(n.extent for n in form.loops) != sorted(n.extent for n in first.loops):
        raise NotAlike("their headers differ")
    own = {loop.variable for loop in first.loops}
    for names in islice(_namings(form, first), _MOST_NAMINGS):
        renamed = _renamed(form, names)
        for value in islice(_commuted(renamed.equation.value), _MOST_ORDERS):
            other, reads = shape_of_value(value)
            if renamed.equation.op != first.equation.op or other != shape:
                continue
            found = [_in_order(places_of(read, own, sizes), wanted) for read, wanted in zip(reads, places, strict=True)]
            if all(each is not None for each in found):
                equation = replace(renamed.equation, value=value)
                return replace(renamed, equation=equation), [each for each in found if each is not None]
    raise NotAlike("their equations differ in more than tensors")


def _namings(form: NestForm, first: NestForm) -> Iterator[dict[str, str]]:
    """The ways to call the loops of a nest like those of the first, the one in their order ahead."""
    kept, own = (variables_of(each.equation.target) for each in (first, form))
    terms = [[n for n in each.loops if n.variable not in names] for each, names in ((first, kept), (form, own))]
    results = [[n for n in each.loops if n.variable in names] for each, names in ((first, kept), (form, own))]
    if len(terms[0]) != len(terms[1]):
        return
    free = first.equation.op in ("max=", "min=")
    for rows in permutations(results[1]):
        for columns in permutations(terms[1]) if free else (terms[1],):
            pairs = [*zip(results[0], rows, strict=True), *zip(terms[0], columns, strict=True)]
            bound = all(a.kind == b.kind or "B" not in (a.kind, b.kind) for a, b in pairs)
            if bound and all(a.extent == b.extent for a, b in pairs):
                yield {b.variable: a.variable for a, b in pairs}


def _renamed(form: NestForm, names: Mapping[str, str]) -> NestForm:
    values: dict[str, Expr] = {old: Variable(new) for old, new in names.items()}
    target = substitute_in(form.equation.target, values)
    assert isinstance(target, Access)
    levels = tuple(
        replace(level, variable=names[level.variable])
        if isinstance(level, Loop)
        else replace(level, condition=substitute_in(level.condition, values))
        for level in form.levels
    )
    equation = replace(form.equation, target=target, value=substitute_in(form.equation.value, values))
    return replace(form, levels=levels, equation=equation)


def _in_order(found: Placed, wanted: Placed) -> Placed | None:
    """A read with its indices in the order of another's, slots renamed; None if they are not the same."""
    read, layout, indices = found
    left = list(enumerate(indices))
    order: list[int] = []
    for index, _ in wanted[2]:
        match = next((n for n, (other, _) in left if as_sum(other) == as_sum(index)), None)
        if match is None:
            return None
        order.append(match)
        left = [(n, each) for n, each in left if n != match]
    if left:
        return None
    turned: dict[str, Expr] = {slot(old): Variable(slot(new)) for new, old in enumerate(order)}
    moved = substitute_in(layout, turned)
    assert isinstance(moved, Access)
    return read, moved, tuple(indices[n] for n in order)


def _commuted(value: Expr) -> Iterator[Expr]:
    """The value with the operands of its sums and products in all orders, first as it is. No rounding depends on it."""
    if isinstance(value, Access):
        yield value
        return
    orders = [islice(_commuted(operand), _MOST_ORDERS) for operand in operands(value)]
    for below in product(*orders):
        yield with_operands(value, below)
        if isinstance(value, Binary) and value.op in ("+", "*"):
            yield with_operands(value, below[::-1])


def shape_of_value(value: Expr) -> tuple[Expr, tuple[Access, ...]]:
    """A value with holes where it reads tensors or compares numbers, and what it reads."""
    if isinstance(value, Access):
        return _HOLE, (value,)
    if isinstance(value, Binary) and value.op in COMPARISONS and not any(accesses(value)):
        return Binary("==", _HOLE, _HOLE), ()
    below = [shape_of_value(operand) for operand in operands(value)]
    return with_operands(value, tuple(shape for shape, _ in below)), tuple(a for _, found in below for a in found)


def with_reads(value: Expr, reads: Iterator[Access]) -> Expr:
    """The value with other accesses, in the order of the text."""
    if isinstance(value, Access):
        return next(reads)
    return with_operands(value, tuple(with_reads(operand, reads) for operand in operands(value)))
