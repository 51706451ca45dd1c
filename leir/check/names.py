"""Names, ranks and sizes: what every other rule builds on."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import assert_never

from leir.analysis.access import tensors
from leir.check.diagnostic import Diagnostic
from leir.edit import accesses, expressions, walk, walk_enclosed, walk_expression, walk_with, walk_with_enclosed
from leir.syntax import (
    AXES,
    DEPTH_LIMIT,
    DTYPES,
    FUNCTIONS,
    KINDS,
    RESERVED_WORDS,
    SCOPES,
    Access,
    Alloc,
    Call,
    Cast,
    Equation,
    Expr,
    Guard,
    Loop,
    Path,
    Place,
    Program,
    Stmt,
    Variable,
    equation,
)

ELEMENT_LIMIT = 2**31
_RANK_LIMIT = 64  # of NumPy's arrays
_TENSOR = re.compile(r"(?![LPVUB]\Z)[A-Z][A-Za-z0-9]*\Z")
_VARIABLE = re.compile(r"[a-z][a-z0-9]*\Z")
_AXIS_VARIABLE = re.compile(r"[bt][xyz][a-z0-9]*\Z")


def is_variable_name(name: str) -> bool:
    """Whether a loop variable may have this name."""
    return bool(_VARIABLE.match(name)) and name not in RESERVED_WORDS


def is_tensor_name(name: str) -> bool:
    """Whether a tensor may have this name."""
    return bool(_TENSOR.match(name))


def check_tree(program: Program) -> Iterator[Diagnostic]:
    """What no text can write; on such a tree no other check makes sense. A parsed program has none."""

    def wrong(message: str, place: Place) -> Diagnostic:
        return Diagnostic("no-such-text", message, place)

    for role, declarations in (("in", program.inputs), ("out", program.outputs)):
        if not declarations:
            yield wrong(f"the signature has nothing after {role}", Place())
        for declaration in declarations:
            place = Place(declaration=declaration.tensor)
            if declaration.dtype not in DTYPES or any(size < 1 for size in declaration.shape):
                yield wrong(f"{declaration.tensor} has dtype {declaration.dtype} and shape {declaration.shape}", place)
    if not program.body:
        yield wrong("the program has no statement", Place())
    for number, statement in enumerate(program.body):
        for message, path, within in _wrong_in(statement):
            yield wrong(message, Place((number, *path), within))


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def _wrong_in(outermost: Stmt) -> tuple[tuple[str, Path, Path | None], ...]:
    """What no text can write in an outermost statement, with the path from there."""
    found: list[tuple[str, Path, Path | None]] = []
    for path, statement in walk_with(outermost):
        found += ((message, path, None) for message in _wrong_statement(statement, len(path) + 1))
        for number, expression in enumerate(expressions(statement)):
            for within, part in walk_expression(expression, (number,)):
                found += ((message, path, within) for message in _wrong_expression(part, len(within)))
    return tuple(found)


def _wrong_statement(statement: Stmt, depth: int) -> Iterator[str]:
    if depth > DEPTH_LIMIT:
        yield f"statements nest deeper than {DEPTH_LIMIT}"
    match statement:
        case Loop(kind, variable, extent, first, body):
            if extent < 1 or first < 0 or kind not in KINDS or not body:
                yield f"loop {variable}: kind {kind}, extent {extent}, first {first}, {len(body)} statements"
        case Guard(body=body):
            if not body:
                yield "a guard has no statement below it"
        case Alloc(tensor, dtype, scope, shape):
            if dtype not in DTYPES or scope not in SCOPES or any(size < 1 for size in shape):
                yield f"{tensor} is allocated with dtype {dtype}, scope {scope} and shape {shape}"
        case Equation(target, op, value):
            if equation(target, op, value).op != op:
                yield f"T=T+e is written {equation(target, op, value).op} in the tree: build it with equation()"
        case _:
            assert_never(statement)


def _wrong_expression(expression: Expr, depth: int) -> Iterator[str]:
    if depth > DEPTH_LIMIT:
        yield f"the expression nests deeper than {DEPTH_LIMIT}"
    match expression:
        case Call(function, arguments):
            if function not in FUNCTIONS or len(arguments) != (2 if function in ("max", "min") else 1):
                yield f"{function} with {len(arguments)} arguments"
        case Cast(dtype):
            if dtype not in DTYPES:
                yield f"cast to {dtype}"
        case _:
            pass


def names_and_ranks_agree(program: Program) -> bool:
    """Whether `check_names` and `check_ranks` have nothing to say, found out nest by nest."""
    ranks: dict[str, int] = {}
    for declaration in (*program.inputs, *program.outputs):
        name, shape = declaration.tensor, declaration.shape
        if name in ranks or not is_tensor_name(name) or any(check_size(name, shape, Place())):
            return False
        ranks[name] = len(shape)
    signature, inputs = set(ranks), {declaration.tensor for declaration in program.inputs}
    known = set(signature)
    for statement in program.body:
        used = _used(statement)
        if used is None or not inputs.isdisjoint(used.written) or not signature.isdisjoint(used.allocated):
            return False
        known.update(used.written, used.allocated)
        if any(ranks.setdefault(name, rank) != rank for name, rank in used.ranks):
            return False
    return all(name in known for name in ranks)


@dataclass(frozen=True, slots=True)
class _Used:
    """The tensors of an outermost statement: the rank of each, which are written, and which allocated."""

    ranks: tuple[tuple[str, int], ...]
    written: tuple[str, ...]
    allocated: tuple[str, ...]


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def _used(outermost: Stmt) -> _Used | None:
    """None where the statement's names or ranks are wrong whatever the rest of its program is."""
    below = [statement for _, statement in walk_with(outermost)]
    allocated = [s for s in below if isinstance(s, Alloc)]
    ranks = [(s.tensor, len(s.shape)) for s in allocated]
    ranks += [(access.tensor, len(access.indices)) for access in accesses(outermost)]
    distinct = tuple(dict.fromkeys(ranks))
    if len(distinct) != len(dict(distinct)) or any(any(check_size(s.tensor, s.shape, Place())) for s in allocated):
        return None
    names = _Names(set(), set(), set(dict(distinct)), set())
    for path, statement, around in walk_with_enclosed(outermost):
        if any(_named(path, statement, around, names)):
            return None
    written = dict.fromkeys(s.target.tensor for s in below if isinstance(s, Equation))
    return _Used(distinct, tuple(written), tuple(dict.fromkeys(s.tensor for s in allocated)))


@dataclass(frozen=True, slots=True)
class _Names:
    """The tensors of the signature, the inputs among them, all tensors, and the variables that any loop binds."""

    signature: set[str]
    inputs: set[str]
    known: set[str]
    somewhere: set[str]


def check_names(program: Program) -> Iterator[Diagnostic]:
    """Tensors and variables: declared or bound once, used where they are known, with names of the language."""
    signature: set[str] = set()
    for declaration in (*program.inputs, *program.outputs):
        place = Place(declaration=declaration.tensor)
        if not is_tensor_name(declaration.tensor):
            yield Diagnostic("reserved-name", f"{declaration.tensor} is no name for a tensor", place)
        if declaration.tensor in signature:
            yield Diagnostic("duplicate-name", f"the signature declares {declaration.tensor} twice", place)
        signature.add(declaration.tensor)
    statements = [statement for _, statement in walk(program)]
    inputs = {declaration.tensor for declaration in program.inputs}
    known = signature | {s.tensor for s in statements if isinstance(s, Alloc)}
    known |= {s.target.tensor for s in statements if isinstance(s, Equation)}
    somewhere = {s.variable for s in statements if isinstance(s, Loop)}
    names = _Names(signature, inputs, known, somewhere)
    for path, statement, around in walk_enclosed(program):
        yield from _named(path, statement, around, names)


def _named(path: Path, statement: Stmt, around: tuple[Loop | Guard, ...], names: _Names) -> Iterator[Diagnostic]:
    """What is wrong with the names of one statement."""
    bound = {node.variable for node in around if isinstance(node, Loop)}
    match statement:
        case Loop():
            yield from _check_binder(statement, bound, Place(path))
        case Alloc(tensor):
            if tensor in names.signature:
                yield Diagnostic("duplicate-name", f"{tensor} is declared by the signature already", Place(path))
            if not is_tensor_name(tensor):
                yield Diagnostic("reserved-name", f"{tensor} is no name for a tensor", Place(path))
        case Equation(target):
            if target.tensor in names.inputs:
                message = f"{target.tensor} is an input and is never written"
                yield Diagnostic("input-written", message, Place(path, (0,)))
        case Guard():
            pass
        case _:
            assert_never(statement)
    for number, expression in enumerate(expressions(statement)):
        for within, part in walk_expression(expression, (number,)):
            if isinstance(part, Variable | Access):
                yield from _check_use(part, names.known, bound, names.somewhere, Place(path, within))


def _check_binder(loop: Loop, bound: set[str], place: Place) -> Iterator[Diagnostic]:
    name = loop.variable
    if not is_variable_name(name):
        yield Diagnostic("reserved-name", f"{name} is no name for a loop variable", place)
    if name in bound:
        yield Diagnostic("shadowed-variable", f"a loop around this one binds {name} already", place)
    if loop.kind == "B" and not _AXIS_VARIABLE.match(name):
        axes = ", ".join(AXES)
        yield Diagnostic("axis-prefix-missing", f"the variable {name} of a B loop starts with one of {axes}", place)
    if loop.first + loop.extent - 1 >= 2**63:
        message = f"{name} runs to {loop.first + loop.extent - 1}, past i64"
        yield Diagnostic("loop-too-long", message, place)


def _check_use(part: Expr, known: set[str], bound: set[str], somewhere: set[str], place: Place) -> Iterator[Diagnostic]:
    match part:
        case Variable(name):
            if name not in bound and name in somewhere:
                yield Diagnostic("variable-out-of-loop", f"{name} is used outside the loop that binds it", place)
            elif name not in bound:
                yield Diagnostic("unknown-variable", f"no loop binds {name}", place)
        case Access(tensor):
            if not is_tensor_name(tensor):
                yield Diagnostic("reserved-name", f"{tensor} is no name for a tensor", place)
            elif tensor not in known:
                message = f"{tensor} is no input, and nothing writes it"
                yield Diagnostic("unknown-tensor", message, place)
        case _:
            pass


def check_ranks(program: Program) -> Iterator[Diagnostic]:
    """One rank a tensor, and a size that the language has where a declaration gives it."""
    ranks: dict[str, tuple[int, str]] = {}
    for declaration in (*program.inputs, *program.outputs):
        ranks.setdefault(declaration.tensor, (len(declaration.shape), "in the signature"))
        yield from check_size(declaration.tensor, declaration.shape, Place(declaration=declaration.tensor))
    for path, statement in walk(program):
        if isinstance(statement, Alloc):
            ranks.setdefault(statement.tensor, (len(statement.shape), "in its allocation"))
            yield from check_size(statement.tensor, statement.shape, Place(path))
    for path, statement in walk(program):
        for number, expression in enumerate(expressions(statement)):
            for within, part in walk_expression(expression, (number,)):
                if isinstance(part, Access):
                    rank, where = ranks.setdefault(part.tensor, (len(part.indices), "where it appears first"))
                    if len(part.indices) != rank:
                        message = f"{part.tensor} has {len(part.indices)} subscripts here and {rank} {where}"
                        yield Diagnostic("rank-mismatch", message, Place(path, within))


def check_sizes(program: Program) -> Iterator[Diagnostic]:
    """Undeclared temporaries, whose size is what their accesses reach."""
    found = tensors(program)
    if not any(True for tensor in found.values() for _ in check_size(tensor.name, tensor.shape, Place())):
        return
    declared = {declaration.tensor for declaration in (*program.inputs, *program.outputs)}
    for path, statement in walk(program):
        if isinstance(statement, Equation):
            tensor = found[statement.target.tensor]
            if tensor.alloc is None and tensor.name not in declared:
                declared.add(tensor.name)
                yield from check_size(tensor.name, tensor.shape, Place(path, (0,)))


def check_size(tensor: str, shape: tuple[int, ...], place: Place) -> Iterator[Diagnostic]:
    """Whether a tensor of this shape is too large for the language."""
    if prod(shape) >= ELEMENT_LIMIT:
        sizes = " x ".join(str(size) for size in shape)
        yield Diagnostic("tensor-too-large", f"{tensor} has {sizes} = {prod(shape)} elements, 2^31 or more", place)
    elif len(shape) > _RANK_LIMIT:
        message = f"{tensor} has {len(shape)} dimensions, more than {_RANK_LIMIT}"
        yield Diagnostic("tensor-too-large", message, place)
