"""The pool's verification tasks: compile programs, run them on their source's draws, compare.

`verify` takes {"source": {"id", "torch_code", ...}, "leir_source": the plain program, "leir": the program to verify,
"parent": the program it was made from or None, "bit_exact": whether it must give the parent's bits, "targets",
"draws": how many of each kind of input, "seed" (0)} and returns {"ok", "cause", "message", "verdicts": one entry a
target: {"target", "inputs", "max_abs", "tolerance", "bound_used", "max_rel", "max_ulp", "bit_equal"}}. `cause` is
"wrong-result" or "not-bit-exact" where `ok` is false, and the verdicts end with the target that refused.

`verify_many` takes the same with "states": [{"leir", "parent", "bit_exact"}, ...] in place of the three, and returns a
list: programs that are compiled together cost less. `verify_batch` takes the states as its items, and tells which one
runs, so that one that is lost costs itself only. Errors (ParseError, IllFormed, Unverified, ...) are raised.

A source without "torch_code" is its plain program: the reference is that program in float64.

What belongs to a source, and the outputs of programs that were verified here, is kept for the next job; every entry can
be made again from its key.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any, Literal

from leir.check import require_well_formed
from leir.lowering import NestSequence, compile_nests
from leir.parser import parse
from leir.syntax import Program
from stepTP.verify.analysis import analyse
from stepTP.verify.board import board
from stepTP.verify.carry import packed, unpacked
from stepTP.verify.compare import first_unlike, same_bits, significant
from stepTP.verify.inputs import free_profile
from stepTP.verify.power import measure
from stepTP.verify.prepare import Trials, Unverified, in_double, prepare
from stepTP.verify.progress import Answered, Progress, Running
from stepTP.verify.reference import Origin, gather_ranges, torch_origin
from stepTP.verify.run import Conduct, Judged, observe

Target = Literal["llvm", "cuda"]

# Draws of each kind, and of peaks, that a source gets beyond the configured ones, where these have no power.
_MORE_DRAWS = ((0, 0), (1, 15), (2, 30))
_KEPT_BYTES = 256 << 20  # of outputs of programs that were run here, for their children


@dataclass(frozen=True, slots=True)
class SourceKey:
    """What decides the draws, references and tolerances of a source."""

    id: str
    torch_code: str
    leir: str
    draws: int
    seed: int


def verify(payload: dict[str, Any]) -> dict[str, Any]:
    """One program; see the module's description."""
    state = {name: payload[name] for name in ("leir", "parent", "bit_exact")}
    (answer,) = verify_many({**payload, "states": [state]})
    return answer


def verify_many(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """Several programs of one source, compiled together; see the module's description."""
    events = verify_batch(payload, payload["states"])
    answers = {event.item: event.result for event in events if isinstance(event, Answered)}
    return [answers[place] for place in range(len(payload["states"]))]


def verify_batch(payload: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[Progress]:
    """The same, telling which program runs and what is known of it; `items` are the states."""
    source = payload["source"]
    key = SourceKey(
        source["id"], source.get("torch_code", ""), payload["leir_source"], payload["draws"], payload.get("seed", 0)
    )
    names = prepared_trials(key).names
    verdicts: list[list[dict[str, Any]]] = [[] for _ in items]
    asked = list(enumerate(items))
    targets: list[Target] = payload["targets"]
    for number, target in enumerate(targets, 1):
        conducts = _Conducts(key, target)
        for place, state in asked:
            yield Running(place)
            conducts.require(state["leir"], state["parent"])
        yield Running(None)
        conducts.compile()
        passed: list[tuple[int, dict[str, Any]]] = []
        for place, state in asked:
            yield Running(place)
            conduct = conducts.of(state["leir"])
            before = conducts.of(state["parent"]) if state["parent"] is not None else None
            bit_equal = are_bit_equal(conduct, before) if before and not conduct.difference.problem else None
            verdicts[place].append(verdict_entry(target, names, conduct, bit_equal))
            if conduct.difference.problem:
                wrong = {"cause": "wrong-result", "message": f"{target}: {conduct.difference.problem}"}
            elif state["bit_exact"] and bit_equal is False:
                assert before is not None
                claim = "the outputs are not its parent's, bit for bit, as the step claims"
                message = f"{target}: {claim}: {first_unlike_output(names, conduct, before)}"
                wrong = {"cause": "not-bit-exact", "message": message}
            elif number < len(targets):
                passed.append((place, state))
                continue
            else:
                wrong = {"cause": "", "message": ""}
            yield Answered(place, {"ok": not wrong["cause"], **wrong, "verdicts": verdicts[place]})
        asked = passed


@lru_cache(maxsize=16)
def prepared_trials(key: SourceKey) -> Trials:
    """The draws of a source, with references and tolerances that have power. Raises Unverified where none have.

    Where workers have a board, one of them makes the trials, and the others read them.
    """
    shared = board()
    if shared is None:
        return _made_trials(key)
    name = json.dumps(astuple(key)).encode()
    with nullcontext() if (found := shared.get(name)) else shared.making(name):
        found = found or shared.get(name)
        if found:
            return unpacked(found)
        try:
            made = _made_trials(key)
        except Unverified as error:
            shared.put(name, packed(error))
            raise
        shared.put(name, packed(made))
        return made


def _made_trials(key: SourceKey) -> Trials:
    """Raises as `prepared_trials`, which says what they are."""
    origin = origin_of(key)
    missed: tuple[str, ...] = ()
    for more, peaks in _MORE_DRAWS:
        trials = prepare(origin.program, origin.reference, origin.profiles, key.id, key.draws + more, key.seed, peaks)
        missed = measure(origin.program, trials.trials, key.id).missed
        if not missed:
            return trials
    raise Unverified(f"the check has no power over these wrong outputs: {'; '.join(missed)}")


@lru_cache(maxsize=16)
def _plain(text: str) -> Program:
    """The plain program of a source. Raises ParseError, IllFormed."""
    program = parse(text)
    require_well_formed(program)
    return program


def origin_of(key: SourceKey) -> Origin:
    """Where the programs of a source come from: its module, or its plain program alone."""
    program = _plain(key.leir)
    if key.torch_code:
        return torch_origin(key.torch_code, key.id, program)
    allowed = gather_ranges(program)
    profiles = tuple(free_profile(declaration, allowed.get(declaration.tensor)) for declaration in program.inputs)
    return Origin(
        program, lambda inputs: {n: b.value for n, b in analyse(in_double(program), inputs).items()}, profiles
    )


@lru_cache(maxsize=16)
def _judged(_: SourceKey) -> Judged:
    """What was said of outputs on the trials of a source."""
    return {}


class _Kept:
    """What programs did, by key, least recently used first; a bounded number of bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.conducts: OrderedDict[tuple[SourceKey, Target, str], Conduct] = OrderedDict()
        self.bytes = 0

    def get(self, key: tuple[SourceKey, Target, str]) -> Conduct | None:
        if key in self.conducts:
            self.conducts.move_to_end(key)
        return self.conducts.get(key)

    def put(self, key: tuple[SourceKey, Target, str], conduct: Conduct) -> None:
        self.conducts[key] = conduct
        self.bytes += _size(conduct)
        while self.bytes > self.limit and len(self.conducts) > 1:
            _, oldest = self.conducts.popitem(last=False)
            self.bytes -= _size(oldest)


_KEPT = _Kept(_KEPT_BYTES)


def _size(conduct: Conduct) -> int:
    return sum(array.nbytes for outputs in conduct.outputs for array in outputs.values())


class _Conducts:
    """What programs do on the draws of their source, by text; those that are not known are compiled together."""

    def __init__(self, key: SourceKey, target: Target) -> None:
        self.key = key
        self.target: Target = target
        self.found: dict[str, Conduct] = {}
        self.missing: dict[str, Program] = {}
        self.compiled: dict[str, NestSequence] = {}

    def require(self, *texts: str | None) -> None:
        """Programs that will be asked for. Raises ParseError, IllFormed, Unverified."""
        for text in texts:
            if text is None or text in self.found or text in self.missing:
                continue
            known = _KEPT.get((self.key, self.target, text))
            if known is not None:
                self.found[text] = known
            else:
                self.missing[text] = _program(text, self.key.leir)

    def compile(self) -> None:
        programs = list(self.missing.values())
        if programs:
            self.compiled = dict(zip(self.missing, compile_nests(programs, self.target), strict=True))

    def of(self, text: str) -> Conduct:
        """What a program does; it runs when it is first asked for."""
        if text not in self.found:
            conduct = observe(self.compiled[text], prepared_trials(self.key).trials, _judged(self.key))
            self.found[text] = conduct
            _KEPT.put((self.key, self.target, text), conduct)
        return self.found[text]


def _program(text: str, source: str) -> Program:
    """A program that may be run. Raises ParseError, IllFormed, and Unverified for a signature unlike the source's."""
    program, plain = parse(text), _plain(source)
    require_well_formed(program)
    if (program.inputs, program.outputs) != (plain.inputs, plain.outputs):
        raise Unverified("the program has another signature than its source")
    return program


def are_bit_equal(after: Conduct, before: Conduct) -> bool:
    if len(after.outputs) != len(before.outputs):
        return False
    pairs = zip(after.outputs, before.outputs, strict=True)
    return all(same_bits(array, parent[name]) for outputs, parent in pairs for name, array in outputs.items())


def first_unlike_output(draws: tuple[str, ...], after: Conduct, before: Conduct) -> str:
    """The first output whose bits are not the parent's, with its inputs; the parent may have ended early."""
    for draw, outputs, parent in zip(draws, after.outputs, before.outputs, strict=False):
        for name, array in outputs.items():
            if unlike := first_unlike(name, array, parent[name]):
                return f"{unlike} (inputs {draw})"
    return f"its parent fails on inputs {draws[len(before.outputs) - 1]}"


def verdict_entry(target: Target, inputs: tuple[str, ...], conduct: Conduct, bit_equal: bool | None) -> dict[str, Any]:
    """A `stepTP.records.Verdict`, as plain data."""
    difference = conduct.difference
    return {
        "target": target,
        "inputs": list(inputs),
        "max_abs": significant(difference.max_abs),
        "tolerance": significant(difference.tolerance),
        "bound_used": significant(difference.bound_used),
        "max_rel": significant(difference.max_rel),
        "max_ulp": significant(difference.max_ulp),
        "bit_equal": bit_equal,
    }
