"""The text of a program: constants, a model and its inputs, laid out as `ruff format` would."""

import re
from collections.abc import Mapping, Sequence

_WIDTH = 120
_TORCH = {"f16": "torch.float16", "bf16": "torch.bfloat16", "f32": "torch.float32", "f64": "torch.float64"}


def program_text(
    constants: Mapping[str, int | float | str], summary: str, *,
    forward: Sequence[str], inputs: Sequence[str],
    state: Sequence[str] = (), arguments: str = "x", dtype: str = "f32",
) -> str:  # fmt: skip
    """A file in the form of public benchmarks.

    `constants` stand at the top, and those that `state`, the lines of `__init__`, reads are its arguments. `forward`
    are the lines of a method of `arguments`; `inputs` are the expressions of `get_inputs`. Pieces say `dtype=dtype`
    wherever a tensor is made: in float32, which is PyTorch's default, it is left out, as people do.
    """
    takes = [name for name in constants if re.search(rf"(?<![\w.]){name}\b(?! ?=[^=])", "\n".join(state))]
    heads = [f"{name} = {value}" for name, value in constants.items()]
    if dtype != "f32":
        heads.append(f"dtype = {_TORCH[dtype]}")
    parts = ["import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n", *heads, "\n"]
    parts += ["class Model(nn.Module):", f'    """{summary}"""\n']
    if state:
        parts.append(f"    def __init__({', '.join(['self', *takes])}):")
        parts += [f"        {line}" for line in ("super().__init__()", *map(_wrapped, state))]
        parts.append("")
    parts.append(f"    def forward(self, {arguments}):")
    parts += [f"        {_wrapped(line)}" for line in forward]
    parts += ["\n", "def get_inputs():", _list(inputs), "\n", "def get_init_inputs():", _list(takes)]
    text = "\n".join(parts) + "\n"
    return text.replace(", dtype=dtype", "") if dtype == "f32" else text


def _list(elements: Sequence[str]) -> str:
    """`return [...]` in one line, or one element a line where that is too long."""
    line = f"    return [{', '.join(elements)}]"
    if len(line) <= _WIDTH:
        return line
    return "\n".join(["    return [", *(f"        {element}," for element in elements), "    ]"])


def _wrapped(line: str) -> str:
    """A line of a method; the arguments of a call that is too long stand in a line of their own."""
    if len(line) + 8 <= _WIDTH or not line.endswith(")"):
        return line
    depth = 0
    for at in range(len(line) - 1, -1, -1):  # from its last parenthesis back to the one that opens it
        depth += {")": 1, "(": -1}.get(line[at], 0)
        if depth == 0:
            return f"{line[: at + 1]}\n            {line[at + 1 : -1]}\n        )"
    raise ValueError(f"unbalanced parentheses: {line}")
