"""Operators of random programs that are about conditions: masks, flags, guards and guards in guards."""

from tests.programs.builder import Builder


def masked(build: Builder) -> None:
    shape = (build.size(), build.size())
    source = build.operand(shape)
    mask = build.result(shape, "bool")
    i, j = build.axes(shape, (True, True))
    x = build.leaf(source, [i.index, j.index])
    claim = build.rng.choice((f"{x}>0.0", f"{j.index}<={i.index}", f"{x}<0.5&&{i.index}!=1", f"!({x}>={i.index}*0.1)"))
    build.add(build.nest([i, j], f"{build.leaf(mask, [i.index, j.index])}={claim};"))
    i, j = build.axes(shape, (True, True))
    where = [i.index, j.index]
    x, m = build.leaf(source, where), build.leaf(mask, where)
    target = build.result(shape)
    value = build.rng.choice((f"if_then_else({m},{x},-1e4)", f"{x}*{m}", f"{m}+{x}", f"if_then_else(!{m},0,{x})"))
    build.add(build.nest([i, j], f"{build.leaf(target, where)}={value};", vector=1))


def flagged(build: Builder) -> None:
    """A bool input chooses, or counts."""
    shape = build.shape(1, 2)
    flags, source = build.input(shape, "bool"), build.operand(shape)
    axes = build.axes(shape, [True] * len(shape))
    where = [axis.index for axis in axes]
    f, x = build.leaf(flags, where), build.leaf(source, where)
    target = build.result(shape)
    value = build.rng.choice(
        (f"if_then_else({f},{x},{x}*0.5)", f"if_then_else({f}&&{x}>0.0,1,{x})", f"{f}*{x}", f"({f}+{f})*0.5+{x}",
         f"if_then_else(!{f}||{x}<1.0,{x},1e-05)", f"cast(i32,{f})+{x}", f"if_then_else({f}==({x}>0.0),{x},2e2)")
    )  # fmt: skip
    build.add(build.nest(axes, f"{build.leaf(target, where)}={value};", vector=len(axes) - 1))


def two_sided(build: Builder) -> None:
    """A guard and its complement write one tensor."""
    shape = (build.size(), build.size())
    source = build.operand(shape)
    target = build.result(shape)
    cut = build.rng.randint(0, shape[1])
    for sign, value in (("<", "{x}*2.0"), (">=", "{x}-1.0")):
        i, j = build.axes(shape, (True, True))
        where = [i.index, j.index]
        x = build.leaf(source, where)
        build.add(build.nest([i, j], f"{build.leaf(target, where)}={value.format(x=x)};", f"{j.index}{sign}{cut}"))


def nested_guards(build: Builder) -> None:
    """A guard in a guard, a guard over two statements, and what they leave out written before."""
    rows, columns = build.size(), build.size()
    source = build.operand((rows, columns))
    target, count = build.result((rows, columns)), build.result((rows,))
    i, j = build.variable(), build.variable()
    left, x, n = build.leaf(target, [i, j]), build.leaf(source, [i, j]), build.leaf(count, [i])
    start = f"{n}=0.0;L^{{{columns}}}_{{{j}}}[{left}={x};"
    inner = f"({j}<={i})[{left}={left}*2.0;{n}+={left};]"
    outer = f"({i}%2==0)[{inner}({j}>1)[{n} max={x};]]" if build.chance(0.5) else f"({i}>0)[({j}!=2)[{inner}]]"
    kind = "P" if build.chance(0.3) else "L"
    build.add(f"{kind}^{{{rows}}}_{{{i}}}[{start}{outer}]]")
