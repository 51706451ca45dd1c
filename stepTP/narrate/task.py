"""The pool task that explains a verified step: reasoning, diff and token counts."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from leir.parser import parse
from stepTP.narrate.call import call_text
from stepTP.narrate.compose import LENGTH, compose, length
from stepTP.narrate.context import Context, RefusedStep, gather, touched_operations
from stepTP.narrate.describe import kinds, purpose
from stepTP.narrate.difference import diff_text
from stepTP.narrate.ground import Ungrounded, ungrounded
from stepTP.narrate.numbers import StateNumbers, data_text, operations, short_text
from stepTP.narrate.outcome import other_places
from stepTP.narrate.recover import recover_step
from stepTP.narrate.shorten import SHORTER, SHOWN
from stepTP.records import FactRecord, Step
from stepTP.structure import structure_of_step
from strategies.grid import Grid

if TYPE_CHECKING:
    from leir.lowering.nests import Nest


def explain(payload: dict[str, Any]) -> dict[str, Any]:
    """`{reasoning, diff, structure, tokens}` of a step, as `stepTP.pipeline` asks for it.

    Raises Ungrounded where a sentence names what is not there, or the step cannot be read back from the text: both are
    bugs of a sentence.
    """
    step = Step(**payload["step"])
    context = _context(payload, SHOWN)
    reasoning = compose(context)
    if length(reasoning) > LENGTH:
        context = _context(payload, SHORTER)
        reasoning = compose(context, at_last=True)
    strange = ungrounded(reasoning, payload["before"], payload["after"], computed(context))
    if strange:
        raise Ungrounded(f"{', '.join(strange)} of {call_text(step)} come from nowhere: {reasoning}")
    recovered = recover_step(reasoning, context.before)
    if recovered is None or recovered.to_json() != step.model_dump():
        raise Ungrounded(f"{call_text(step)} cannot be read back from: {reasoning}")
    return {
        "reasoning": reasoning,
        "diff": diff_text(payload["before"], payload["after"]),
        "structure": structure_of_step(step.strategy, context.before, context.after),
        "tokens": _tokens(payload["after"], reasoning, payload["count_tokens"]),
    }


def _context(payload: dict[str, Any], shown: int) -> Context:
    return gather(
        key=payload["id"],
        before=payload["before"],
        step=Step(**payload["step"]),
        bit_exact=payload["bit_exact"],
        facts=tuple(FactRecord(**fact) for fact in payload["facts"]),
        after=payload["after"],
        others=tuple(Step(**other) for other in payload["others"]),
        refused=tuple(
            RefusedStep(Step(strategy=r["strategy"], args=r["args"]), FactRecord(**r["fact"]))
            for r in payload["refused"]
        ),
        grid=Grid.model_validate(payload["grid"]),
        shown=shown,
    )


_FORMS = ("leir", "tir", "cuda", "reasoning")


def computed(context: Context) -> list[str]:
    """Everything that a reasoning may name besides the programs: evidence, arguments, terms and totals, as written."""
    texts = [fact.evidence for fact in context.facts]
    texts += [refused.fact.evidence for refused in context.refused]
    texts += [call_text(step) for step in (context.step, *context.others, *(r.step for r in context.refused))]
    texts += [call_text(context.enabled)] if context.enabled else []
    texts += context.terms.values()
    texts.append(str(touched_operations(context).value))
    texts += [str(len(found)) for found in kinds(context.before).values()]
    texts.append(other_places(context))
    texts += map(purpose, context.before.body)
    for numbers in (context.numbers_before, context.numbers_after):
        texts += _written(numbers)
    return texts


def _written(numbers: StateNumbers) -> list[str]:
    """A state's numbers in every form that a section gives them."""
    texts = [*numbers.totals().values(), numbers.nests_text(), data_text(numbers.boundary)]
    if numbers.traffic:
        texts.append(short_text(numbers.operations.value / numbers.traffic))
    weights = [operations(nest).value for nest in numbers.nests.values()]
    texts += [str(weight) for weight in (*weights, sum(weights))]
    for nest in numbers.nests.values():
        texts.append(str(nest.parallel_iterations))
        for traffic in nest.reads:
            texts += [str(traffic.accesses.value), str(traffic.elements.value), short_text(traffic.reuse)]
    return texts


def _tokens(after: str, reasoning: str, wanted: str) -> dict[str, int | None]:
    """Tokens of the reasoning and of the program after the step as LEIR; if "all" are wanted as TIR and CUDA (kernels
    only) too."""
    counts: dict[str, int | None] = dict.fromkeys(_FORMS)
    if wanted == "none":
        return counts
    from stepTP.tokens import count_tokens

    counts |= {"leir": count_tokens(after), "reasoning": count_tokens(reasoning)}
    if wanted == "all":
        from leir.lowering import tir_text
        from leir.lowering.nests import nests

        program = parse(after)
        counts["tir"] = count_tokens(tir_text(program))
        counts["cuda"] = sum(_kernel_tokens(nest) for nest in nests(program, "cuda"))
    return counts


@lru_cache(maxsize=4096)  # a step leaves most nests as they are
def _kernel_tokens(nest: "Nest") -> int:
    from leir.lowering.nests import nest_source
    from stepTP.tokens import count_tokens

    return count_tokens(nest_source(nest))
