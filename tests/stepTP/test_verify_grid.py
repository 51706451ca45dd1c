"""Products of small integers that the error analysis takes for exact, in distributed form too.

`tolerance.multiply` asks whether the product, and what it is made of when one of its factors is distributed, stays
small. A form in which all factors are distributed has larger terms, (x-z)**3 those of (|x|+|z|)**3, and could round
where they need more digits than the type has. Here they are counted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from leir.parser import parse
from leir.syntax import Program
from stepTP.intake import translate
from stepTP.sources import draws, families
from stepTP.verify import tolerance
from stepTP.verify.analysis import analyse
from stepTP.verify.elements import Elements
from stepTP.verify.formats import Format
from stepTP.verify.inputs import KINDS, Draw, draw_inputs, free_profile
from stepTP.verify.tolerance import Running

Array = NDArray[Any]
NOTHING = 2.0**60  # divides 0


@dataclass
class Count:
    """Products on the grid, and those of them whose distributed form needs more digits than the type has.

    `made`: of values that are sums and products, by identity: the value, the sum of the sizes of all terms once it is
    multiplied out, and a power of two that divides them. `stored`: the same of the elements of temporaries.
    """

    products: int = 0
    long: int = 0
    made: dict[int, tuple[Any, Array, Array]] = field(default_factory=dict[int, tuple[Any, Array, Array]])

    stored: dict[int, tuple[Any, Array, Array]] = field(default_factory=dict[int, tuple[Any, Array, Array]])

    def of(self, a: Running, format: Format) -> tuple[Array, Array]:
        found = self.made.get(id(a.value))
        if found is not None:
            return found[1:]
        whole = np.rint(np.minimum(np.abs(a.value) / format.grid, 2.0**52)).astype(np.int64)
        return np.asarray(a.magnitude), np.where(whole == 0, NOTHING, (whole & -whole) * format.grid)

    def note(self, result: Running, size: Array, unit: Array) -> None:
        self.made[id(result.value)] = (result.value, size, np.minimum(unit, NOTHING))

    def product(self, a: Running, b: Running, result: Running, format: Format) -> None:
        (size_a, unit_a), (size_b, unit_b) = self.of(a, format), self.of(b, format)
        size, unit = size_a * size_b, np.minimum(unit_a * unit_b, NOTHING)
        self.note(result, size, unit)
        gridded = np.broadcast_to(result.gridded, size.shape)
        self.products += int(gridded.sum())
        self.long += int((gridded & (size > 2.0**format.bits * unit)).sum())


@contextmanager
def counted() -> Iterator[Count]:
    """Counts what is multiplied."""
    count, multiply, add, negate = Count(), tolerance.multiply, tolerance.add, tolerance.negate
    store, read = Elements.store, Elements.read

    def counting_multiply(a: Running, b: Running, format: Format | None) -> Running:
        result = multiply(a, b, format)
        if format is not None:
            count.product(a, b, result, format)
        return result

    def counting_add(a: Running, b: Running, format: Format | None, sign: float = 1.0) -> Running:
        result = add(a, b, format, sign)
        if format is not None:
            (size_a, unit_a), (size_b, unit_b) = count.of(a, format), count.of(b, format)
            count.note(result, size_a + size_b, np.minimum(unit_a, unit_b))
        return result

    def counting_negate(a: Running) -> Running:
        result = negate(a)
        if id(a.value) in count.made:
            count.note(result, *count.made[id(a.value)][1:])
        return result

    def remembering_store(
        elements: Elements, written: Array, a: Running, mask: Array | None, grid: tuple[int, ...]
    ) -> None:
        store(elements, written, a, mask, grid)
        if elements.format is not None:
            _, *parts = count.stored.setdefault(
                id(elements), (elements, np.zeros(elements.size), np.full(elements.size, NOTHING))
            )
            chosen = np.ones(grid, bool) if mask is None else np.broadcast_to(mask, grid)
            where = np.broadcast_to(written, grid)[chosen]
            for array, part in zip(parts, count.of(a, elements.format), strict=True):
                array[where] = np.broadcast_to(part, grid)[chosen]

    def remembering_read(elements: Elements, flat: Array) -> Running:
        result = read(elements, flat)
        if id(elements) in count.stored:
            _, size, unit = count.stored[id(elements)]
            count.note(result, size[flat], unit[flat])
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Elements, "store", remembering_store)
        patch.setattr(Elements, "read", remembering_read)
        for name, function in (("multiply", counting_multiply), ("add", counting_add), ("negate", counting_negate)):
            patch.setattr(tolerance, name, function)
        yield count


def run(program: Program, draw: Draw, source: str) -> None:
    inputs = draw_inputs([free_profile(declaration) for declaration in program.inputs], draw, 0, source)
    analyse(
        program, {name: array.astype(float) if array.dtype.kind == "f" else array for name, array in inputs.items()}
    )


@pytest.mark.parametrize(
    "nests",
    [
        "L^8_i[C_i=(A_i-D_i)*(A_i-D_i)*(A_i-D_i)*64.0;]",
        "L^8_i[E_i=A_i-D_i;]L^8_i[F_i=E_i*E_i;]L^8_i[G_i=F_i*E_i;]L^8_i[C_i=G_i*64.0;]",
    ],
)
def test_a_product_whose_terms_are_long_is_counted(nests: str) -> None:
    cube = parse("in A_8,D_8;out C_8;" + nests)
    with counted() as count:
        run(cube, Draw("integers", 0), "cube")
        assert count.products and not count.long
        analyse(cube, {"A": np.full(8, 3000.0), "D": np.full(8, 2998.0)})
    assert count.long


@pytest.mark.slow
def test_no_family_has_products_whose_terms_are_long() -> None:
    with counted() as count:
        for family in families():
            (source,) = draws(family.name, 7, 1)
            told = translate({"code": source.torch_code, "file": source.id, "check": False})
            assert told["leir"], told["message"]
            for draw in (Draw(kind, number) for kind in KINDS for number in range(2)):
                run(parse(told["leir"]), draw, source.id)
                count.made.clear()
                count.stored.clear()
    assert count.products > 100_000 and count.long == 0
