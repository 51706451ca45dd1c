"""Nests that slide the same window over different operands, and what one nest over operands laid end to end gets wrong.

Each nest holds one equation, or is the part of a larger one that belongs to it, and all are alike but for the tensors,
however their loops, conditions and layouts are written (`leir.analysis.nestforms`, `leir.analysis.likeness`).

*Along* one loop, `x` below, of N iterations, an operand is read at `c*x+e` in a dimension of c*n elements, n no less
than N and the same for all nests: laid end to end, the s-th operand's windows are those of the iterations s*n, s*n+1,
..., s*n+N-1, and a bound from above that stops a window at its operand's end must stop it at the end of all. Near the
seams, windows then reach into the neighbour. Which results this makes wrong is a question to isl: those with an
iteration in which some condition on x comes out otherwise than in the nest of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leir.analysis.access import tensors
from leir.analysis.affine import affine
from leir.analysis.box import as_sum, plus
from leir.analysis.isl import TooHard, example, question
from leir.analysis.likeness import NotAlike, Placed, alike, places_of, shape_of_value, slot
from leir.analysis.nestforms import Levels, NestForm, equation_path, nest_form
from leir.edit import accesses, statement_at, statements_at, variables_of, with_operands
from leir.names import substitute_in
from leir.printer import expression_text
from leir.syntax import Access, Binary, Equation, Expr, Integer, Loop, Path, Program, Variable, operands


@dataclass(frozen=True, slots=True)
class Operand:
    """What the nests read at one place of their equation, nest by nest, in the loops of the first.

    `indices`: the places that are read, the same for all nests, with the sizes of their dimensions; how each tensor
    lays them out, and what is fixed, is in `layouts`, with `slot` in place of each index. `along`: the number of the
    index that moves with x, None where none does.
    """

    reads: tuple[Access, ...]
    layouts: tuple[Access, ...]
    indices: tuple[Expr, ...]
    shape: tuple[int, ...]
    along: int | None

    @property
    def is_shared(self) -> bool:
        return self.along is None and len(dict.fromkeys(self.layouts)) == 1

    @property
    def source(self) -> tuple[object, ...]:
        """Operands with one source differ in where they are read, not in what they are."""
        return self.layouts, self.along

    def read(self, nest: int, places: Sequence[Expr]) -> Access:
        """The element of a nest's operand at some places."""
        found = substitute_in(self.layouts[nest], {slot(n): place for n, place in enumerate(places)})
        assert isinstance(found, Access)
        return found


@dataclass(frozen=True, slots=True)
class Windows:
    """The nests as one, in the loops of the first, which begin at 0. `x`: the loop along which operands are laid.

    `list_`: the path of what holds the list in which they stand; `forms`: each nest's, in the loops of the first;
    `pitch`: how many iterations of x further the next operand begins; `operands`: by place, in the order of the text.
    """

    list_: Path
    forms: tuple[NestForm, ...]
    x: Loop
    pitch: int
    operands: tuple[Operand, ...]

    @property
    def nests(self) -> tuple[Path, ...]:
        """The paths of the equations."""
        return tuple(form.path for form in self.forms)

    @property
    def levels(self) -> tuple[Levels, ...]:
        return tuple(form.levels for form in self.forms)

    @property
    def equations(self) -> tuple[Equation, ...]:
        return tuple(form.equation for form in self.forms)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return self.forms[0].loops

    @property
    def targets(self) -> tuple[Access, ...]:
        return tuple(equation.target for equation in self.equations)

    @property
    def kept(self) -> tuple[Loop, ...]:
        """The loops that tell results apart, x among them."""
        names = variables_of(self.targets[0])
        return tuple(loop for loop in self.loops if loop.variable in names)

    @property
    def changed(self) -> str:
        """Why an operand that was opened may have changed since; empty if none has."""
        return next((form.changed for form in self.forms if form.changed), "")

    def guards(self, number: int) -> tuple[Expr, ...]:
        return self.forms[number].guards

    def widened(self, expression: Expr) -> Expr:
        """The expression with every bound from above on x moved to the end of all operands."""
        return _widened(expression, self.x.variable, (len(self.forms) - 1) * self.pitch)


def windows_at(program: Program, nests: Sequence[Path], along: Path) -> Windows:
    """The nests, or equations, at these paths laid end to end along a loop of the first. Raises NotAlike.

    They are compared as they are written, then with what is computed ahead opened.
    """
    try:
        return _windows_at(program, nests, along, opened=False)
    except NotAlike as plain:
        try:
            return _windows_at(program, nests, along, opened=True)
        except NotAlike:
            raise plain from None


def list_of(program: Program, nests: Sequence[Path], along: Path) -> Path:
    """The path of what holds the list in which nests can be laid end to end: theirs, or one above what they share."""
    common = 0
    while all(len(path) > common + 1 and path[: common + 1] == nests[0][: common + 1] for path in nests):
        common += 1
    common = max(0, min(common, len(along) - 1))
    while common and len(statements_at(program, nests[0][:common])) == 1 and not _ends_at(nests, common):
        common -= 1
    return nests[0][:common]


def _ends_at(nests: Sequence[Path], common: int) -> bool:
    """Whether the nests are statements of a list so many levels down."""
    return all(len(path) == common + 1 for path in nests)


def _windows_at(program: Program, nests: Sequence[Path], along: Path, *, opened: bool) -> Windows:
    above = list_of(program, nests, along)
    paths = [equation_path(program, path) for path in nests]
    assert all(path is not None for path in paths)
    forms = [nest_form(program, path, len(above), opened=opened) for path in paths if path is not None]
    first = forms[0]
    x = _loop_at(program, first, along)
    own = {loop.variable for loop in first.loops}
    _require_target(first, x)
    sizes = {name: tensor.shape for name, tensor in tensors(program).items()}
    shape, reads = shape_of_value(first.equation.value)
    places = [places_of(read, own, sizes) for read in reads]
    matching, found = [first], [places]
    for form in forms[1:]:
        same, matched = alike(form, first, shape, places, sizes)
        matching.append(same)
        found.append(matched)
    operands_found = [_operand(same, x) for same in zip(*found, strict=True)]
    pitches = [_pitch(operand, x) for operand in operands_found if operand.along is not None]
    if len(dict.fromkeys(pitches)) != 1:
        what = "more than operands of one length" if pitches else "nothing that they read"
        raise NotAlike(f"{what} moves with {x.variable}")
    joint = {loop.variable: _of_one_kind([_loop(form, loop.variable) for form in matching]) for loop in first.loops}
    merged = [
        replace(form, levels=tuple(joint[n.variable] if isinstance(n, Loop) else n for n in form.levels))
        for form in matching
    ]
    return Windows(above, tuple(merged), joint[x.variable], pitches[0], tuple(operands_found))


def _loop_at(program: Program, form: NestForm, along: Path) -> Loop:
    """The loop of a form that the loop of the text at a path is, or is a part of."""
    found = statement_at(program, along) if along and form.path[: len(along)] == along else None
    if not isinstance(found, Loop) or found.variable not in form.names:
        raise NotAlike("it is no loop of the first nest")
    return _loop(form, form.names[found.variable])


def _loop(form: NestForm, variable: str) -> Loop:
    return next(loop for loop in form.loops if loop.variable == variable)


def _of_one_kind(loops: Sequence[Loop]) -> Loop:
    """The first of several loops; serial, where they are of different kinds."""
    kinds = dict.fromkeys(loop.kind for loop in loops)
    return loops[0] if len(kinds) == 1 else replace(loops[0], kind="L")


def _require_target(form: NestForm, x: Loop) -> None:
    """That the loops over results tell them apart, x among them."""
    target, kept = form.equation.target, [n for n in form.loops if n.variable in variables_of(form.equation.target)]
    if x not in kept:
        raise NotAlike(f"{x.variable} does not number results")
    if form.equation.op == "=" and len(kept) < len(form.loops):
        raise NotAlike("a result is stored more than once")
    sides = [{loop.variable: f"{side}{n}" for n, loop in enumerate(form.loops)} for side in ("a", "b")]
    around = dict.fromkeys(name for index in target.indices for name in sorted(variables_of(index)))
    outer = {name: f"o{n}" for n, name in enumerate(name for name in around if name not in sides[0])}
    texts = [[affine(index, {**outer, **names}) for index in target.indices] for names in sides]
    if None in texts[0]:
        raise NotAlike(f"which result {expression_text(target)} is cannot be decided")
    inside = [f"0 <= {names[n.variable]} < {n.extent}" for names in sides for n in form.loops]
    equal = [f"{a} = {b}" for a, b in zip(*texts, strict=True)]
    differ = " or ".join(f"{sides[0][n.variable]} != {sides[1][n.variable]}" for n in kept)
    names = [*outer.values(), *sides[0].values(), *sides[1].values()]
    try:
        double = example(question(names, [*inside, *equal, f"({differ})"]))
    except TooHard:
        double = ()
    if double is not None:
        raise NotAlike(f"{expression_text(target)} may be one element for two results")


def _operand(found: tuple[Placed, ...], x: Loop) -> Operand:
    reads, layouts = tuple(read for read, _, _ in found), tuple(layout for _, layout, _ in found)
    texts = " and ".join(dict.fromkeys(read.tensor for read in reads))
    indices = tuple(index for index, _ in found[0][2])
    shape = tuple(
        min(sizes) for sizes in zip(*(tuple(size for _, size in placed) for _, _, placed in found), strict=True)
    )
    moving = [n for n, index in enumerate(indices) if x.variable in variables_of(index)]
    if not moving:
        return Operand(reads, layouts, indices, shape, None)
    if len(moving) > 1:
        raise NotAlike(f"{x.variable} moves in more than one dimension of {texts}")
    others = [t for t in as_sum(indices[moving[0]]).terms if t != Variable(x.variable)]
    if any(x.variable in variables_of(term) for term in others):
        raise NotAlike(f"the place in {texts} does not move with {x.variable} evenly")
    lengths = dict.fromkeys(placed[moving[0]][1] for _, _, placed in found)
    if len(lengths) > 1:  # what a window reads beyond the shorter one would be its neighbour's
        raise NotAlike(f"{texts} have {' and '.join(map(str, lengths))} elements along {x.variable}")
    return Operand(reads, layouts, indices, shape, moving[0])


def _pitch(operand: Operand, x: Loop) -> int:
    """How many iterations of x an operand is long."""
    assert operand.along is not None
    stride = as_sum(operand.indices[operand.along]).terms.get(Variable(x.variable), 0)
    size = operand.shape[operand.along]
    if stride < 1 or size % stride or size < stride * x.extent:
        texts = " and ".join(dict.fromkeys(read.tensor for read in operand.reads))
        raise NotAlike(f"{size} elements of {texts} are not {stride} for each of {x.extent} or more results")
    return size // stride


def _widened(expression: Expr, x: str, more: int) -> Expr:
    """See `Windows.widened`; `more` iterations are added to x."""
    match expression:
        case Access():
            return expression
        case Binary("<" | "<=" | ">" | ">=" as op, left, right) if not any(accesses(expression)):
            slope = as_sum(left).terms.get(Variable(x), 0) - as_sum(right).terms.get(Variable(x), 0)
            if op in ("<", "<="):
                return Binary(op, left, plus(right, Integer(slope * more))) if slope > 0 else expression
            return Binary(op, plus(left, Integer(-slope * more)), right) if slope < 0 else expression
        case _:
            return with_operands(expression, tuple(_widened(operand, x, more) for operand in operands(expression)))
