"""The syntax tree of LEIR: frozen data, no behaviour.

A program is a signature and a tuple of statements. A statement is a loop, a guard, an allocation or an equation;
loops and guards hold the statements below them, one loop a node, however the text groups them. dtype and scope belong
to a tensor, not to an access: they stand in the signature or in an `Alloc`, and every other tensor is a global
temporary with the dtype of the first output.

Take the unions apart with `match` and `assert_never`. Build equations with `equation`, which reads `T=T+e` as `T+=e`.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Path = tuple[int, ...]

DType = Literal["f16", "bf16", "f32", "f64", "i8", "i32", "i64", "bool"]
Scope = Literal["g", "s", "l"]
Kind = Literal["L", "P", "V", "U", "B"]
AssignOp = Literal["=", "+=", "*=", "max=", "min="]
BinaryOp = Literal["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "&&", "||"]
UnaryOp = Literal["-", "!"]

DTYPES: tuple[DType, ...] = ("f16", "bf16", "f32", "f64", "i8", "i32", "i64", "bool")
SCOPES: tuple[Scope, ...] = ("g", "s", "l")
KINDS: tuple[Kind, ...] = ("L", "P", "V", "U", "B")
AXES: tuple[str, ...] = ("bx", "by", "bz", "tx", "ty", "tz")
UNARY_FUNCTIONS: tuple[str, ...] = (
    "exp", "expm1", "log", "log1p", "sqrt", "abs", "erf", "tanh", "sin", "cos", "floor", "round",
)  # fmt: skip
BINARY_FUNCTIONS: tuple[str, ...] = ("max", "min")
FUNCTIONS: tuple[str, ...] = UNARY_FUNCTIONS + BINARY_FUNCTIONS
RESERVED_WORDS: tuple[str, ...] = (*FUNCTIONS, *DTYPES, "in", "out", "inf", "if_then_else", "cast")
DEPTH_LIMIT = 100  # levels of nested statements, and of nested expressions in one statement


class _Hashed:
    """Where `_hashed_once` keeps a hash: no field, so that it is neither compared nor pickled."""

    __slots__ = ("_hash",)
    _hash: int


_Node = TypeVar("_Node", bound=type[_Hashed])


def _hashed_once(kind: _Node) -> _Node:
    """Has a node hash its fields when it is first asked: nodes are the keys of many an answer, and deep."""
    of_fields = kind.__hash__

    def once(self: Any) -> int:
        try:
            return self._hash
        except AttributeError:
            value = of_fields(self)
            object.__setattr__(self, "_hash", value)
            return value

    kind.__hash__ = once
    return kind


@dataclass(frozen=True, slots=True)
class Integer:
    """A non-negative integer literal. `Integer(1)` and `Real(1.0)` are different expressions."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError(f"a literal is not negative: write {self.value} as Unary('-', Integer({-self.value}))")


@dataclass(frozen=True, slots=True)
class Real:
    """A non-negative float literal; `Real(math.inf)` is `inf`."""

    value: float

    def __post_init__(self) -> None:
        if math.isnan(self.value) or math.copysign(1.0, self.value) < 0:
            raise ValueError(f"a literal is not NaN and not negative: {self.value}")


@dataclass(frozen=True, slots=True)
class Variable:
    """A loop variable as a value."""

    name: str


@_hashed_once
@dataclass(frozen=True, slots=True)
class Access(_Hashed):
    """One element of a tensor; a tensor of rank 0 has no indices."""

    tensor: str
    indices: "tuple[Expr, ...]" = ()


@_hashed_once
@dataclass(frozen=True, slots=True)
class Unary(_Hashed):
    op: UnaryOp
    operand: "Expr"


@_hashed_once
@dataclass(frozen=True, slots=True)
class Binary(_Hashed):
    op: BinaryOp
    left: "Expr"
    right: "Expr"


@_hashed_once
@dataclass(frozen=True, slots=True)
class Call(_Hashed):
    """A function of `FUNCTIONS`: two arguments for `max` and `min`, one for all others."""

    function: str
    arguments: "tuple[Expr, ...]"


@_hashed_once
@dataclass(frozen=True, slots=True)
class Select(_Hashed):
    """`if_then_else(condition, then, otherwise)`: only the value that is needed is evaluated."""

    condition: "Expr"
    then: "Expr"
    otherwise: "Expr"


@_hashed_once
@dataclass(frozen=True, slots=True)
class Cast(_Hashed):
    dtype: DType
    operand: "Expr"


Expr = Integer | Real | Variable | Access | Unary | Binary | Call | Select | Cast

MINUS_INFINITY = Unary("-", Real(math.inf))


@_hashed_once
@dataclass(frozen=True, slots=True)
class Loop(_Hashed):
    """`variable` runs over first, first + 1, ..., first + extent - 1."""

    kind: Kind
    variable: str
    extent: int
    first: int
    body: "tuple[Stmt, ...]"


@_hashed_once
@dataclass(frozen=True, slots=True)
class Guard(_Hashed):
    """The body runs where the condition holds."""

    condition: Expr
    body: "tuple[Stmt, ...]"


@dataclass(frozen=True, slots=True)
class Alloc:
    """Declares a temporary for the rest of the statement list that holds it."""

    tensor: str
    dtype: DType
    scope: Scope
    shape: tuple[int, ...]


@_hashed_once
@dataclass(frozen=True, slots=True)
class Equation(_Hashed):
    """A store (`=`) or an accumulation (`+=`, `*=`, `max=`, `min=`) into one element."""

    target: Access
    op: AssignOp
    value: Expr


Stmt = Loop | Guard | Alloc | Equation


@dataclass(frozen=True, slots=True)
class Declaration:
    """An input or output of the signature."""

    tensor: str
    dtype: DType
    shape: tuple[int, ...]


@_hashed_once
@dataclass(frozen=True, slots=True)
class Program(_Hashed):
    inputs: tuple[Declaration, ...]
    outputs: tuple[Declaration, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a program.

    `path`: child numbers from the body down to a statement. `within`: the child numbers of a subexpression of that
    statement, where an equation's children are its target (0) and its value (1), and a guard's only child is its
    condition (0); None is the statement itself. `declaration`: the tensor, where the place is in the signature.
    """

    path: Path = ()
    within: Path | None = None
    declaration: str | None = None


def equation(target: Access, op: AssignOp, value: Expr) -> Equation:
    """The equation in its one form: `T_x=T_x+e`, where `e` is free of `T`, is the accumulation `T_x+=e`."""
    if op == "=":
        match value:
            case Binary("+" | "*" as operator, left, right):
                accumulation: AssignOp = "+=" if operator == "+" else "*="
                operands = (left, right)
            case Call("max" | "min" as function, (left, right)):
                accumulation = "max=" if function == "max" else "min="
                operands = (left, right)
            case _:
                return Equation(target, op, value)
        for own, other in (operands, operands[::-1]):
            if own == target and not reads(other, target.tensor):
                return Equation(target, accumulation, other)
    return Equation(target, op, value)


def integer(value: int) -> Expr:
    """An integer as an expression: a negative one is a negation."""
    return Integer(value) if value >= 0 else Unary("-", Integer(-value))


def operands(expression: Expr) -> tuple[Expr, ...]:
    """The children of an expression, in the order that places number them."""
    match expression:  # by attributes, and the frequent ones first: this runs more often than anything else
        case Access():
            return expression.indices
        case Binary():
            return (expression.left, expression.right)
        case Integer() | Real() | Variable():
            return ()
        case Unary() | Cast():
            return (expression.operand,)
        case Call():
            return expression.arguments
        case Select():
            return (expression.condition, expression.then, expression.otherwise)


def reads(expression: Expr, tensor: str) -> bool:
    """Whether an access to `tensor` occurs in the expression, in subscripts too."""
    if isinstance(expression, Access) and expression.tensor == tensor:
        return True
    return any(reads(operand, tensor) for operand in operands(expression))
