"""Products as bases with whole powers: which factors are one base, and what is left without some of them."""

from collections.abc import Iterable

from leir.analysis.algebra import whole
from leir.syntax import Binary, Expr, Real
from strategies.arithmetic import Setting


def power_of(factor: Expr) -> tuple[Expr, int]:
    """A factor as a base and a whole power."""
    if isinstance(factor, Binary) and factor.op == "**":
        power = whole(factor.right)
        if power is not None and power >= 2:
            return factor.left, power
    return factor, 1


def power_in(factors: Iterable[Expr], base: Expr, setting: Setting) -> int:
    """How often a base is a factor, powers counted."""
    return sum(power for own, power in map(power_of, factors) if setting.same(own, base))


def without(factors: Iterable[Expr], base: Expr, count: int, setting: Setting) -> tuple[Expr, ...]:
    """The factors less `count` times a base."""
    result: list[Expr] = []
    for factor in factors:
        own, power = power_of(factor)
        if count == 0 or not setting.same(own, base):
            result.append(factor)
            continue
        taken = min(count, power)
        count -= taken
        if power - taken == 1:
            result.append(own)
        elif power > taken:
            result.append(Binary("**", own, Real(float(power - taken))))
    return tuple(result)


def bases(factors: Iterable[Expr], setting: Setting) -> list[Expr]:
    """The different bases among factors, in their order."""
    found: list[Expr] = []
    for factor in factors:
        base, _ = power_of(factor)
        if not any(setting.same(base, other) for other in found):
            found.append(base)
    return found
