"""What the names of a program stand for in TIR: buffers of tensors, values and ranges of loop variables."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tvm import tirx
from tvm.ir import Expr as TirExpr

from leir.syntax import DType

Target = Literal["llvm", "cuda"]

TIR_TYPES: dict[DType, str] = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "i32": "int32",
    "i64": "int64", "bool": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a tensor lives: `buffer` holds all dimensions but the first `dropped`, flattened if `flat`."""

    buffer: tirx.Buffer
    dtype: DType
    shape: tuple[int, ...]  # of the whole tensor
    dropped: int = 0
    flat: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """What the names of a program stand for at one place: loop variables with their ranges, and tensors."""

    target: Target | Literal["script"]  # "script": printed, never compiled
    tensors: Mapping[str, Storage]
    variables: Mapping[str, TirExpr] = field(default_factory=dict[str, TirExpr])
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def with_variable(self, name: str, value: TirExpr, low: int, high: int) -> "Names":
        return replace(self, variables={**self.variables, name: value}, ranges={**self.ranges, name: (low, high)})

    def with_tensor(self, name: str, storage: Storage) -> "Names":
        return replace(self, tensors={**self.tensors, name: storage})


def buffer_type(dtype: DType, target: Target | Literal["script"]) -> str:
    """The TIR type of a buffer's elements: LLVM code holds bf16 as its bits."""
    return "uint16" if dtype == "bf16" and target == "llvm" else TIR_TYPES[dtype]
