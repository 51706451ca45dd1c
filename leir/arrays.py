"""How NumPy arrays hold tensors, at every border of the language.

NumPy has no bf16: such tensors are float32 arrays whose values are bf16 numbers. Every other dtype is NumPy's own.
"""

import numpy as np

from leir.syntax import DType

_TYPES: dict[DType, type[np.generic]] = {
    "f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32,
    "i64": np.int64, "bool": np.bool_,
}  # fmt: skip


def array_type(dtype: DType) -> type[np.generic]:
    """The NumPy type of the arrays that hold a tensor of this dtype."""
    return _TYPES[dtype]
