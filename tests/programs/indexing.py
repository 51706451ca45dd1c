"""Operators of random programs whose subscripts are more than a loop variable: windows, reshapes, gathers."""

from tests.programs.builder import Builder


def window(build: Builder) -> None:
    channels, width, taps = build.rng.randint(1, 4), build.rng.randint(3, 12), build.rng.randint(1, 3)
    stride, padding = build.rng.randint(1, 2), build.rng.randint(0, 1)
    outer = (width + 2 * padding - taps) // stride + 1
    a = build.operand((channels, width))
    c, o, r = build.axes((channels, outer, taps), (True, True, False))
    where = f"{o.index}*{stride}+{r.index}" + (f"-{padding}" if padding else "")
    read = build.leaf(a, [c.index, where])
    pool = build.chance(0.4)
    w = build.operand((channels, taps))
    target = build.result((channels, outer))
    left = build.leaf(target, [c.index, o.index])
    if pool and padding:
        value = f"if_then_else({where}>=0&&{where}<{width},{read},-inf)" if taps > 1 or width > 1 else "0.0"
        build.add(build.nest([c, o, r], f"{left} max=max({value},-100.0);"))
        return
    value = read if not padding else f"if_then_else({where}>=0&&{where}<{width},{read},0.0)"
    if pool:
        build.add(build.nest([c, o, r], f"{left} {build.rng.choice(('max=', 'min=', '+='))}{value};"))
        return
    build.add(build.nest([c, o, r], f"{left}+={value}*{build.leaf(w, [c.index, r.index])};"))


def guarded_window(build: Builder) -> None:
    """A padded window under a guard rather than a select."""
    width, taps = build.rng.randint(3, 10), build.rng.randint(2, 3)
    a, w = build.operand((width,)), build.operand((taps,))
    o, r = build.axes((width + 3 - taps, taps), (True, False))
    where = f"{o.index}+{r.index}-1"
    target = build.result((width + 3 - taps,))
    left = build.leaf(target, [o.index])
    op = build.pick({"+=": 3, "max=": 1, "min=": 1, "*=": 1})
    value = f"{build.leaf(a, [where])}*{build.leaf(w, [r.index])}"
    value = f"(1.0+0.1*tanh({value}))" if op == "*=" else value
    build.add(build.nest([o, r], f"{left} {op}{value};", f"{where}>=0&&{where}<{width}"))


def reshape(build: Builder) -> None:
    a, b = build.rng.randint(1, 6), build.rng.randint(1, 6)
    factors = [n for n in range(1, a * b + 1) if a * b % n == 0]
    rows = build.rng.choice(factors)
    source = build.operand((rows, a * b // rows))
    i, j = build.axes((a, b), (True, True))
    flat = f"({i.index}*{b}+{j.index})"
    columns = source.shape[1]
    read = build.leaf(source, [f"{flat}//{columns}", f"{flat}%{columns}"])
    target = build.result((a, b))
    equation = f"{build.leaf(target, [i.index, j.index])}={build.expression([read], 1)};"
    build.add(build.nest([i, j], equation, vector=1))
    if build.chance(0.3):
        (f,) = build.axes((a * b,), (True,))
        back = build.result((a, b))
        where = [f"{f.index}//{b}", f"{f.index}%{b}"]
        build.add(build.nest([f], f"{build.leaf(back, where)}={build.leaf(target, where)}*2.0;"))


def gather(build: Builder) -> None:
    source = build.any_operand(1, 2)
    build.declared.append(source.name)  # an input index's precondition is a declared size
    count, size = build.size(), source.shape[0]
    form = build.rng.choice(("input", "input", "clamped", "modulo", "temporary", "guarded"))
    dtype = build.rng.choice(("i32", "i64"))
    if form == "temporary":
        table = build.result((count,), dtype, size)
        (t,) = build.axes((count,), (True,))
        step, offset = build.rng.randint(0, 5), build.rng.randint(0, 5)
        build.add(build.nest([t], f"{build.leaf(table, [t.index])}=({t.index}*{step}+{offset})%{size};"))
    else:
        table = build.input((count,), dtype, size if form == "input" else 0)
    axes = build.axes((count, *source.shape[1:]), [True] * len(source.shape))
    rest = [axis.index for axis in axes[1:]]
    index = build.leaf(table, [axes[0].index])
    guard_start = ""
    match form:
        case "clamped":
            index = build.rng.choice((f"max(min({index},{size - 1}),0)", f"min(max({index},0),{size - 1})"))
        case "modulo":
            index = f"{index}%{size}"
        case "guarded":
            guard_start = f"{index}>=0&&{index}<{size}"
        case _:
            pass
    read = build.leaf(source, [index, *rest])
    if guard_start:
        read = f"if_then_else({guard_start},{read},{build.rng.choice(('0.0', '1', '-1.5'))})"
    target = build.result((count, *source.shape[1:]))
    indices = [axis.index for axis in axes]
    build.add(build.nest(axes, f"{build.leaf(target, indices)}={build.expression([read], 1)};", vector=len(axes) - 1))
    if form == "modulo" and build.chance(0.3) and len(source.shape) == 1:  # a scatter with an accumulation
        (z,) = build.axes((size,), (True,))
        into = build.result((size,))
        build.add(build.nest([z], f"{build.leaf(into, [z.index])}=0.0;"))
        (s,) = build.axes((count,), (False,))
        at = f"{build.leaf(table, [s.index])}%{size}"
        build.add(build.nest([s], f"{build.leaf(into, [at])}+={build.leaf(target, [s.index])};"))


def concatenation(build: Builder) -> None:
    first, second, columns = build.size(), build.size(), build.size()
    target = build.result((first + second, columns))
    for rows, offset in ((first, 0), (second, first)):
        source = build.operand((rows, columns))
        i, j = build.axes((rows, columns), (True, True))
        left = build.leaf(target, [f"{i.index}+{offset}" if offset else i.index, j.index])
        value = build.expression([build.leaf(source, [i.index, j.index])], 1)
        build.add(build.nest([i, j], f"{left}={value};", vector=1))


def reversal(build: Builder) -> None:
    """Reversed and transposed reads, some through a flat index that counts down."""
    rows, columns = build.size(), build.size()
    source = build.operand((rows, columns))
    axes = build.axes((columns, rows), (True, True))
    j, i = (axis.index for axis in axes)
    target = build.result((columns, rows))
    if build.chance(0.5):
        flat = f"({rows * columns - 1}-{j}*{rows}-{i})"
        read = build.leaf(source, [f"{flat}//{columns}", f"{flat}%{columns}"])
    else:
        read = build.leaf(source, [f"{rows - 1}-{i}", j if build.chance(0.5) else f"-{j}+{columns - 1}"])
    build.add(build.nest(axes, f"{build.leaf(target, [j, i])}={build.expression([read], 1)};", vector=1))
