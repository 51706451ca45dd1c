"""Operators of random programs that need no blocks: each adds a nest or several, and the tensors that they define."""

import math

from tests.programs.builder import FLOATS, Axis, Builder


def elementwise(build: Builder) -> None:
    shape = build.shape(0 if build.chance(0.05) else 1)
    axes = build.axes(shape, [True] * len(shape))
    indices = [axis.index for axis in axes]
    leaves = [build.leaf(build.operand(shape), indices)]
    if build.chance(0.5):
        leaves.append(build.leaf(build.operand(shape), indices))
    if build.chance(0.4) and shape:
        kept = sorted(build.rng.sample(range(len(shape)), build.rng.randint(1, len(shape))))
        broadcast = build.operand(tuple(shape[n] for n in kept))
        leaves.append(build.leaf(broadcast, [indices[n] for n in kept]))
    if build.chance(0.1) and indices:
        leaves.append(f"({build.rng.choice(indices)}*0.125)")
    value = build.expression(leaves)
    target = build.result(shape)
    build.add(build.nest(axes, f"{build.leaf(target, indices)}={value};", vector=len(axes) - 1))


def reduction(build: Builder) -> None:
    source = build.any_operand(1, 3)
    shape = source.shape
    reduced = sorted(build.rng.sample(range(len(shape)), build.rng.randint(1, len(shape))))
    free = [n not in reduced for n in range(len(shape))]
    axes = build.axes(shape, free)
    indices = [axis.index for axis in axes]
    op = build.pick({"+=": 6, "max=": 3, "min=": 2, "*=": 1})
    value = build.expression([build.leaf(source, indices)], 1)
    if op == "*=":
        value = f"(1.0+0.125*tanh({value}))"
    kept = [n for n in range(len(shape)) if free[n]]
    target = build.result(tuple(shape[n] for n in kept))
    guard = ""
    if build.chance(0.25):
        n = build.rng.choice(reduced)
        limit = build.rng.randint(1, shape[n])
        guard = build.rng.choice((f"{indices[n]}<{limit}", f"{indices[n]}<=0||{indices[n]}%2==1", f"{indices[n]}*2<=8"))
        if kept and build.chance(0.4):
            guard = f"{indices[n]}<={indices[build.rng.choice(kept)]}"
    order = list(range(len(shape)))
    if build.chance(0.4):
        build.rng.shuffle(order)
    left = build.leaf(target, [indices[n] for n in kept])
    ordered = [axes[n] for n in order]
    build.add(build.nest(ordered, f"{left} {op}{value};", guard))
    if build.chance(0.15) and op == "+=":
        other = build.input(target.shape)
        more = build.axes(target.shape, [True] * len(kept))
        where = [axis.index for axis in more]
        build.add(build.nest(more, f"{build.leaf(target, where)}+={build.leaf(other, where)};"))


def softmax(build: Builder) -> None:
    rows, columns = build.size(), build.size()
    source = build.operand((rows, columns))
    largest, total = build.result((rows,)), build.result((rows,))
    for step in range(3):
        i, j = build.axes((rows, columns), (True, step == 2))
        x = build.leaf(source, [i.index, j.index])
        m, s = build.leaf(largest, [i.index]), build.leaf(total, [i.index])
        if step == 0:
            build.add(build.nest([i, j], f"{m} max={x};"))
        elif step == 1:
            build.add(build.nest([i, j], f"{s}+=exp({x}-{m});"))
        else:
            target = build.result((rows, columns))
            equation = f"{build.leaf(target, [i.index, j.index])}=exp({x}-{m})/{s};"
            build.add(build.nest([i, j], equation, vector=1))


def product(build: Builder) -> None:
    rows, columns, inner = build.size(), build.size(), build.size()
    a, w = build.operand((rows, inner)), build.operand((inner, columns))
    axes = build.axes((rows, columns, inner), (True, True, False))
    i, j, k = (axis.index for axis in axes)
    target = build.result((rows, columns))
    if build.chance(0.4) and not any(loop[0] == "B" for axis in axes for loop in axis.loops):
        build.rng.shuffle(axes)
    left, right = build.leaf(a, [i, k]), build.leaf(w, [k, j])
    build.add(build.nest(axes, f"{build.leaf(target, [i, j])}+={left}*{right};"))
    if build.chance(0.5):
        bias = build.operand((columns,))
        i2, j2 = build.axes((rows, columns), (True, True))
        where = [i2.index, j2.index]
        total = build.expression([f"({build.leaf(target, where)}+{build.leaf(bias, [j2.index])})"], 1)
        final = build.result((rows, columns))
        build.add(build.nest([i2, j2], f"{build.leaf(final, where)}={total};", vector=1))


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


def scan(build: Builder) -> None:
    rows, columns = build.size(), build.rng.randint(2, 8)
    source = build.operand((rows, columns))
    (i,) = build.axes((rows,), (True,), kernel=False)
    target = build.result((rows, columns))
    start = f"{build.leaf(target, [i.index, '0'])}={build.leaf(source, [i.index, '0'])};"
    build.add(build.nest([i], start))
    (i,) = build.axes((rows,), (True,), kernel=False)
    j = build.variable()
    last = build.leaf(target, [i.index, f"{j}-1"])
    new = build.leaf(source, [i.index, j])
    value = build.rng.choice((f"{last}*0.5+{new}", f"max({last},{new})", f"if_then_else({new}>0.0,{last},{new})"))
    equation = f"{build.leaf(target, [i.index, j])}={value};"
    axes = [i, Axis((("L", j, columns - 1, 1),), j)]
    if build.chance(0.5) and not i.guard and len(i.loops) == 1:
        axes.reverse()
    build.add(build.nest(axes, equation))


def concatenation(build: Builder) -> None:
    first, second, columns = build.size(), build.size(), build.size()
    target = build.result((first + second, columns))
    for rows, offset in ((first, 0), (second, first)):
        source = build.operand((rows, columns))
        i, j = build.axes((rows, columns), (True, True))
        left = build.leaf(target, [f"{i.index}+{offset}" if offset else i.index, j.index])
        value = build.expression([build.leaf(source, [i.index, j.index])], 1)
        build.add(build.nest([i, j], f"{left}={value};", vector=1))


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


def fused(build: Builder) -> None:
    rows, columns = build.size(), build.size()
    source = build.operand((rows, columns))
    i, j, k = build.variable(), build.variable(), build.variable()
    kind = "L" if build.chance(0.7) else "P"
    if build.chance(0.5):
        middle, target = build.result((rows, columns)), build.result((rows, columns))
        x = build.leaf(source, [i, j])
        m = build.leaf(middle, [i, j])
        first = f"{m}={build.expression([x], 1)};"
        second = f"{build.leaf(target, [i, j])}={build.expression([m, x], 1)};"
        build.add(f"{kind}^{{{rows}}}_{{{i}}}L^{{{columns}}}_{{{j}}}[{first}{second}]")
        return
    total, target = build.result((rows,)), build.result((rows, columns))
    t = build.leaf(total, [i])
    first = f"L^{{{columns}}}_{{{j}}}[{t} max={build.leaf(source, [i, j])};]"
    value = f"{build.leaf(source, [i, k])}-{t}"
    second = f"L^{{{columns}}}_{{{k}}}[{build.leaf(target, [i, k])}=exp({value});]"
    build.add(f"{kind}^{{{rows}}}_{{{i}}}[{first}{second}]")


def in_place(build: Builder) -> None:
    shape = build.shape(1, 2)
    source = build.operand(shape)
    target = build.result(shape)
    for step in range(2):
        axes = build.axes(shape, [True] * len(shape))
        where = [axis.index for axis in axes]
        own = build.leaf(target, where)
        if step == 0:
            build.add(build.nest(axes, f"{own}={build.leaf(source, where)};"))
        else:
            equation = build.rng.choice((f"{own}={own}*0.5-1.0;", f"{own} max=0.0;", f"{own}={own}*{own};",
                                        f"{own}+={build.leaf(source, where)};"))  # fmt: skip
            guard = f"{where[0]}>0" if build.chance(0.4) else ""
            build.add(build.nest(axes, equation, guard))


def small_dtype(build: Builder) -> None:
    """A temporary of another float type, and its use."""
    shape = build.shape(1, 2)
    source = build.operand(shape)
    dtype = build.rng.choice([d for d in FLOATS if d != build.dtype])
    middle = build.result(shape, dtype)
    axes = build.axes(shape, [True] * len(shape))
    where = [axis.index for axis in axes]
    build.add(build.nest(axes, f"{build.leaf(middle, where)}={build.expression([build.leaf(source, where)], 1)};"))
    axes = build.axes(shape, [True] * len(shape))
    where = [axis.index for axis in axes]
    target = build.result(shape)
    value = build.expression([build.leaf(middle, where), build.leaf(source, where)], 1)
    build.add(build.nest(axes, f"{build.leaf(target, where)}={value};"))


def integers(build: Builder) -> None:
    """Integer arithmetic with // and %, of loop variables and of inputs, then back to floats."""
    shape = build.shape(1, 2)
    dtype = build.rng.choice(("i32", "i64"))
    source = build.input(shape, build.rng.choice(("i32", "i64", "i8")))
    counts = build.result(shape, dtype)
    axes = build.axes(shape, [True] * len(shape))
    where = [axis.index for axis in axes]
    x, i = build.leaf(source, where), where[0]
    value = build.rng.choice(
        (f"cast(i32,{x})*3+{i}", f"{x}//3+{x}%3", f"({i}+7)//max({x},1)", f"{i}%max({x},2)-1", f"max({x},{i})",
         f"if_then_else({x}>{i},{x},-{i})", f"abs({x})+({x}==2)", f"{i}*{i}-{x}", f"{x}/2+1")
    )  # fmt: skip
    build.add(build.nest(axes, f"{build.leaf(counts, where)}={value};"))
    axes = build.axes(shape, [True] * len(shape))
    where = [axis.index for axis in axes]
    target = build.result(shape)
    n = build.leaf(counts, where)
    value = build.rng.choice((f"{n}*0.5", f"{n}/4", f"cast(f32,{n})", f"exp(-abs({n}*0.1))", f"sqrt(abs({n}))", n))
    build.add(build.nest(axes, f"{build.leaf(target, where)}={value};"))


def time_steps(build: Builder) -> None:
    """A host loop around nests: a value that is refined step by step."""
    size, steps = build.rng.randint(3, 8), build.rng.randint(2, 4)
    source = build.operand((size,))
    state, new = build.result((size,)), build.result((size,))
    (i,) = build.axes((size,), (True,), kernel=False)
    build.add(build.nest([i], f"{build.leaf(state, [i.index])}={build.leaf(source, [i.index])};"))
    t, j, k = build.variable(), build.variable(), build.variable()
    left, right = f"{state.name}_{{max({j}-1,0)}}", f"{state.name}_{{min({j}+1,{size - 1})}}"
    first = f"{build.leaf(new, [j])}=({left}+{right})*0.5;"
    second = f"{build.leaf(state, [k])}={build.leaf(new, [k])};"
    kind = build.rng.choice(("L", "L", "P", "B"))
    a, b = (f"B^{{{size}}}_{{bx}}", f"B^{{{size}}}_{{bx}}") if kind == "B" else \
        (f"{kind}^{{{size}}}_{{{j}}}", f"{kind}^{{{size}}}_{{{k}}}")  # fmt: skip
    if kind == "B":
        first, second = first.replace(j, "bx"), second.replace(k, "bx")
    build.add(f"L^{{{steps}}}_{{{t}}}[{a}[{first}]{b}[{second}]]")


def scalar(build: Builder) -> None:
    """A reduction to rank 0, and a use of it."""
    source = build.any_operand(1, 2)
    axes = build.axes(source.shape, [False] * len(source.shape))
    where = [axis.index for axis in axes]
    total = build.result(())
    build.add(build.nest(axes, f"{total.name}+={build.leaf(source, where)};"))
    axes = build.axes(source.shape, [True] * len(source.shape))
    where = [axis.index for axis in axes]
    target = build.result(source.shape)
    count = math.prod(source.shape)
    value = f"{build.leaf(source, where)}-{total.name}/{count}"
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


def reversal(build: Builder) -> None:
    """Reversed and transposed reads."""
    rows, columns = build.size(), build.size()
    source = build.operand((rows, columns))
    axes = build.axes((columns, rows), (True, True))
    j, i = (axis.index for axis in axes)
    target = build.result((columns, rows))
    read = build.leaf(source, [f"{rows - 1}-{i}", j if build.chance(0.5) else f"-{j}+{columns - 1}"])
    build.add(build.nest(axes, f"{build.leaf(target, [j, i])}={build.expression([read], 1)};", vector=1))


def attention(build: Builder) -> None:
    """Scores, an optional causal mask, softmax and the product with the values: five or six nests."""
    queries, keys, width = build.rng.randint(1, 6), build.rng.randint(1, 6), build.rng.randint(1, 4)
    q, k, v = build.operand((queries, width)), build.operand((keys, width)), build.operand((keys, width))
    score, shape = build.result((queries, keys)), (queries, keys)
    i, j, d = build.axes((*shape, width), (True, True, False))
    term = f"{build.leaf(q, [i.index, d.index])}*{build.leaf(k, [j.index, d.index])}"
    build.add(build.nest([i, j, d], f"{build.leaf(score, [i.index, j.index])}+={term};"))
    if build.chance(0.6):
        masked = build.result(shape)
        i, j = build.axes(shape, (True, True))
        where = [i.index, j.index]
        value = f"if_then_else({j.index}<={i.index},{build.leaf(score, where)}*0.5,-1e4)"
        build.add(build.nest([i, j], f"{build.leaf(masked, where)}={value};", vector=1))
        score = masked
    largest, total, target = build.result((queries,)), build.result((queries,)), build.result((queries, width))
    i, j = build.axes(shape, (True, False))
    s, m = build.leaf(score, [i.index, j.index]), build.leaf(largest, [i.index])
    build.add(build.nest([i, j], f"{m} max={s};"))
    i, j = build.axes(shape, (True, False))
    s, m, t = build.leaf(score, [i.index, j.index]), build.leaf(largest, [i.index]), build.leaf(total, [i.index])
    build.add(build.nest([i, j], f"{t}+=exp({s}-{m});"))
    i, d, j = build.axes((queries, width, keys), (True, True, False))
    s, m, t = build.leaf(score, [i.index, j.index]), build.leaf(largest, [i.index]), build.leaf(total, [i.index])
    value = f"exp({s}-{m})/{t}*{build.leaf(v, [j.index, d.index])}"
    build.add(build.nest([i, d, j], f"{build.leaf(target, [i.index, d.index])}+={value};"))
