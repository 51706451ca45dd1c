"""The text of a program: constants, a model and its inputs, typed, and laid out as `ruff format` would."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

_WIDTH = 120
_TORCH = {"f16": "torch.float16", "bf16": "torch.bfloat16", "f32": "torch.float32", "f64": "torch.float64"}
_TENSOR = "torch.Tensor"


def program_text(
    constants: Mapping[str, int | float], summary: str, *,
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
    buffers = re.findall(r'self\.register_buffer\("(\w+)"', "\n".join(state))
    if buffers:  # a type checker cannot know that these attributes are tensors
        parts += [*(f"    {name}: {_TENSOR}" for name in buffers), ""]
    if state:
        typed = [f"{name}: {type(constants[name]).__name__}" for name in takes]
        parts.append(_signature("    def __init__", ["self", *typed], "None"))
        parts += [f"        {line}" for line in ("super().__init__()", *map(_wrapped, state))]
        parts.append("")
    typed = [f"{name}: {_TENSOR}" for name in arguments.split(", ")]
    parts.append(_signature("    def forward", ["self", *typed], _returned(forward)))
    parts += [f"        {_wrapped(line)}" for line in forward]
    kinds = sorted({type(constants[name]).__name__ for name in takes}, key=("int", "float").index) or ["int"]
    parts += ["\n", f"def get_inputs() -> list[{_TENSOR}]:", _list(inputs)]
    parts += ["\n", f"def get_init_inputs() -> list[{' | '.join(kinds)}]:", _list(takes)]
    text = "\n".join(parts) + "\n"
    return text.replace(", dtype=dtype", "") if dtype == "f32" else text


def _returned(forward: Sequence[str]) -> str:
    """The type of what the lines return: a tensor, or a tuple of as many as its `return` writes out."""
    returns = [node for node in ast.walk(ast.parse("\n".join(_as_function(forward)))) if isinstance(node, ast.Return)]
    match returns[-1].value:
        case ast.Tuple(elements):
            return f"tuple[{', '.join([_TENSOR] * len(elements))}]"
        case _:
            return _TENSOR


def _as_function(lines: Sequence[str]) -> Iterator[str]:
    yield "def forward():"
    yield from (f" {line}" for line in lines)


def _signature(head: str, arguments: Sequence[str], result: str) -> str:
    """`head(arguments) -> result:` in one line, or its arguments in one line, or each in a line of its own."""
    line = f"{head}({', '.join(arguments)}) -> {result}:"
    if len(line) <= _WIDTH:
        return line
    inner = f"        {', '.join(arguments)}"
    if len(inner) > _WIDTH:
        inner = "\n".join(f"        {argument}," for argument in arguments)
    return f"{head}(\n{inner}\n    ) -> {result}:"


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
