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
