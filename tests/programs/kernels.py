"""Operators of random programs as GPU code has them: shared tiles, phases, registers."""

from tests.programs.builder import Builder


def staged(build: Builder) -> None:
    """A shared tile that one phase fills and another reads in another order."""
    blocks, threads = build.rng.randint(1, 5), build.rng.choice((1, 2, 4, 6, 8))
    source = build.operand((blocks, threads))
    target = build.result((blocks, threads))
    tile = next(build.names)
    b, t, u = build.variable("bx"), build.variable("tx"), build.variable("tx")
    pad = threads + build.rng.randint(0, 1)
    first = f"B^{{{threads}}}_{{{t}}}[{tile}_{{{t}}}={build.leaf(source, [b, t])};]"
    value = build.rng.choice((f"{tile}_{{{threads - 1}-{u}}}", f"{tile}_{{{u}}}+{tile}_{{({u}+1)%{threads}}}"))
    second = f"B^{{{threads}}}_{{{u}}}[{build.leaf(target, [b, u])}={value}*2.0;]"
    build.add(f"B^{{{blocks}}}_{{{b}}}[{tile}^{{{build.wide()},s}}_{{{pad}}};{first}{second}]")


def thread_sum(build: Builder) -> None:
    """Each thread owns an accumulator in a register."""
    rows, columns, inner = build.size(), build.rng.choice((1, 2, 4, 8)), build.size()
    a, w = build.operand((rows, inner)), build.operand((inner, columns))
    target = build.result((rows, columns))
    r = next(build.names)
    b, t, k = build.variable("bx"), build.variable("tx"), build.variable()
    term = f"{build.leaf(a, [b, k])}*{build.leaf(w, [k, t])}"
    kind = "U" if inner <= 8 and build.chance(0.3) else "L"
    body = f"{r}^{{{build.wide()},l}};{kind}^{{{inner}}}_{{{k}}}[{r}+={term};]{build.leaf(target, [b, t])}={r};"
    build.add(f"B^{{{rows}}}_{{{b}}}B^{{{columns}}}_{{{t}}}[{body}]")


def register_tile(build: Builder) -> None:
    """An `l` tensor of the block, its leading subscripts the threads, that lives across phases."""
    blocks, threads, width = build.rng.randint(1, 4), build.rng.choice((2, 4)), build.rng.randint(1, 4)
    source = build.operand((blocks, threads * width))
    target = build.result((blocks, threads))
    r = next(build.names)
    b, t, u = build.variable("bx"), build.variable("tx"), build.variable("tx")
    k, m = build.variable(), build.variable()
    where = [b, f"{t}*{width}+{k}"]
    first = f"B^{{{threads}}}_{{{t}}}L^{{{width}}}_{{{k}}}[{r}_{{{t},{k}}}={build.leaf(source, where)};]"
    second = (f"B^{{{threads}}}_{{{u}}}L^{{{width}}}_{{{m}}}[{build.leaf(target, [b, u])}"
              f"{build.rng.choice(('+=', ' max='))}{r}_{{{u},{m}}};]")  # fmt: skip
    build.add(f"B^{{{blocks}}}_{{{b}}}[{r}^{{{build.wide()},l}}_{{{threads},{width}}};{first}{second}]")


def tree(build: Builder) -> None:
    """A reduction tree in shared memory: phases of falling extents."""
    blocks, threads = build.rng.randint(1, 4), build.rng.choice((2, 4, 8))
    source = build.operand((blocks, threads))
    target = build.result((blocks,))
    s = next(build.names)
    b, t = build.variable("bx"), build.variable("tx")
    phases = [f"B^{{{threads}}}_{{{t}}}[{s}_{{{t}}}={build.leaf(source, [b, t])};]"]
    half = threads // 2
    op = build.rng.choice(("max({a},{b})", "{a}+{b}"))
    while half:
        v = build.variable("tx")
        value = op.format(a=f"{s}_{{{v}}}", b=f"{s}_{{{v}+{half}}}")
        phases.append(f"B^{{{half}}}_{{{v}}}[{s}_{{{v}}}={value};]")
        half //= 2
    phases.append(f"{build.leaf(target, [b])}={s}_0;")
    build.add(f"B^{{{blocks}}}_{{{b}}}[{s}^{{{build.wide()},s}}_{{{threads}}};{''.join(phases)}]")


def tiled_product(build: Builder) -> None:
    """A blocked product with staged operands and an accumulator in registers."""
    tile = build.rng.choice((2, 3, 4))
    gy, gx, gk = build.rng.randint(1, 2), build.rng.randint(1, 2), build.rng.randint(1, 3)
    a, w = build.operand((gy * tile, gk * tile)), build.operand((gk * tile, gx * tile))
    target = build.result((gy * tile, gx * tile))
    s, t, r = next(build.names), next(build.names), next(build.names)
    wide, pad = build.wide(), tile + build.rng.randint(0, 1)
    k, m = build.variable(), build.variable()
    threads = f"B^{{{tile},{tile}}}_{{ty,tx}}"
    fill = (f"{threads}[{s}_{{ty,tx}}={build.leaf(a, [f'by*{tile}+ty', f'{k}*{tile}+tx'])};"
            f"{t}_{{ty,tx}}={build.leaf(w, [f'{k}*{tile}+ty', f'bx*{tile}+tx'])};]")  # fmt: skip
    use = f"{threads}L^{{{tile}}}_{{{m}}}[{r}_{{ty,tx}}+={s}_{{ty,{m}}}*{t}_{{{m},tx}};]"
    store = f"{threads}[{build.leaf(target, [f'by*{tile}+ty', f'bx*{tile}+tx'])}={r}_{{ty,tx}};]"
    allocs = (f"{s}^{{{wide},s}}_{{{tile},{pad}}};{t}^{{{wide},s}}_{{{tile},{pad}}};"
              f"{r}^{{{wide},l}}_{{{tile},{tile}}};")  # fmt: skip
    build.add(f"B^{{{gy},{gx}}}_{{by,bx}}[{allocs}L^{{{gk}}}_{{{k}}}[{fill}{use}]{store}]")


def private_row(build: Builder) -> None:
    """An `l` tensor inside a nest without B."""
    rows, columns = build.size(), build.size()
    source = build.operand((rows, columns))
    target = build.result((rows, columns))
    r = next(build.names)
    i, j, k = build.variable(), build.variable(), build.variable()
    kind = build.rng.choice(("L", "P"))
    first = f"L^{{{columns}}}_{{{j}}}[{r}_{{{j}}}={build.expression([build.leaf(source, [i, j])], 1)};]"
    second = f"L^{{{columns}}}_{{{k}}}[{build.leaf(target, [i, k])}={r}_{{{columns - 1}-{k}}}+{k};]"
    build.add(f"{kind}^{{{rows}}}_{{{i}}}[{r}^{{{build.wide()},l}}_{{{columns}}};{first}{second}]")


def transposed_stage(build: Builder) -> None:
    """A block with two thread axes, a padded shared tile, and a guarded edge."""
    rows, columns, tile = build.rng.randint(2, 7), build.rng.randint(2, 7), 4
    source = build.operand((rows, columns))
    target = build.result((columns, rows))
    s = next(build.names)
    gy, gx = -(-rows // tile), -(-columns // tile)
    r, c = f"by*{tile}", f"bx*{tile}"
    load = (f"B^{{{tile},{tile}}}_{{ty,tx}}({r}+ty<{rows}&&{c}+tx<{columns})"
            f"[{s}_{{ty,tx}}={build.leaf(source, [f'{r}+ty', f'{c}+tx'])};]")  # fmt: skip
    store = (f"B^{{{tile},{tile}}}_{{ty,tx}}({c}+ty<{columns}&&{r}+tx<{rows})"
             f"[{build.leaf(target, [f'{c}+ty', f'{r}+tx'])}={s}_{{tx,ty}};]")  # fmt: skip
    build.add(f"B^{{{gy},{gx}}}_{{by,bx}}[{s}^{{{build.wide()},s}}_{{{tile},{tile + 1}}};{load}{store}]")


def vector_stores(build: Builder) -> None:
    """Blocks and threads around unrolled and vector loops, through a register array."""
    blocks, threads, width = build.rng.randint(1, 3), build.rng.choice((1, 2, 4)), build.rng.choice((2, 4))
    rounds = build.rng.randint(1, 3)
    source = build.operand((blocks * threads, rounds * width))
    target = build.result((blocks * threads, rounds * width))
    r = next(build.names)
    c, e, d, f = (build.variable() for _ in range(4))
    row, loaded, kept = f"bx*{threads}+tx", f"{c}*{width}+{e}", f"{d}*{width}+{f}"
    load = f"U^{{{rounds}}}_{{{c}}}V^{{{width}}}_{{{e}}}[{r}_{{{loaded}}}={build.leaf(source, [row, loaded])};]"
    value = build.rng.choice((f"{r}_{{{kept}}}*2.0", f"max({r}_{{{kept}}},0.0)"))
    store = f"U^{{{rounds}}}_{{{d}}}V^{{{width}}}_{{{f}}}[{build.leaf(target, [row, kept])}={value};]"
    body = f"{r}^{{{build.wide()},l}}_{{{rounds * width}}};{load}{store}"
    build.add(f"B^{{{blocks}}}_{{bx}}B^{{{threads}}}_{{tx}}[{body}]")
