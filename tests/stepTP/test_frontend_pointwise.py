"""Element-wise ops against PyTorch: every op of the table, its argument variants, broadcasting and dtypes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from leir.interp import interpret
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Loop
from stepTP.frontend import UnsupportedOp, translate
from tests.stepTP.agreement import Calls, agree, draw, positive

X = draw(3, 5)
WIDE = torch.tensor([[-1e4, -90.0, -3.0, -0.5, -1e-9], [0.0, 1e-9, 0.5, 1.0, 3.0], [20.5, 19.5, 90.0, 1e4, -6.5]])
INTEGERS = draw(3, 5, dtype=torch.int64)
NONZERO = torch.where(INTEGERS == 0, 3, INTEGERS.flip(1).where(INTEGERS.flip(1) != 0, -2))
FLAGS = draw(3, 5, dtype=torch.bool)

UNARY: dict[str, Callable[[torch.Tensor], Any]] = {
    "abs": torch.abs,
    "neg": torch.neg,
    "exp": lambda x: torch.exp(x.clamp(-5, 5)),
    "exp2": lambda x: torch.exp2(x.clamp(-5, 5)),
    "expm1": lambda x: torch.expm1(x.clamp(-5, 5)),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "relu": F.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "leaky_relu": F.leaky_relu,
    "leaky_relu slope": lambda x: F.leaky_relu(x, 0.25),
    "leaky_relu negative slope": lambda x: F.leaky_relu(x, -0.5),
    "elu": F.elu,
    "elu alpha": lambda x: F.elu(x, 0.5),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 2.0),
    "softplus": F.softplus,
    "softplus beta": lambda x: F.softplus(x, 2.0, 5.0),
    "softplus high threshold": lambda x: F.softplus(x, 0.5, 200.0),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "hardtanh": F.hardtanh,
    "hardtanh bounds": lambda x: F.hardtanh(x, -2.0, 0.5),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "sign": torch.sign,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "clamp both": lambda x: x.clamp(-0.5, 0.75),
    "clamp low": lambda x: x.clamp(min=-0.5),
    "clamp high": lambda x: x.clamp(max=0),
    "clamp crossed": lambda x: x.clamp(1.0, -1.0),
    "clamp_min": lambda x: torch.clamp_min(x, 0.5),
    "clamp_max": lambda x: torch.clamp_max(x, 0.5),
    "pow 2": lambda x: x**2,
    "pow 3": lambda x: x**3,
    "pow 0": lambda x: x**0,
    "pow 1": lambda x: x**1.0,
    "pow 4": lambda x: (x.clamp(-5, 5)) ** 4,
    "square": torch.square,
    "add scalar": lambda x: x + 2,
    "add negative": lambda x: x + -0.1,
    "add alpha": lambda x: torch.add(x, x.tanh(), alpha=-2),
    "sub scalar": lambda x: x - 0.25,
    "sub alpha": lambda x: torch.sub(x, 3, alpha=2),
    "rsub": lambda x: 2 - x,
    "rsub alpha": lambda x: torch.rsub(x, 1.5, alpha=2),
    "mul scalar": lambda x: x * 3,
    "div scalar": lambda x: x / 3,
    "div trunc": lambda x: torch.div(x, 0.75, rounding_mode="trunc"),
    "where scalar": lambda x: torch.where(x > 0, x, 0.0),
    "where scalars": lambda x: x * torch.where(x > 0, 1.0, -1.0),
    "masked_fill": lambda x: x.masked_fill(x < 0, -1e9),
    "masked_fill infinity": lambda x: x.masked_fill(x < 0, float("-inf")),
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "hardshrink": F.hardshrink,
    "softshrink": lambda x: F.softshrink(x, 0.3),
    "sinh and cosh": lambda x: (torch.sinh(x.clamp(-5, 5)), torch.cosh(x.clamp(-5, 5))),
    "tan": lambda x: torch.tan(x.clamp(-1, 1)),
    "lerp": lambda x: (torch.lerp(x, x.tanh(), 0.3), torch.lerp(x, x.tanh(), 0.75)),
    "addcmul": lambda x: (torch.addcmul(x, x, x.tanh(), value=-2), torch.addcmul(x, x, x.cos())),
    "addcdiv": lambda x: (torch.addcdiv(x, x, x.cosh(), value=0.5), torch.addcdiv(x, x, x.abs() + 1)),
    "glu": lambda x: F.glu(x[:, :4]),
    "tanhshrink": F.tanhshrink,
    "asinh": torch.asinh,
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.3),
    "celu of alpha": lambda x: F.celu(x, 0.7),
    "glu of axis 0": lambda x: F.glu(torch.cat([x, x[:1] * 2]), 0),
    "angles": lambda x: (torch.deg2rad(x), torch.rad2deg(x)),
    "floor of a quotient": lambda x: (x // 0.5, torch.div(x, -4, rounding_mode="floor"), x // 2),
    "remainder by a power of two": lambda x: (x % 2, torch.remainder(x, -0.5), torch.fmod(x, 4)),
    "round to decimals": lambda x: (x.round(decimals=2), (x * 100).round(decimals=-1), x.round(decimals=0)),
    "infinities": lambda x: (x.isfinite(), x.isposinf(), x.isneginf()),
    "copysign": lambda x: (torch.copysign(x, -2.0), torch.copysign(x, 0.5)),
    "nan_to_num": lambda x: (torch.nan_to_num(x), torch.nan_to_num(x, -1.0, 2.0, -3.0)),
    "softsign": F.softsign,
    "logical_not": torch.logical_not,
}
POSITIVE: dict[str, Callable[[torch.Tensor], Any]] = {
    "log": torch.log,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "log10": torch.log10,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "pow -1": lambda x: x**-1,
    "pow -2": lambda x: x**-2.0,
    "pow 0.5": lambda x: x**0.5,
    "pow -0.5": lambda x: x**-0.5,
    "pow 1.7": lambda x: x**1.7,
    "pow -3": lambda x: x**-3,
    "pow scalar base": lambda x: 2**x,
    "pow float base": lambda x: torch.pow(0.3, x),
    "scalar over tensor": lambda x: 2 / x,
    "negative pow": lambda x: -(x**2.5),
    "acosh": lambda x: torch.acosh(x + 0.5),
    "atanh": lambda x: torch.atanh(x / 3),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    agree(UNARY[name], X)


@pytest.mark.parametrize("name", UNARY)
def test_unary_at_extremes(name: str) -> None:
    agree(UNARY[name], WIDE)


@pytest.mark.parametrize("name", POSITIVE)
def test_unary_of_positive_values(name: str) -> None:
    agree(POSITIVE[name], positive(3, 5))


BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add": lambda x, y: x + y,
    "add alpha": lambda x, y: torch.add(x, y, alpha=0.5),
    "sub": lambda x, y: x - y,
    "sub alpha": lambda x, y: torch.sub(x, y, alpha=2),
    "rsub": lambda x, y: torch.rsub(x, y, alpha=3),
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "logaddexp": torch.logaddexp,
    "hypot": lambda x, y: (torch.hypot(x, y), torch.hypot(x * 1e30, y * 1e30) * 1e-30, torch.hypot(x - x, y - y)),
    "fmax and fmin": lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)),
    "heaviside": lambda x, y: torch.heaviside(x.round(), y),
    "ldexp": lambda x, y: torch.ldexp(x, y.round()),
    "prelu by channel": lambda x, y: F.prelu(x, y[0]),
    "prelu of one slope": lambda x, y: F.prelu(x, y[0, :1]),
    "lerp": lambda x, y: torch.lerp(x, y, y.sigmoid()),
    "prelu": lambda x, y: F.prelu(x, y[0]),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "where": lambda x, y: torch.where(x < y, x, y),
    "clamp low": lambda x, y: x.clamp(min=y),
    "clamp both": lambda x, y: x.clamp(y, y + 1),
    "clamp_max": lambda x, y: torch.clamp_max(x, y),
    "pow": lambda x, y: x.abs() ** y,
    "and": lambda x, y: (x > 0) & (y > 0),
    "or": lambda x, y: (x > 0) | (y > 0),
    "xor": lambda x, y: (x > 0) ^ (y > 0),
    "logical_and": lambda x, y: torch.logical_and(x, y),
    "logical_or": lambda x, y: torch.logical_or(x - x, y),
    "not": lambda x, y: ~(x > y),
}
SHAPES = [
    ((3, 5), (3, 5)),
    ((3, 5), (5,)),
    ((5,), (3, 5)),
    ((3, 1), (1, 5)),
    ((3, 5), ()),
    ((2, 1, 4), (3, 1)),
    ((1, 1), (1,)),
    ((3, 3), (3,)),
    ((3, 3), (3, 1)),
    ((), ()),
]


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    agree(BINARY[name], draw(4, 3), draw(4, 3, seed=1))


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_broadcasting(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = draw(*left, seed=2), draw(*right, seed=3)
    agree(lambda x, y: (x - y, x < y, torch.maximum(x, y), torch.where(x > y, x, y * 2)), x, y)


def test_broadcasting_does_not_guess_from_equal_sizes() -> None:
    program = agree(lambda x, row, column: (x + row) * column, draw(3, 3), draw(3), draw(3, 1, seed=1))
    assert to_text(program).splitlines()[1:] == [
        "L^{3,3}_{i,j}[F_{i,j}=A_{i,j}+C_j;]",
        "L^{3,3}_{i,j}[E_{i,j}=F_{i,j}*D_{i,0};]",
    ]


def test_where_broadcasts_its_three_operands() -> None:
    agree(torch.where, draw(3, 1, dtype=torch.bool), draw(4), draw(2, 1, 1))


def test_a_chain_is_one_nest_an_op() -> None:
    program = agree(lambda x: torch.tanh(x * 2 + 1), X)
    assert to_text(program) == (
        "in A_{3,5};out C_{3,5};\n"
        "L^{3,5}_{i,j}[D_{i,j}=A_{i,j}*2.0;]\n"
        "L^{3,5}_{i,j}[E_{i,j}=D_{i,j}+1.0;]\n"
        "L^{3,5}_{i,j}[C_{i,j}=tanh(E_{i,j});]\n"
    )
    assert all(isinstance(statement, Loop) for statement in program.body)


MIXED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "integers": (lambda x, y: (x + y, x * y, x - 2, x / 2, x < y, -x, x.abs(), x**2), (INTEGERS, INTEGERS * 2)),
    "integer powers": (lambda x: (x**3, x**4, x**0, x**5), (INTEGERS,)),
    "integer and float": (lambda x, y: (x + y, x * y, x < y, torch.maximum(x * 1.0, y)), (INTEGERS, X)),
    "integer scalar float": (lambda x: (x + 0.5, x * 2.5, x < 1.5, x.clamp(-1.5, 2.5)), (INTEGERS,)),
    "integer functions": (lambda x: (torch.exp(x), torch.sigmoid(x), torch.sqrt(x * x)), (INTEGERS,)),
    "integer relu": (lambda x: (F.relu(x), x.sign(), x.clamp(-1, 2), torch.floor(x)), (INTEGERS,)),
    "integer division": (
        lambda x: (torch.div(x, 3, rounding_mode="floor"), x % 3, x.bool(), x != 0, x // -3, x % -3),
        (INTEGERS,),
    ),
    "integer division towards zero": (
        lambda x: (
            torch.div(x, 3, rounding_mode="trunc"),
            torch.div(x, -2, rounding_mode="trunc"),
            torch.fmod(x, 3),
            torch.fmod(x, -3),
        ),
        (INTEGERS,),
    ),
    "integer division by a tensor": (
        lambda x, y: (x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y)),
        (INTEGERS, NONZERO),
    ),
    "float division to an integer": (
        lambda x, y: (x // y, x % y, torch.fmod(x, y), torch.remainder(2.5, y), torch.fmod(x, -0.7), x % 0.7, x // 0.1),
        (X * 3, draw(3, 5, seed=1)),
    ),
    "integers over floats": (lambda x: (x // 0.7, x % 0.7), (INTEGERS,)),
    "shifts and low bits": (lambda x: (x << 2, x >> 1, x & 3, ~x), (INTEGERS,)),
    "tests of integers": (lambda x: (x.isnan(), x.isinf(), x.isfinite(), torch.nan_to_num(x)), (INTEGERS,)),
    "half divided to an integer": (lambda x: (x // 0.7, x % 0.7), (X.half(),)),
    "bool and float": (lambda m, x: (m * x, m + x, x - m.float(), torch.where(m, x, -x)), (FLAGS, X)),
    "bool": (lambda m, n: (m & n, m | n, m ^ n, ~m, m * n, m + n, m == n, m < n), (FLAGS, ~FLAGS.roll(1))),
    "bool scalar": (lambda m: (m + 1, m * 2.5, m & True, m | True), (FLAGS,)),
    "bool and integer": (lambda m, x: (m + x, m * x, torch.where(m, x, 0)), (FLAGS, INTEGERS)),
    "i32 and i64": (lambda x, y: (x + y, x < y), (INTEGERS.int(), INTEGERS)),
    "i8": (lambda x, y: (x + y, x + 1, x < y), (INTEGERS.to(torch.int8), INTEGERS.to(torch.int8))),
    "numbers that wrap around": (lambda x: (x + 200, x > 200, x == -300), (INTEGERS.to(torch.int8),)),
    "constants that convert": (
        lambda x: (
            x * torch.full((5,), -3.7, dtype=torch.int64),
            x * torch.full((5,), -3.7).long(),
            x * torch.full((5,), 2, dtype=torch.bool),
            x * torch.full((5,), 300).to(torch.int8),
        ),
        (X,),
    ),
    "a constant that its dtype rounds": (
        lambda x: (x == torch.full((5,), 0.1, dtype=torch.float16), x + torch.full((5,), 0.1, dtype=torch.float16)),
        (torch.full((3, 5), 0.1, dtype=torch.float16).float(),),
    ),
    "a constant of f32 in f64": (lambda x: x * torch.full((5,), 0.1), (X.double(),)),
    "powers of two": (lambda x: (2**x, 2 ** x.abs(), 2 ** x.float()), (INTEGERS,)),
    "copies": (lambda x: (x.int(), x.long(), x.bool(), x.double(), x.to(torch.float16)), (X * 3,)),
    "f64 and f32": (lambda x, y: (x + y, x * y, x < y), (X, X.double() + 1e-9)),
    "f64 of rank 0": (lambda x, y: (x + y, x * y, x < y), (X, torch.tensor(0.1, dtype=torch.float64))),
    "f16": (lambda x: (x + 1.5, x * x, F.softplus(x), torch.sigmoid(x)), (X.half(),)),
    "f16 and f32": (lambda x, y: (x * y, x > y), (X.half(), X + 0.1)),
}


@pytest.mark.parametrize("name", MIXED)
def test_dtypes(name: str) -> None:
    function, inputs = MIXED[name]
    agree(function, *inputs, in_double=False)


def test_a_quotient_that_rounds_up_to_an_integer_is_below_it() -> None:
    """1.0 / 0.1 is 10.0 in f32, but 0.1 in f32 is a little more than a tenth."""
    x, y = torch.tensor([1.0, 3.0, -1.0, 6.0]), torch.tensor([0.1, 0.1, 0.1, 0.3])
    assert (x / y).floor().tolist() != (x // y).tolist()
    agree(lambda x, y: (x // y, x % y, torch.fmod(x, y)), x, y, in_double=False)
    agree(lambda x: (x // 0.1, x % 0.1), x, in_double=False)


def test_a_quotient_of_f64_that_rounds_up_to_an_integer_is_below_it() -> None:
    """No wider type holds the product of quotient and divisor; what is left is exact all the same."""
    x = torch.tensor([0.7, 1.4, 2.1, -2.1, 6.3, 1e6, -1e6, 0.05, 0.0, 3.5], dtype=torch.float64)
    x = torch.cat([x, torch.arange(-40, 40) * 0.7, torch.arange(-40, 40, dtype=torch.float64) / 10])
    y = torch.tensor([[0.7], [-0.7], [0.1], [-0.3], [1e-3], [2.0]], dtype=torch.float64)
    function = lambda x, y: (x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="floor"))  # noqa: E731
    found = interpret(translate(Calls(function), (x, y)).program, {"A": x.numpy(), "C": y.numpy()})
    for got, wanted in zip(found.values(), function(x, y), strict=True):
        assert (got == wanted.numpy()).all()
    agree(lambda x: (x // 0.7, x % 0.7, torch.fmod(x, -0.7)), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_compares_with_a_number_as_it_holds_it(dtype: torch.dtype) -> None:
    """0.1 is 0.0999755859375 in f16; what is compared are all values near it."""
    near = torch.tensor([0.1, -0.3, 3.9], dtype=dtype).view(torch.int16)
    x = (near[:, None] + torch.arange(-4, 5, dtype=torch.int16)).view(dtype)
    agree(lambda x: (x > 0.1, x <= 0.1, x == 0.1, x < -0.3, x != -0.3), x, in_double=False)
    agree(lambda x: (F.hardshrink(x, 0.1), x % 0.3, torch.fmod(x, 0.3), x // 0.3), x.float().to(dtype), in_double=False)


def test_not_a_number() -> None:
    x = torch.tensor([[torch.nan, 1.0, -1.0], [torch.inf, -torch.inf, 0.0]])
    agree(lambda x: (x.isnan(), x.isinf(), x.isfinite(), torch.nan_to_num(x, 1.5, 3.0, -2.0)), x)
    agree(lambda x: (torch.nan_to_num(x), x.floor(), x.frac()), x)
    agree(lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)), x, torch.zeros(3))


def test_constants_need_no_nest() -> None:
    program = agree(
        lambda x: (x + torch.full((5,), 0.5), x * torch.ones(3, 1), torch.where(x > torch.zeros_like(x), x, 2.0)), X
    )
    assert len([s for s in program.body if isinstance(s, Loop)]) == 4


def test_a_lifted_scalar_is_a_literal() -> None:
    program = agree(lambda x: x * torch.tensor(0.5), X)
    assert parse("in A_{3,5};out C_{3,5};L^{3,5}_{i,j}[C_{i,j}=A_{i,j}*0.5;]") == program


def test_ranges_are_expressions_of_the_loop() -> None:
    agree(lambda x: x * torch.arange(5) + torch.arange(2, 8, 2).unsqueeze(1), X)
    agree(lambda x: x + torch.arange(0, 1, 0.2), X, in_double=False)
    agree(lambda x: (torch.arange(5).float() * x, torch.arange(3, dtype=torch.int32)), X, in_double=False)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "integer division by zero": (lambda x: x // 0, (INTEGERS,), "division by 0"),
    "a number read from a tensor": (lambda x: x * x.sum().item(), (X,), "item.default: a Python number read from a"),
    "unique": (lambda x: torch.unique(x), (INTEGERS,), "_unique2.default: the shape of its result depends on data"),
    "antialias": (lambda x: F.interpolate(x[None, None], (2, 2), mode="bilinear", antialias=True), (X,), "antialias"),
    "inverse functions": (torch.atan2, (X, X), "no inverse trigonometric"),
    "erfc": (torch.erfc, (X,), "erf alone"),
    "signs of zero": (torch.copysign, (X, X), "-0.0"),
    "sorting": (lambda x: x.sort().values, (X,), "depends on data"),
    "median": (lambda x: x.median(), (X,), "depends on data"),
    "a number of elements that depends on data": (torch.nonzero, (X,), "shape of its result depends on data"),
    "a choice of elements": (lambda x: x.masked_select(x > 0), (X,), "shape of its result depends on data"),
    "complex numbers": (lambda x: torch.fft.fft(x).real, (X,), "complex"),
    "factorisations": (lambda x: torch.linalg.inv(x[:, :3]), (X,), "pivots"),
    "random numbers": (lambda x: x + torch.rand(5), (X,), "random numbers"),
    "integer power of a tensor": (lambda x, y: x**y, (INTEGERS, INTEGERS.abs()), "base of i64"),
    "bits": (lambda x: x & 5, (INTEGERS,), "bits of integers"),
    "uint8": (lambda x: x + 1, (INTEGERS.to(torch.uint8),), "uint8 has no counterpart"),
    "dropout in training": (lambda x: F.dropout(x, 0.5, training=True), (X,), "draws random numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_refused(name: str) -> None:
    function, inputs, reason = REFUSED[name]
    with pytest.raises(UnsupportedOp, match=reason):
        translate(Calls(function), inputs)
