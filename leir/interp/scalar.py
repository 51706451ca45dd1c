"""Plain sequential Python for a statement: the definition of LEIR's meaning, one element after the other.

A tensor is a flat row-major list (a dict by index where its size is unknown beforehand) whose missing elements are
None: undefined, or, in a tensor that an accumulation fills, not written yet. Such an element reads as the identity,
and the read is kept as pending until the lifetime ends, by when some statement must have written it.
"""

import math
from collections.abc import Sequence
from typing import Any

from leir.edit import body_of
from leir.interp import arithmetic
from leir.interp.arithmetic import Computing, Type, promote
from leir.interp.errors import Site
from leir.interp.expressions import Emitter, Namespace, Term
from leir.interp.tensors import Linear, Tensor, added, interval, scaled
from leir.syntax import Access, Alloc, Equation, Expr, Guard, Loop, Path, Select, Stmt

_DEPTH_LIMIT = 12  # loops and guards nested in one Python function: Python refuses 20

Elements = Any  # list[value | None], or dict[index tuple, value]
Pending = dict[Any, tuple[int, tuple[int, ...]]]  # element: where it was read first, and the loop variables then


class Scalar(Emitter):
    """Emits one top-level statement as a Python function of the global tensors it touches."""

    def __init__(self, tensors: dict[str, Tensor], namespace: Namespace, sites: list[Site]) -> None:
        super().__init__(tensors, namespace)
        self.sites = sites
        self.lines: list[str] = []
        self.functions: list[list[str]] = []
        self.indent = 1
        self.scope: list[str] = []

    def function_of(self, statement: Stmt, path: Path, name: str, parameters: Sequence[str]) -> str:
        """The source of a function that runs the statement; its parameters are names of lists and pendings."""
        self.scope = list(parameters)
        self.lines = [f"def {name}({', '.join(self.scope)}):"]
        self.indent = 1
        self.statement(statement, path, 0)
        return "\n".join(line for lines in (*self.functions, self.lines) for line in lines) + "\n"

    def emit(self, line: str) -> None:
        self.lines.append(" " * self.indent + line)

    def statement(self, statement: Stmt, path: Path, depth: int) -> None:
        self.path = path
        match statement:
            case Loop(_, name, extent, first, _):
                self.enter(statement)
                self.emit(f"for v_{name} in range({first}, {first + extent}):")
                self.scope.append(f"v_{name}")
                self.body(body_of(statement), path, depth + 1)
                self.scope.remove(f"v_{name}")
                del self.ranges[name]
            case Guard(condition, below):
                self.emit(f"if {self.truth(self.value(condition))}:")
                self.body(below, path, depth + 1)
            case Alloc():
                raise self.fail("an allocation stands in a list of statements")
            case Equation():
                self.equation(statement)

    def body(self, body: tuple[Stmt, ...], path: Path, depth: int) -> None:
        """A statement list, a lifetime for each of its allocations."""
        outer = (self.lines, self.indent)
        if depth % _DEPTH_LIMIT == 0:
            name = f"{self.fresh('part')}_{'_'.join(map(str, path))}"
            outer[0].append(" " * (self.indent + 1) + f"{name}({', '.join(self.scope)})")
            self.lines, self.indent = [f"def {name}({', '.join(self.scope)}):"], 1
        else:
            self.indent += 1
        allocated: list[Tensor] = []
        for number, statement in enumerate(body):
            if isinstance(statement, Alloc):
                self.path = (*path, number)
                allocated.append(self.allocate(statement))
            else:
                self.statement(statement, (*path, number), depth)
        for tensor in allocated:
            if tensor.fill:
                self.emit(f"settle(P_{tensor.name}, T_{tensor.name}, {tensor.name!r})")
                self.scope.remove(f"P_{tensor.name}")
            self.scope.remove(f"T_{tensor.name}")
            del self.live[tensor.name]
        if not any(not isinstance(statement, Alloc) for statement in body):
            self.emit("pass")
        if depth % _DEPTH_LIMIT == 0:
            self.functions.append(self.lines)
            self.lines = outer[0]
        self.indent = outer[1]

    def allocate(self, statement: Alloc) -> Tensor:
        tensor = self.declared(statement)
        size = math.prod(tensor.shape or ())
        self.emit(f"T_{tensor.name} = [None] * {size}")
        self.scope.append(f"T_{tensor.name}")
        if tensor.fill:
            self.emit(f"P_{tensor.name} = {{}}")
            self.scope.append(f"P_{tensor.name}")
        return tensor

    def equation(self, statement: Equation) -> None:
        tensor = self.target(statement)
        value = self.value(statement.value)
        where = self.element(statement.target)
        if statement.op == "=":
            self.emit(f"T_{tensor.name}[{where}] = {self.stored(value, tensor.dtype)}")
            return
        key, old = self.fresh("k"), self.fresh("x")
        self.emit(f"{key} = {where}")
        self.emit(f"{old} = {self.lookup(tensor, key)}")
        if tensor.fill == statement.op:
            start = self.literal(arithmetic.identity(statement.op, tensor.dtype), arithmetic.computing(tensor.dtype))
            self.emit(f"if {old} is None: {old} = {start}")
        else:
            self.emit(f"if {old} is None: undefined({self.failing(tensor, key)})")
        own = Term(old, Type(arithmetic.computing(tensor.dtype)))
        common = arithmetic.arithmetic(promote(own.type, value.type))
        a, b = self.as_type(own, common), self.as_type(value, common)
        code = f"({a} {statement.op[0]} {b})" if statement.op in ("+=", "*=") else self.extremum(statement.op[:3], a, b)
        if statement.op in ("+=", "*=") and common.dtype in arithmetic.INTEGER_BITS:
            code = f"to_integer({code}, {common.dtype!r})"
        self.emit(f"T_{tensor.name}[{key}] = {self.stored(Term(code, common), tensor.dtype)}")

    def element(self, access: Access) -> str:
        """The key of an element: its position in the flat list, or its index tuple."""
        tensor = self.live[access.tensor]
        if tensor.shape is None:
            indices = [self.index(tensor, number, index) for number, index in enumerate(access.indices)]
            return "(" + "".join(f"{index}, " for index in indices) + ")"
        position, others = Linear({}, 0), list[str]()
        for number, index in enumerate(access.indices):
            stride = math.prod(tensor.shape[number + 1 :])
            form = self.inside(tensor, number, index)
            if form is None:
                others.append(f"{self.index(tensor, number, index)} * {stride}")
            else:
                position = added(position, scaled(form, stride))
        terms = [name if c == 1 else f"{name} * {c}" for name, c in
                 ((f"v_{name}", c) for name, c in position.coefficients.items() if c)]  # fmt: skip
        terms += others
        if position.constant or not terms:
            terms.append(str(position.constant))
        return " + ".join(terms)

    def index(self, tensor: Tensor, number: int, index: Expr) -> str:
        """One subscript, checked against the tensor's size."""
        value = self.fresh("n")
        code = self.integral(self.value(index))
        bounds = interval(index, self.ranges)
        if bounds and bounds[0] >= 0 and (not tensor.sized or (tensor.shape and bounds[1] < tensor.shape[number])):
            return f"({code})"
        size = f" < {tensor.shape[number]}" if tensor.shape is not None else ""
        failure = self.site() + f"{tensor.name!r}, {number}, {value}{self.values()}"
        return f"({value} if 0 <= ({value} := {code}){size} else outside({failure}))"

    def site(self) -> str:
        self.sites.append(Site(self.path, tuple(self.ranges)))
        return f"{len(self.sites) - 1}, "

    def values(self) -> str:
        return "".join(f", v_{name}" for name in self.ranges)

    def failing(self, tensor: Tensor, key: str) -> str:
        return self.site() + f"{tensor.name!r}, {key}{self.values()}"

    def lookup(self, tensor: Tensor, key: str) -> str:
        return f"T_{tensor.name}[{key}]" if tensor.shape is not None else f"T_{tensor.name}.get({key})"

    def variable(self, name: str) -> str:
        self.bound(name)
        return f"v_{name}"

    def read(self, access: Access) -> Term:
        tensor = self.tensor(access)
        type_ = Type(arithmetic.computing(tensor.dtype))
        where = self.element(access)
        if tensor.role == "input":
            return Term(f"T_{tensor.name}[{where}]", type_)
        key, value = self.fresh("k"), self.fresh("x")
        found = f"{value} if ({value} := {self.lookup(tensor, f'({key} := {where})')}) is not None"
        if not tensor.fill:
            return Term(f"({found} else undefined({self.failing(tensor, key)}))", type_)
        start = self.literal(arithmetic.identity(tensor.fill, tensor.dtype), type_.dtype)
        pending = f"unwritten(P_{tensor.name}, {start}, {self.site()}{key}{self.values()})"
        return Term(f"({found} else {pending})", type_)

    def lazily(self, op: str, left: Expr, right: Expr) -> Term:
        a, b = self.value(left), self.value(right)
        word = "and" if op == "&&" else "or"
        return Term(f"({self.truth(a)} {word} {self.truth(b)})", Type("bool"), height=max(a.height, b.height))

    def select(self, expression: Select) -> Term:
        condition = self.value(expression.condition)
        a, b = self.value(expression.then), self.value(expression.otherwise)
        common = Type(promote(a.type, b.type).dtype)
        code = f"({self.as_type(a, common)} if {self.truth(condition)} else {self.as_type(b, common)})"
        return Term(code, common, height=max(condition.height, a.height, b.height))

    def divide(self, op: str, left: str, right: str) -> str:
        if right.isdigit() and int(right):
            return f"({left} {op} {right})"
        value = self.fresh("n")
        return f"({left} {op} ({value} if ({value} := {right}) else zero_divisor({self.site()}{op!r}{self.values()})))"

    def extremum(self, name: str, left: str, right: str) -> str:
        a, b = self.fresh("x"), self.fresh("x")
        return f"({a} if ({a} := {left}) {'>=' if name == 'max' else '<='} ({b} := {right}) else {b})"

    def negated(self, code: str) -> str:
        return f"(not {code})"

    def converted(self, code: str, source: Computing, target: Computing) -> str:
        if target == "bool":
            return f"({code} != 0)"
        if target == "f64" or (target == "f32" and source in ("bool", "f64")):
            return f"{target.upper()}({code})"
        if target == "f32":
            return f"integer_to_single({code})"
        if source == "bool":
            return f"int({code})"
        narrower = source in ("f32", "f64") or arithmetic.INTEGER_BITS[source] > arithmetic.INTEGER_BITS[target]
        return f"to_integer({code}, {target!r})" if narrower else code

    def outlined(self, term: Term) -> Term:
        name = f"{self.fresh('value')}_{'_'.join(map(str, self.path))}"
        self.functions.append([f"def {name}({', '.join(self.scope)}):", f" return {term.code}"])
        return Term(f"{name}({', '.join(self.scope)})", term.type)


def runtime(sites: list[Site], tensors: dict[str, Tensor]) -> Namespace:
    """What generated scalar code calls."""

    def element_text(name: str, key: Any) -> str:
        shape, index = tensors[name].shape, list[int]()
        if shape is None:
            index.extend(key)
        for size in reversed(shape or ()):
            key, position = divmod(key, size)
            index.insert(0, position)
        return f"{name}_{{{','.join(map(str, index))}}}" if index else name

    def undefined(site: int, name: str, key: Any, *values: int) -> None:
        raise sites[site].error(f"{element_text(name, key)} is read and was never written", values)

    def outside(site: int, name: str, number: int, index: int, *values: int) -> None:
        shape = tensors[name].shape
        limit = f"size {shape[number]}" if shape is not None else "a first index of 0"
        raise sites[site].error(f"subscript {number} of {name} is {index}, outside {limit}", values)

    def zero_divisor(site: int, op: str, *values: int) -> None:
        raise sites[site].error(f"the divisor of {op} is 0", values)

    def unwritten(pending: Pending, start: object, site: int, key: Any, *values: int) -> object:
        pending.setdefault(key, (site, values))
        return start

    def settle(pending: Pending, elements: Elements, name: str) -> None:
        for key, (site, values) in pending.items():
            if (elements[key] if isinstance(elements, list) else elements.get(key)) is None:
                reason = f"{element_text(name, key)} is read and only filled: no statement writes it in its lifetime"
                raise sites[site].error(reason, values)

    return {
        "undefined": undefined, "outside": outside, "zero_divisor": zero_divisor, "unwritten": unwritten,
        "settle": settle, "F32": arithmetic.NUMPY_TYPES["f32"], "F64": arithmetic.NUMPY_TYPES["f64"],
        "round_to": arithmetic.round_to, "to_integer": arithmetic.scalar_to_integer,
        "integer_to_single": arithmetic.integer_to_single, "element_text": element_text,
    }  # fmt: skip
