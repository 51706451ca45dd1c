"""Vector NumPy code for a statement, where whole loops run as lanes; the same bits as scalar code.

A tensor is a flat row-major array of values and one of flags, whether each element is written. A vector loop is an
axis: the n-th from the outside is axis -(n+1), so that what outer loops computed broadcasts over inner ones. A guard
that differs between lanes is a mask. A tensor allocated inside vector loops has a copy a lane.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leir.edit import accesses, walk_expression
from leir.interp import arithmetic
from leir.interp.arithmetic import Computing, Type, promote
from leir.interp.expressions import Emitter, Namespace, Term
from leir.interp.lanes import Fold, fold_of
from leir.interp.tensors import Linear, Tensor, added, scaled
from leir.syntax import Access, Alloc, Binary, Equation, Expr, Guard, Integer, Loop, Path, Select, Stmt, Variable


@dataclass(frozen=True, slots=True)
class _Lane:
    """A vector loop around the code that is being built."""

    variable: str
    extent: int
    first: int


class Vector(Emitter):
    """Emits one top-level statement as a Python function of the arrays it touches."""

    typed_integers = True

    def __init__(self, tensors: dict[str, Tensor], namespace: Namespace, vectors: frozenset[Path]) -> None:
        super().__init__(tensors, namespace)
        self.vectors = vectors
        self.lines: list[str] = []
        self.prologue: dict[str, str] = {}  # code of a view that is the same throughout: its name
        self.indent = 1
        self.lanes: list[_Lane] = []
        self.copies: dict[str, tuple[_Lane, ...]] = {}  # tensor allocated inside: the lanes that have a copy each
        self.mask: str | None = None
        self.changed: set[str] = set()

    def function_of(self, statement: Stmt, path: Path, name: str, parameters: Sequence[str], changed: set[str]) -> str:
        """The source of a function that runs the statement. `changed`: the tensors that it writes."""
        self.changed = changed
        self.statement(statement, path)
        views = [f" {view} = {code}" for code, view in self.prologue.items()]
        return "\n".join([f"def {name}({', '.join(parameters)}):", *views, *self.lines]) + "\n"

    def emit(self, line: str) -> None:
        self.lines.append(" " * self.indent + line)

    def assigned(self, code: str, prefix: str = "t") -> str:
        name = self.fresh(prefix)
        self.emit(f"{name} = {code}")
        return name

    # statements

    def statement(self, statement: Stmt, path: Path) -> None:
        self.path = path
        match statement:
            case Loop():
                self.loop(statement, path)
            case Guard(condition, body):
                outer, indent = self.mask, self.indent
                term = self.truth(self.value(condition))
                if self.uniform(condition):
                    self.emit(f"if {term}:")
                else:
                    self.mask = self.assigned(f"both({outer}, {term})", "m")
                    self.emit(f"if {self.mask}.any():")
                self.indent += 1
                self.body(body, path)
                self.mask, self.indent = outer, indent
            case Equation():
                self.equation(statement)
            case Alloc():
                raise self.fail("an allocation stands in a list of statements")

    def loop(self, loop: Loop, path: Path) -> None:
        if path not in self.vectors:
            fold = fold_of(loop, path, math.prod(lane.extent for lane in self.lanes), self.vectors)
            if fold is not None and self.fold(fold):
                return
        self.enter(loop)
        if path in self.vectors:
            self.lanes.append(_Lane(loop.variable, loop.extent, loop.first))
            self.body(loop.body, path)
            self.lanes.pop()
        else:
            self.emit(f"for v_{loop.variable} in range({loop.first}, {loop.first + loop.extent}):")
            self.indent += 1
            self.body(loop.body, path)
            self.indent -= 1
        del self.ranges[loop.variable]

    def body(self, body: tuple[Stmt, ...], path: Path) -> None:
        before = len(self.lines)
        allocated: list[str] = []
        for number, statement in enumerate(body):
            if isinstance(statement, Alloc):
                self.path = (*path, number)
                allocated.append(self.allocate(statement))
            else:
                self.statement(statement, (*path, number))
        for name in allocated:
            del self.live[name], self.copies[name]
        if len(self.lines) == before:
            self.emit("pass")

    def allocate(self, statement: Alloc) -> str:
        tensor = self.declared(statement)
        self.copies[tensor.name] = tuple(self.lanes)
        self.changed.add(tensor.name)
        size = math.prod(statement.shape) * math.prod(lane.extent for lane in self.lanes)
        kind = arithmetic.computing(tensor.dtype)
        start = "" if tensor.fill is None else f", {self.literal(arithmetic.identity(tensor.fill, tensor.dtype), kind)}"
        self.emit(f"T_{tensor.name} = {'full' if start else 'empty'}({size}{start}, {kind}_)")
        self.emit(f"W_{tensor.name} = zeros({size}, bool_)")
        return tensor.name

    def equation(self, statement: Equation) -> None:
        tensor = self.target(statement)
        value = self.value(statement.value)
        name, op, mask = tensor.name, statement.op, self.mask
        position, where = self.position(tensor, statement.target), ""
        if position is None:
            where = self.assigned(self.located(tensor, statement.target), "p")
            old, flags = f"T_{name}[{where}]", f"W_{name}[{where}]"
        else:
            old, flags = self.view(tensor, position, "T"), self.view(tensor, position, "W")
        if op == "=":
            new = self.stored(value, tensor.dtype)
        else:
            if op != tensor.fill:
                self.emit(f"require({flags}, {mask})")
            own = Term(old, Type(arithmetic.computing(tensor.dtype)))
            common = arithmetic.arithmetic(promote(own.type, value.type))
            a, b = self.as_type(own, common), self.as_type(value, common)
            code = f"({a} {op[0]} {b})" if op in ("+=", "*=") else self.extremum(op[:3], a, b)
            new = self.stored(Term(code, common), tensor.dtype)
        if position is None:
            self.emit(f"put(T_{name}, W_{name}, {where}, {new}, {mask})")
        elif not self.lanes:
            self.emit(f"{old} = {new}")
            self.emit(f"{flags} = True")
        elif mask is None:
            self.emit(f"{old}[...] = {new}")
            self.emit(f"{flags}[...] = True")
        else:
            self.emit(f"copyto({old}, {new}, where={mask})")
            self.emit(f"logical_or({flags}, {mask}, out={flags})")

    def fold(self, fold: Fold) -> bool:
        """Emits a fold; False, and nothing emitted, where its types or its target do not allow one."""
        saved = (len(self.lines), dict(self.prologue), list(self.lanes), dict(self.ranges), self.mask, self.path)
        self.path = fold.path
        tensor, mask = self.target(fold.equation), self.mask
        for _, loop in fold.loops:
            self.enter(loop)
        self.lanes += [_Lane(loop.variable, loop.extent, loop.first) for at, loop in fold.loops if at in self.vectors]
        kept = len(self.lanes)
        serial = [_Lane(loop.variable, loop.extent, loop.first) for at, loop in fold.loops if at not in self.vectors]
        self.lanes += serial[::-1]
        for guard in fold.guards:
            mask = self.assigned(f"both({self.mask}, {self.truth(self.value(guard.condition))})", "m")
            self.mask = mask
        value = self.value(fold.equation.value)
        own = Type(arithmetic.computing(tensor.dtype))
        position = self.position(tensor, fold.equation.target)
        possible = tensor.dtype in ("f32", "f64", "i32", "i64") and position is not None
        if possible and arithmetic.arithmetic(promote(own, value.type)) == own:
            assert position is not None
            shape = tuple(lane.extent for lane in reversed(self.lanes))
            self.lanes = self.lanes[:kept]
            lanes = tuple(lane.extent for lane in reversed(self.lanes))
            old, flags = self.view(tensor, position, "T"), self.view(tensor, position, "W")
            active = "None" if self.mask is None else self.assigned(f"any_of({self.mask}, {shape}, {lanes})", "m")
            op = fold.equation.op
            if op != tensor.fill:
                self.emit(f"require({flags}, {active})")
            terms = self.as_type(value, own)
            target, marked = (old, flags) if not lanes else (f"{old}[...]", f"{flags}[...]")
            self.emit(f"{target} = fold({op!r}, {old}, {terms}, {self.mask}, {shape}, {lanes})")
            self.emit(f"{marked} = {'True' if self.mask is None else f'{flags} | {active}'}")
            done = True
        else:
            del self.lines[saved[0] :]
            self.prologue = saved[1]
            done = False
        self.lanes, self.ranges, self.mask, self.path = saved[2:]
        return done

    # elements

    def position(self, tensor: Tensor, access: Access) -> Linear | None:
        """The element's position as a linear form, lanes' copies included, if it is one and always inside."""
        assert tensor.shape is not None
        position, size = Linear({}, 0), 1
        for number in reversed(range(tensor.rank)):
            form = self.inside(tensor, number, access.indices[number])
            if form is None:
                return None
            position = added(position, scaled(form, size))
            size *= tensor.shape[number]
        for lane in reversed(self.copies.get(tensor.name, ())):
            position = added(position, scaled(Linear({lane.variable: 1}, -lane.first), size))
            size *= lane.extent
        return position

    def view(self, tensor: Tensor, position: Linear, array: str) -> str:
        """The elements of all lanes, in place: an element `T_x[...]` without lanes, else the name of a view."""
        item = np.dtype(np.bool_ if array == "W" else arithmetic.NUMPY_TYPES[arithmetic.computing(tensor.dtype)])
        constant = position.constant
        axes: list[tuple[int, int]] = []  # size and stride in elements, from the outermost lane
        serial = dict(position.coefficients)
        for lane in self.lanes:
            coefficient = serial.pop(lane.variable, 0)
            constant += coefficient * lane.first
            axes.append((lane.extent, coefficient) if coefficient else (1, 0))
        while axes and axes[-1] == (1, 0):
            axes.pop()
        base = f"{array}_{tensor.name}"
        terms = [f"v_{name} * {coefficient}" for name, coefficient in serial.items()]
        if not axes and not self.lanes:
            return f"{base}[{' + '.join([*terms, str(constant)])}]"
        scale = item.itemsize
        shape = tuple(size for size, _ in reversed(axes))
        strides = tuple(stride * scale for _, stride in reversed(axes))
        offset = " + ".join([*(f"v_{name} * {c * scale}" for name, c in serial.items()), str(constant * scale)])
        dtype = "bool_" if array == "W" else f"{arithmetic.computing(tensor.dtype)}_"
        code = f"ndarray({shape}, {dtype}, {base}, {offset}, {strides})"
        if serial or tensor.name in self.copies:
            return self.assigned(code, "a")
        if code not in self.prologue:
            self.prologue[code] = self.fresh("a")
        return self.prologue[code]

    def located(self, tensor: Tensor, access: Access) -> str:
        """Code for the positions of an element whose subscripts are only known, or only inside, when they run."""
        assert tensor.shape is not None
        copies = self.copies.get(tensor.name, ())
        sizes = (*(lane.extent for lane in copies), *tensor.shape)
        parts = [f"{self.variable(lane.variable)} - {lane.first}" for lane in copies]
        parts += [self.integral(self.value(index)) for index in access.indices]
        return f"locate({', '.join([str(self.mask), str(sizes), *parts])})"

    def read(self, access: Access) -> Term:
        tensor = self.tensor(access)
        type_ = Type(arithmetic.computing(tensor.dtype))
        position = self.position(tensor, access)
        if position is None:
            where = self.assigned(self.located(tensor, access), "p")
            found, flags = f"T_{tensor.name}[{where}]", f"W_{tensor.name}[{where}]"
        elif tensor.role == "input":
            return Term(self.view(tensor, position, "T"), type_)
        else:
            found, flags = self.view(tensor, position, "T"), self.view(tensor, position, "W")
        if tensor.role != "input":
            known = "" if tensor.name in self.changed else f"if not F_{tensor.name}: "
            self.emit(f"{known}require({flags}, {self.mask})")
        return Term(found, type_)

    def variable(self, name: str) -> str:
        self.bound(name)
        for number, lane in enumerate(self.lanes):
            if lane.variable == name:
                values = np.arange(lane.first, lane.first + lane.extent, dtype=np.int64)
                key = f"lane:{lane.first}:{lane.extent}:{number}"
                return self.constant(key, values.reshape((lane.extent, *(1,) * number)))
        return f"v_{name}"

    # expressions

    def uniform(self, expression: Expr) -> bool:
        """Whether all lanes have the same value."""
        lanes = {lane.variable for lane in self.lanes}
        copied = {name for name, copies in self.copies.items() if copies}
        return not any(
            (isinstance(e, Variable) and e.name in lanes) or (isinstance(e, Access) and e.tensor in copied)
            for _, e in walk_expression(expression)
        )

    def fragile(self, expression: Expr) -> bool:
        """Whether evaluating it in a lane that does not need it could be noticed."""
        for access in accesses(expression):
            tensor = self.tensor(access)
            if tensor.role != "input" or self.position(tensor, access) is None:
                return True
        return any(
            isinstance(e, Binary) and e.op in ("//", "%") and not (isinstance(e.right, Integer) and e.right.value)
            for _, e in walk_expression(expression)
        )

    def under(self, condition: str, expression: Expr) -> Term:
        """The value of an expression in the lanes where the condition, too, holds."""
        if not self.fragile(expression):
            return self.value(expression)
        outer = self.mask
        self.mask = self.assigned(f"both({outer}, {condition})", "m")
        term = self.value(expression)
        self.mask = outer
        return term

    def lazily(self, op: str, left: Expr, right: Expr) -> Term:
        first = self.assigned(self.truth(self.value(left)))
        second = self.truth(self.under(first if op == "&&" else f"logical_not({first})", right))
        return Term(f"({first} {'&' if op == '&&' else '|'} {second})", Type("bool"))

    def select(self, expression: Select) -> Term:
        condition = self.assigned(self.truth(self.value(expression.condition)))
        a = self.under(condition, expression.then)
        b = self.under(f"logical_not({condition})", expression.otherwise)
        common = Type(promote(a.type, b.type).dtype)
        code = f"where({condition}, {self.as_type(a, common)}, {self.as_type(b, common)})"
        return Term(code, common, height=max(a.height, b.height))

    def divide(self, op: str, left: str, right: str) -> str:
        divisor = self.namespace.get(right, int(right) if right.isdigit() else 0)
        if isinstance(divisor, int | np.integer) and divisor:
            return f"({left} {op} {right})"
        return f"divided({op!r}, {left}, {right}, {self.mask})"

    def extremum(self, name: str, left: str, right: str) -> str:
        return f"{name}imum({left}, {right})"

    def negated(self, code: str) -> str:
        return f"logical_not({code})"

    def converted(self, code: str, source: Computing, target: Computing) -> str:  # noqa: ARG002 (NumPy knows it)
        return f"({code} != 0)" if target == "bool" else f"to_{target}({code})"

    def outlined(self, term: Term) -> Term:
        return Term(self.assigned(term.code), term.type)
