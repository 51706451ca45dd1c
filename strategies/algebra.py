"""What the algebraic strategies share: one place, one identity.

An identity is applied to one arithmetic expression inside an equation's value. A strategy says which `forms` an
expression can take, each with the arguments that name it; candidates are all forms of all places, and a step looks for
the form with its own arguments. The facts that follow are the same for all (`strategies.safety`).
"""

from collections.abc import Iterator
from functools import lru_cache

from leir.analysis.polynomials import TooLarge
from leir.analysis.types import is_float
from leir.edit import replace_expression_at
from leir.printer import expression_text
from leir.syntax import Path, Place, Program
from strategies.arithmetic import Setting, places, setting_at, why_not_arithmetic
from strategies.base import Fact, Strategy, listed, ordered, path_text
from strategies.gains import gains
from strategies.openings import an_equation
from strategies.safety import (
    Form,
    digits_are_kept,
    divisors_are_not_zero,
    identity_is_proved,
    stays_in_range,
    underflow_is_covered,
)

# Sentences that an identity may say of itself, where `terms` has what they name.
SAVING = ("Over the {times} iterations of the equation at {path}, writing {old} as {new} saves {saved_in_all}.",)
SHOWING = (
    "{fixed}, a part of {new}, does not change with {fixed_loops}: set apart, it would take {fixed_times} "
    "evaluations instead of {times}.",
    "{met} stands in the equation at {path} beside {old}. Written as {new}, this has it too, so that one "
    "evaluation could serve both.",
)
CHANGE = (
    "In the equation at {path}, {old} becomes {new}.",
    "One expression is rewritten, from {old} to {new}; loops, tensors and subscripts stay.",
    "The equation at {path} now computes {new} where it computed {old}.",
    "At {path}, {new} takes the place of {old}: {identity}.",
)
EFFECT = (
    "The expression took {operations_before} and takes {operations_after} now; nothing else in the program changes.",
    "The value is the same for real numbers; in {dtype} its roundings may differ, within what verification allows.",
    "Loops, tensors and guards stay as they are; one expression has another form.",
)
INTEGERS = ("In {integers}, nothing is rounded, and nothing overflows: every bit stays.",)
SAVED = ("It saves {saved} in each of {times} iterations, {saved_in_all} in all.",)
ADDED = (
    "Each of {times} iterations computes {added} more, {added_in_all} in all: what this prepares has to save more.",
)
SHOWN = (
    "{fixed} depends on fewer loops than {old} did; a statement of its own would evaluate it {fixed_times} "
    "times, not {times}.",
)
_SAID = (  # the facts of a form as sentences give them, which spare the first before the last
    "underflow-is-covered",
    "stays-in-range",
    "digits-are-kept",
    "identity-is-proved",
    "divisors-are-not-zero",
)


class Algebraic(Strategy):
    """A strategy that gives one expression another form. Arguments beyond the place are those of its forms."""

    path: Path
    within: Path

    @classmethod
    def forms(cls, setting: Setting) -> Iterator[Form]:
        """The forms that an expression can take, in a fixed order. Raises TooLarge."""
        raise NotImplementedError

    @classmethod
    def candidates(cls, program: Program) -> "Iterator[Algebraic]":
        yield from cls.candidates_at(program)

    @classmethod
    def candidates_at(cls, program: Program, path: Path | None = None) -> "Iterator[Algebraic]":
        """The candidates in one equation, or in all."""
        for place in places(program):
            if path in (None, place.path):
                for form in _offered(cls, program, place)[0]:
                    yield cls(path=place.path, within=place.within or (), **form.arguments)

    @property
    def place(self) -> Place:
        return Place(self.path, self.within)

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments that name the form."""
        return {name: str(value) for name, value in self if name not in ("path", "within")}

    @property
    def operands(self) -> tuple[str, ...]:
        """The expressions that the step is about, as its arguments name them."""
        return tuple(self.arguments.values())

    def setting(self, program: Program) -> Setting:
        """The expression at the step's place, which `facts_of_place` has found."""
        return setting_at(program, self.place)

    def found(self, program: Program) -> tuple[Form | None, str]:
        """The form that the step asks for, or why there is none."""
        setting = self.setting(program)
        forms, why = _offered(type(self), program, self.place)
        form = next((form for form in forms if dict(form.arguments) == self.arguments), None)
        if form is not None:
            return form, form.identity
        asked = ", ".join(f"{name} {value!r}" for name, value in self.arguments.items())
        offered = listed([", ".join(map(repr, form.arguments.values())) for form in forms]) if forms else "none"
        return None, why or f"{expression_text(setting.expression)} has no such form with {asked}; it has {offered}"

    def form(self, program: Program) -> Form:
        form, why = self.found(program)
        assert form is not None, why
        return form

    def facts_of_place(self, program: Program) -> Iterator[Fact]:
        yield from an_equation(program, self.path)
        why = why_not_arithmetic(program, self.place)
        yield Fact("place-is-arithmetic", not why, why or _arithmetic_text(self.setting(program)))

    def facts_of_form(self, program: Program) -> Iterator[Fact]:
        """What must hold of any form: it is the same, and safe in floats. What is said of divisors comes last."""
        setting, form = self.setting(program), self.form(program)
        found = [*ordered(self._guards(setting, form), _SAID)]
        divides = any(fact.name == "divisors-are-not-zero" and "is in" in fact.evidence for fact in found)
        yield from found if divides or not found[-1].holds else (found[-1], *found[:-1])

    @staticmethod
    def _guards(setting: Setting, form: Form) -> Iterator[Fact]:
        yield identity_is_proved(setting, form)
        yield divisors_are_not_zero(setting, form)
        yield stays_in_range(setting, form)
        if is_float(setting.dtype):
            yield digits_are_kept(setting, form)
            yield underflow_is_covered(setting, form)

    def rewrite(self, program: Program) -> Program:
        return replace_expression_at(program, self.place, self.form(program).new)

    def is_bit_exact(self, program: Program) -> bool:
        return not is_float(self.setting(program).dtype) or bool(self.form(program).exact)

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        del after
        setting, form = self.setting(before), self.form(before)
        kind = {"dtype": setting.dtype} if is_float(setting.dtype) else {"integers": setting.dtype}
        if form.exact:
            kind = {"exact": form.exact}
        return {
            "path": path_text(self.path),
            "old": expression_text(setting.expression),
            "new": expression_text(form.new),
            "identity": form.identity,
            **kind,
            **gains(before, self.path, self.within, form.new),
            **form.arguments,
        }


def _arithmetic_text(setting: Setting) -> str:
    kind = "float" if is_float(setting.dtype) else "integer"
    return f"{expression_text(setting.expression)} is {kind} arithmetic, in {setting.dtype}"


@lru_cache(maxsize=512)
def _offered(cls: type[Algebraic], program: Program, place: Place) -> tuple[list[Form], str]:
    """The forms that an expression can take, the first of each name, and why it was not looked at further.

    They are asked for by who proposes steps, and several times by each step.
    """
    setting = setting_at(program, place)
    found: dict[tuple[str, ...], Form] = {}
    try:
        for form in cls.forms(setting):
            if form.new != setting.expression:
                found.setdefault(tuple(form.arguments.values()), form)
    except TooLarge as reason:
        return list(found.values()), f"{expression_text(setting.expression)[:80]} is not looked into: {reason}"
    return list(found.values()), ""
