"""In what type an expression computes, by the language's promotion.

The *computing type* of an access to an f16 or bf16 tensor is f32, which is why no expression computes in those two:
they exist in storage and as the target of `cast`, which rounds to them. An expression of literals only is *weak*: it
has the value of its folding and takes the computing type of what it meets. Choices where the language leaves room:

- a `cast` of a literal is strong, and a comparison of literals folds to a weak boolean;
- a weak literal next to a boolean computes in i32, as arithmetic on booleans does, and `max` and `min` are arithmetic;
- a literal base of `**` is a float where the exponent makes it one (`2**X_i`, not `2**3`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from leir.analysis.folding import Weak, fold, fold_call, number
from leir.syntax import (
    Access,
    Alloc,
    AssignOp,
    Binary,
    BinaryOp,
    Call,
    Cast,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Real,
    Select,
    Stmt,
    Unary,
    Variable,
)

COMPARISONS: tuple[BinaryOp, ...] = ("<", "<=", ">", ">=", "==", "!=")
NEGATED: dict[BinaryOp, BinaryOp] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
INTEGERS: tuple[DType, ...] = ("i8", "i32", "i64")
_LADDER: tuple[DType, ...] = ("bool", "i8", "i32", "i64", "f32", "f64")
_EVERY_FLOAT = 256  # the integers up to it are numbers of every float type
_SMALLEST: dict[DType, int] = {"i8": -(2**7), "i32": -(2**31), "i64": -(2**63)}


Type = DType | Weak


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """A rule of types that an expression breaks; `within` is where, counted from the expression asked about."""

    code: str
    message: str
    within: Path


def type_of(expression: Expr, tensors: Mapping[str, DType]) -> Type:
    """The computing type of an expression, or `Weak` for literals only. `tensors`: the dtype of each tensor.

    Unknown tensors count as f32. For an expression that `type_problems` objects to, some type is returned.
    """
    return _Typing(tensors).visit(expression, ())


def computing_type(dtype: DType) -> DType:
    """The type in which values of a stored dtype compute: f32 for f16 and bf16, else the dtype itself."""
    return "f32" if dtype in ("f16", "bf16") else dtype


def strong(kind: Type) -> DType:
    """The type itself; for a weak one what it has on its own: i64, f64 or bool."""
    match kind:
        case Weak(bool()):
            return "bool"
        case Weak(int()):
            return "i64"
        case Weak():
            return "f64"
        case _:
            return kind


def promote(left: Type, right: Type) -> Type:
    """The common computing type of two values, as for the two values of `if_then_else`."""
    match left, right:
        case Weak(a), Weak(b):
            if isinstance(a, float) or isinstance(b, float):
                return Weak(0.0)  # of two weak values only the type is common
            return Weak(False) if isinstance(a, bool) and isinstance(b, bool) else Weak(0)
        case Weak(), _:
            return promote(right, left)
        case _, Weak(bool()):
            return left
        case _, Weak(int()):
            return "i32" if left == "bool" else left
        case _, Weak(float()):
            return left if is_float(left) else "f32"
        case _, _:
            assert not isinstance(left, Weak) and not isinstance(right, Weak)
            return left if _LADDER.index(left) >= _LADDER.index(right) else right


def is_float(kind: Type) -> bool:
    return isinstance(kind.value, float) if isinstance(kind, Weak) else kind in ("f16", "bf16", "f32", "f64")


def is_integer(kind: Type) -> bool:
    """Whether values are integers; booleans are not."""
    if isinstance(kind, Weak):
        return isinstance(kind.value, int) and not isinstance(kind.value, bool)
    return kind in INTEGERS


def is_kept(expression: Expr, stored: DType, tensors: Mapping[str, DType]) -> bool:
    """Whether a float is the same once it is stored as a dtype: it needs no rounding, provably."""
    kind = type_of(expression, tensors)
    if not is_float(kind):
        return False
    if computing_type(stored) == stored:
        return strong(promote(kind, stored)) == stored
    match expression:
        case Access(tensor):
            return tensors.get(tensor) == stored
        case Cast(dtype):
            return dtype == stored
        case Real(value):
            return value == math.inf or (value <= _EVERY_FLOAT and value == math.floor(value))
        case Unary("-", operand) | Call("abs", (operand,)):
            return is_kept(operand, stored, tensors)
        case Call("max" | "min", (left, right)) | Select(_, left, right):
            return is_kept(left, stored, tensors) and is_kept(right, stored, tensors)
        case _:
            return False


def is_boolean(kind: Type) -> bool:
    return isinstance(kind.value, bool) if isinstance(kind, Weak) else kind == "bool"


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the largest value of an integer dtype or of bool."""
    if dtype == "bool":
        return 0, 1
    return _SMALLEST[dtype], -_SMALLEST[dtype] - 1


def identity(op: AssignOp, dtype: DType) -> Expr:
    """The value that an accumulation starts from, as a literal of the dtype. Raises ValueError for a store."""
    if op == "=":
        raise ValueError("a store starts from nothing")
    if op in ("+=", "*="):
        value = 0 if op == "+=" else 1
        return Real(float(value)) if is_float(dtype) else Integer(value)
    if is_float(dtype):
        return Unary("-", Real(math.inf)) if op == "max=" else Real(math.inf)
    least, largest = integer_range(dtype)
    return Unary("-", Integer(-least)) if op == "max=" else Integer(largest)


def type_problems(statement: Stmt, tensors: Mapping[str, DType]) -> tuple[TypeProblem, ...]:
    """What is wrong with the types of a statement itself, not of those below it; `within` as in a `Place`."""
    typing = _Typing(tensors)
    match statement:
        case Guard(condition):
            typing.condition(typing.visit(condition, (0,)), "the condition of a guard", (0,))
        case Equation(target, op, value):
            typing.visit(target, (0,))
            kind = typing.visit(value, (1,))
            stored = tensors.get(target.tensor, "f32")
            typing.fits(kind, stored, (1,))
            if op != "=" and stored == "bool":
                typing.report("bool-accumulation", f"{target.tensor} is bool and is not accumulated into: {op}", (0,))
        case Loop() | Alloc():
            pass
        case _:
            assert_never(statement)
    return tuple(typing.problems)


class Kinds:
    """The types of expressions, each found once. By identity: hashing a tree takes as long as typing it."""

    def __init__(self, tensors: Mapping[str, DType]) -> None:
        self._typing = _TypingOnce(tensors)

    def of(self, expression: Expr) -> Type:
        """What `type_of` says of an expression."""
        return self._typing.visit(expression, ())


class _Typing:
    """One walk that computes types upwards and notes what breaks a rule on the way."""

    def __init__(self, tensors: Mapping[str, DType]) -> None:
        self.tensors = tensors
        self.problems: list[TypeProblem] = []

    def report(self, code: str, message: str, within: Path) -> None:
        self.problems.append(TypeProblem(code, message, within))

    def visit(self, expression: Expr, within: Path) -> Type:
        match expression:
            case Integer(value) | Real(value):
                return Weak(value)
            case Variable():
                return "i64"
            case Access(tensor, indices):
                for number, index in enumerate(indices):
                    self.subscript(tensor, number, self.visit(index, (*within, number)), (*within, number))
                return computing_type(self.tensors.get(tensor, "f32"))
            case Unary("!", operand):
                kind = self.visit(operand, (*within, 0))
                self.condition(kind, "the operand of !", (*within, 0))
                return Weak(not kind.value) if isinstance(kind, Weak) else "bool"
            case Unary(_, operand):
                kind = _arithmetic(self.visit(operand, (*within, 0)))
                return Weak(-kind.value) if isinstance(kind, Weak) else kind
            case Binary(op, left, right):
                kinds = self.visit(left, (*within, 0)), self.visit(right, (*within, 1))
                return self.binary(op, *kinds, within)
            case Call(function, arguments):
                return self.call(
                    function, tuple(self.visit(argument, (*within, n)) for n, argument in enumerate(arguments)), within
                )
            case Select(condition, then, otherwise):
                test = self.visit(condition, (*within, 0))
                self.condition(test, "the condition of if_then_else", (*within, 0))
                values = self.visit(then, (*within, 1)), self.visit(otherwise, (*within, 2))
                if isinstance(test, Weak) and all(isinstance(value, Weak) for value in values):
                    return _like(values[0] if test.value else values[1], promote(*values))
                common = promote(*values)  # of two literals that a condition chooses from: i64, f64 or bool
                return self.meet(*values, within, strong(common), first=1)
            case Cast(dtype, operand):
                self.fits(self.visit(operand, (*within, 0)), dtype, (*within, 0))
                return computing_type(dtype)
            case _:
                assert_never(expression)

    def subscript(self, tensor: str, number: int, kind: Type, within: Path) -> None:
        if not is_integer(kind):
            self.report("subscript-not-integer", f"subscript {number + 1} of {tensor} is {_name(kind)}", within)

    def condition(self, kind: Type, what: str, within: Path) -> None:
        if not is_boolean(kind):
            self.report("condition-not-bool", f"{what} is {_name(kind)}: compare it with something", within)

    def fits(self, kind: Type, dtype: DType, within: Path) -> None:
        """An integer literal, and inf, must be a value of the integer type that it is converted to."""
        if not isinstance(kind, Weak) or dtype not in INTEGERS:
            return
        low, high = integer_range(dtype)
        if not low <= kind.value <= high:
            shown = kind.value if isinstance(kind.value, float) or abs(kind.value) < 10**30 else "a larger literal"
            self.report("literal-out-of-range", f"{shown} is no value of {dtype} ({low}..{high})", within)

    def meet(self, left: Type, right: Type, within: Path, common: Type, first: int = 0) -> Type:
        """The common type, after a weak side has been converted to it; `first` is the left side's child number."""
        if not isinstance(common, Weak):
            self.fits(left, common, (*within, first))
            self.fits(right, common, (*within, first + 1))
        return common

    def binary(self, op: BinaryOp, left: Type, right: Type, within: Path) -> Type:
        if op in ("&&", "||"):
            self.condition(left, f"the left side of {op}", (*within, 0))
            self.condition(right, f"the right side of {op}", (*within, 1))
            return fold(op, left, right) if isinstance(left, Weak) and isinstance(right, Weak) else "bool"
        if op in ("//", "%"):
            for number, kind in enumerate((left, right)):
                if not is_integer(kind):
                    self.report("operand-not-integer", f"{op} takes integers, not {_name(kind)}", (*within, number))
        if op == "**" and not (is_float(left) or (isinstance(left, Weak) and is_float(right))):
            self.report("power-of-integer", f"the base of ** is a float, not {_name(left)}", (*within, 0))
        if isinstance(left, Weak) and isinstance(right, Weak):
            return fold(op, left, right)
        common = promote(left, right)
        if op in COMPARISONS:
            self.meet(left, right, within, common)
            return "bool"
        common = _arithmetic(common)
        if op == "/" and not is_float(common):
            common = "f32"
        return self.meet(left, right, within, common)

    def call(self, function: str, kinds: tuple[Type, ...], within: Path) -> Type:
        if all(isinstance(kind, Weak) for kind in kinds):
            return Weak(fold_call(function, [number(kind) for kind in kinds if isinstance(kind, Weak)]))
        if function in ("max", "min") and len(kinds) == 2:
            return self.meet(*kinds, within, _arithmetic(promote(*kinds)))
        common = _arithmetic(kinds[0])
        return common if function == "abs" or is_float(common) else "f32"


class _TypingOnce(_Typing):
    """Types each expression once, by its identity, and notes nothing."""

    def __init__(self, tensors: Mapping[str, DType]) -> None:
        super().__init__(tensors)
        self._found: dict[int, tuple[Expr, Type]] = {}  # each expression is kept alive, so that its identity stays

    def report(self, code: str, message: str, within: Path) -> None:
        pass

    def visit(self, expression: Expr, within: Path) -> Type:
        known = self._found.get(id(expression))
        if known is None:
            known = self._found[id(expression)] = (expression, super().visit(expression, within))
        return known[1]


def _arithmetic(kind: Type) -> Type:
    if isinstance(kind, Weak):
        return Weak(int(kind.value)) if isinstance(kind.value, bool) else kind
    return "i32" if kind == "bool" else kind


def _name(kind: Type) -> str:
    if not isinstance(kind, Weak):
        return kind
    value = kind.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"the number {value}" if isinstance(value, float) or abs(value) < 10**30 else "a large integer"


def _like(kind: Type, common: Type) -> Type:
    """A weak value, as a float or an integer where the other choice is one."""
    assert isinstance(kind, Weak) and isinstance(common, Weak)
    if isinstance(common.value, float):
        return Weak(number(kind))
    return Weak(int(kind.value)) if is_integer(common) else kind
