"""The prompt of a state: what a model is asked, in training, in evaluation and in search alike."""

import json
from typing import Any, Literal

from stepTP.answer import FORM

# How a program may be spelled in a prompt. Paths and names of arguments are LEIR's whatever the spelling is.
Spelling = Literal["leir", "tir", "cuda"]

_PROGRAM: dict[Spelling, str] = {
    "leir": (
        "A program is LEIR text: loops and equations. `L^{4,8}_{i,j}[...]` is two nested serial loops, i over 0..3 and "
        "j over 0..7; P, V, U and B loops are parallel, vectorised, unrolled and bound to a GPU axis."
    ),
    "tir": "A program is a function of TVM's TIR, as TVMScript of plain loops over buffers.",
    "cuda": "A program is the CUDA source of its kernels.",
}


def role(spelling: Spelling = "leir") -> str:
    """What the model is, what a program is, and what a step is."""
    return (
        f"You optimise tensor programs one step at a time. {_PROGRAM[spelling]} A step is one strategy with its "
        "arguments; a path holds child numbers from the program's body down, each loop a level. It must be legal where "
        "it is applied, and the program after it must compute the same."
    )


def prompt(state: str, form: str = FORM, spelling: Spelling = "leir") -> list[dict[str, str]]:
    """The messages that ask for one step at a state, which is a program's text; `form` says how to answer."""
    return [
        {"role": "system", "content": f"{role(spelling)} {form}"},
        {"role": "user", "content": state.rstrip("\n")},
    ]


def catalog_text() -> str:
    """The strategies with their arguments and what they do, one a line: for models that have not learnt them."""
    from strategies.catalog import strategies

    return "\n".join(
        f"{kind.name}({', '.join(_argument(*field) for field in kind.model_json_schema()['properties'].items())}): "
        f"{kind.summary()}"
        for kind in strategies()
    )


def _argument(name: str, schema: dict[str, Any]) -> str:
    """An argument's name and what values it takes, from its JSON schema."""
    parts = schema.get("anyOf", [schema])
    options = [o for part in parts for o in part.get("enum", [part["const"]] if "const" in part else [])]
    return f"{name}: {' | '.join(map(json.dumps, options)) if options else schema.get('type', 'value')}"
