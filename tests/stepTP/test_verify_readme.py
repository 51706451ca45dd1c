"""What the README of verification says is what the code does."""

from pathlib import Path

from stepTP.verify.formats import FORMATS
from stepTP.verify.inputs import KINDS
from stepTP.verify.prepare import _FLOOR, _NARROWER, INEXACT
from stepTP.verify.task import _MORE_DRAWS
from stepTP.verify.tolerance import CALL_ROUNDINGS, OPERATION_ROUNDINGS, RESCALED_TERM_ROUNDINGS

README = (Path(__file__).parents[2] / "stepTP" / "verify" / "README.md").read_text(encoding="utf-8")


def formats() -> str:
    rows = [
        "| type | u | smallest normal | a relative error that half of the elements must notice |",
        "|---|---|---|---|",
    ]
    for name, format in FORMATS.items():
        exponent = len(f"{int(1 / format.smallest):b}") - 1
        rows.append(f"| {name} | 2^-{format.bits} | 2^-{exponent} | {INEXACT[name]:.0e} |")
    return "\n".join(rows)


def test_the_table_of_types() -> None:
    assert f"<!-- formats -->\n{formats()}\n<!-- /formats -->" in README


def test_the_constants_of_the_formula() -> None:
    assert (CALL_ROUNDINGS, OPERATION_ROUNDINGS, RESCALED_TERM_ROUNDINGS) == (8.0, 2.0, 9.0)
    assert "(8 u)" in README and "(n-1) 9 u M" in README and "sqrt 2 u" in README
    assert 16 * FORMATS["f64"].roundoff == _FLOOR and "16 u64 M" in README
    assert _NARROWER == 2.0**-26 and "2^-26 E" in README


def test_the_draws() -> None:
    draws = README[README.index("## Draws") : README.index("## Power")]
    assert [kind for kind in KINDS if f"`{kind}`" not in draws] == []
    assert max(_MORE_DRAWS) == (2, 30) and "two more draws of each kind and thirty more of `peaks`" in README.replace(
        "\n", " "
    )
