"""What `steptp new` writes: a strategy with its case file, and a source family, which work as they stand."""

import re
from importlib.resources import files


def strategy_class(name: str) -> str:
    """What the class of a strategy is called: `LoopSkewing` for `loop_skewing`, `BitExactStrategy` for `bit_exact`.

    The second is what is done where the module has another use for the name.
    """
    words = "".join(word.capitalize() for word in name.split("_"))
    used = re.findall(r"\w+", _text("loop_reversal.py").replace("LoopReversal", ""))
    return f"{words}Strategy" if words in used else words


def strategy_module(name: str, level: str) -> str:
    """The text of a strategy's module."""
    text = _text("loop_reversal.py").replace("loop_reversal", name).replace("LoopReversal", strategy_class(name))
    return text.replace('ClassVar[Level] = "operator"', f'ClassVar[Level] = "{level}"')


def strategy_cases() -> str:
    """The text of its case file."""
    return _text("loop_reversal.txt")


def family_module(name: str) -> str:
    """The text of a family's module."""
    return _text("centred_rows.py").replace("centred_rows", name)


def _text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
