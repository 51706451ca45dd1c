"""The functions of LEIR in machine terms: the C library's on `llvm`, CUDA's precise ones on `cuda`.

TVM's own rules are not accurate enough: its `tanh` on llvm is off by thousands of ULP near zero, and on CUDA it takes
the fast approximations. glibc's functions and CUDA's are within 4 ULP in f32 and f64 (CUDA C++ Programming Guide,
"Mathematical Functions"; the tests sample glibc's). TVM keeps its rules in one table for the whole process, so
importing this module changes what it makes of these operators; nothing else here compiles with it.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from functools import cache

from tvm import tirx
from tvm.ir import Call, Expr, Op

# The operators that print as `T.exp` and so on. LEIR's round is to even, as nearbyint is in the default mode.
_OPERATORS = {
    "exp": "exp", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "abs": "fabs", "erf": "erf", "tanh": "tanh",
    "sin": "sin", "cos": "cos", "floor": "floor", "round": "nearbyint", "pow": "pow",
}  # fmt: skip


def call(function: str, dtype: str, *arguments: Expr) -> Expr:
    """A call in TIR. `function`: one of LEIR's but max and min, or pow. `dtype`: float32 or float64, of everything."""
    if function == "expm1":  # TIR has no operator for it
        return tirx.call_pure_extern(dtype, "expm1f" if dtype == "float32" else "expm1", *arguments)
    return Call(operator(f"tirx.{_OPERATORS[function]}"), list(arguments), ret_ty=dtype)


@cache
def operator(name: str) -> Op:
    return Op.get(name)


def _register() -> None:
    def extern(name: str) -> Callable[[Call], Expr]:
        return lambda call: tirx.call_pure_extern(
            call.ty, name + ("f" if str(call.ty.dtype).startswith("float32") else ""), *call.args
        )

    def keep(_: Call) -> None:
        return None

    for target in ("llvm", "cuda"):
        for name in _OPERATORS.values():
            tirx.register_intrin_lowering(f"tirx.{name}", target, f=extern(name), level=99)
    # TVM turns a*b+c into fmuladd, which some processors round once: without a rule both operations stay.
    tirx.register_intrin_lowering("tirx.fma", "llvm", f=keep, level=99)


_register()
