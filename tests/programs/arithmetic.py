"""Random programs of one equation over every dtype: what promotion, literals, conversions and rounding are tried on."""

import hashlib
import random
import re
from typing import Literal

from leir.parser import parse
from leir.syntax import Program

Category = Literal["bool", "integer", "float"]

_INPUTS = "D^{bool}_8,E^{i8}_8,F^{i32}_8,G^{i64}_8,H^{f16}_8,I^{bf16}_8,J^{f32}_8,K^{f64}_8"
_DTYPES = ("bool", "i32", "i64", "f16", "bf16", "f32", "f64")


def random_arithmetic(seed: int | str) -> Program:
    """A well-formed program that stores one random expression of all dtypes, of exact operators only.

    Integers stay small, so that nothing overflows; floats are divided by what is not zero.
    """
    rng = random.Random(hashlib.sha256(repr(("arithmetic", seed)).encode()).digest())
    dtype = rng.choice(_DTYPES)
    category: Category = "bool" if dtype == "bool" else "integer" if dtype in ("i32", "i64") else "float"
    value = _Arithmetic(rng).of(category, rng.randint(2, 4))
    return parse(f"in {_INPUTS};out C^{{{dtype}}}_8;L^8_i[C_i={value};]", f"<arithmetic {seed}>")


class _Arithmetic:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def of(self, category: Category, depth: int) -> str:
        match category:
            case "bool":
                return self.boolean(depth)
            case "integer":
                return self.integer(depth)
            case "float":
                return self.floating(depth)

    def fill(self, form: str, depth: int) -> str:
        """The form with each <B>, <N>, <X> replaced by a bool, an integer, a float expression."""
        categories: dict[str, Category] = {"<B>": "bool", "<N>": "integer", "<X>": "float"}
        parts = re.split("(<[BNX]>)", form)
        return f"({''.join(self.of(categories[p], depth - 1) if p in categories else p for p in parts)})"

    def boolean(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(("D_i", "D_i", "(i<3)", "(1<2)"))
        compare = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
        return self.fill(
            self.rng.choice(
                (f"<N>{compare}<N>", f"<X>{compare}<X>", f"<N>{compare}<X>", f"<B>{compare}<B>", "<B>&&<B>", "<B>||<B>",
                 "!<B>", "cast(bool,<X>)", "cast(bool,<N>)", "if_then_else(<B>,<B>,<B>)", f"<N>{compare}1")
            ),
            depth,
        )  # fmt: skip

    def integer(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(("i", "F_i", "G_i", "cast(i32,E_i)", "E_i", "3", "1", "cast(i64,7)"))
        return self.fill(
            self.rng.choice(
                ("<N>+<N>", "<N>-<N>", "cast(i64,<N>)*<N>", "<N>//3", "<N>%5", "<N>//max(abs(cast(i32,<N>)),1)",
                 "<N>%max(abs(cast(i64,<N>)),2)", "-<N>", "abs(cast(i64,<N>))", "max(<N>,i)", "min(i,<N>)",
                 "if_then_else(<B>,<N>,<N>)", "cast(i32,max(min(<X>,100.0),-100.0))", "<B>+<B>", "<N>+<B>",
                 "if_then_else(<B>,1,2)*cast(i64,<N>)", "<N>+(2*3-10)//4", "-<B>", "cast(i64,<N>)+<B>*<B>")
            ),
            depth,
        )  # fmt: skip

    def floating(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(
                ("H_i", "I_i", "J_i", "K_i", "J_i", "0.1", "2.5", "1e-05", "cast(f32,0.7)", "cast(f16,i)")
            )
        return self.fill(
            self.rng.choice(
                ("<X>+<X>", "<X>-<X>", "<X>*<X>", "<X>/(abs(<X>)+1.0)", "<N>/(abs(<N>)+2)", "<X>*<N>", "<N>*0.3",
                 "<X>+<B>", "if_then_else(<B>,<X>,<X>)", "if_then_else(<B>,<X>,<N>)", "if_then_else(<B>,0.1,0.7)*<X>",
                 "if_then_else(<B>,1,0.3)/3", "sqrt(abs(<X>))", "abs(<X>)", "floor(<X>)", "round(<X>)", "max(<X>,<X>)",
                 "min(<X>,<N>)", "cast(f16,<X>)", "cast(bf16,<X>)", "cast(f32,<X>)", "cast(f64,<X>)", "cast(bf16,<N>)",
                 "sqrt(abs(<N>))", "(1/3+0.1)*<X>", "floor(<N>/2)", "round(<N>*0.5)", "max(<X>,1)", "-<X>", "<X>+7//2")
            ),
            depth,
        )  # fmt: skip
