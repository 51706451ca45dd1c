"""The pool's verification tasks: compile programs, run them on their source's draws, compare.

`verify` takes {"source": {"id", "torch_code", ...}, "leir_source": the plain program, "leir": the program to verify,
"parent": the program it was made from or None, "bit_exact": whether it must give the parent's bits, "targets",
"draws": how many of each kind of input, "seed" (0)} and returns {"ok", "cause", "message", "verdicts": one entry a
target: {"target", "inputs", "max_abs", "tolerance", "bound_used", "max_rel", "max_ulp", "bit_equal"}}. `cause` is
"wrong-result" or "not-bit-exact" where `ok` is false, and the verdicts end with the target that refused.

`verify_many` takes the same with "states": [{"leir", "parent", "bit_exact"}, ...] in place of the three, and returns a
list: programs that are compiled together cost less. Errors (ParseError, IllFormed, Unverified, ...) are raised.

A source without "torch_code" is its plain program: the reference is that program in float64.

What belongs to a source, and the outputs of programs that were verified here, is kept for the next job; every entry can
be made again from its key.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from leir.check import require_well_formed
from leir.lowering import compile_cuda, compile_llvm
from leir.parser import parse
from leir.syntax import Program
from stepTP.verify.analysis import analyse
from stepTP.verify.compare import same_bits, significant
from stepTP.verify.inputs import free_profile
from stepTP.verify.power import measure
from stepTP.verify.prepare import Trials, Unverified, in_double, prepare
from stepTP.verify.reference import Origin, gather_ranges, torch_origin
from stepTP.verify.run import Conduct, observe

Target = Literal["llvm", "cuda"]

_MORE_DRAWS = 2  # draws of each kind that a source gets beyond the configured ones, where these have no power
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
    source = payload["source"]
    key = SourceKey(
        source["id"], source.get("torch_code", ""), payload["leir_source"], payload["draws"], payload.get("seed", 0)
    )
    names = prepared_trials(key).names
    answers: list[dict[str, Any]] = [
        {"ok": True, "cause": "", "message": "", "verdicts": []} for _ in payload["states"]
    ]
    for target in payload["targets"]:
        asked = [(s, a) for s, a in zip(payload["states"], answers, strict=True) if a["ok"]]
        conducts = _conducts(
            key, target, [s[text] for s, _ in asked for text in ("leir", "parent") if s[text] is not None]
        )
        for state, answer in asked:
            conduct, before = conducts[state["leir"]], conducts.get(state["parent"])
            bit_equal = _are_bit_equal(conduct, before) if before and not conduct.difference.problem else None
            answer["verdicts"].append(_entry(target, names, conduct, bit_equal))
            if conduct.difference.problem:
                answer |= {"ok": False, "cause": "wrong-result", "message": f"{target}: {conduct.difference.problem}"}
            elif state["bit_exact"] and bit_equal is False:
                message = f"{target}: the outputs are not its parent's, bit for bit, as the step claims"
                answer |= {"ok": False, "cause": "not-bit-exact", "message": message}
    return answers


@lru_cache(maxsize=16)
def prepared_trials(key: SourceKey) -> Trials:
    """The draws of a source, with references and tolerances that have power. Raises Unverified where none have."""
    origin = _origin(key)
    missed: tuple[str, ...] = ()
    for draws in range(key.draws, key.draws + _MORE_DRAWS + 1):
        trials = prepare(origin.program, origin.reference, origin.profiles, key.id, draws, key.seed)
        missed = measure(origin.program, trials.trials).missed
        if not missed:
            return trials
    raise Unverified(f"the check has no power over these wrong outputs: {'; '.join(missed)}")


@lru_cache(maxsize=16)
def _plain(text: str) -> Program:
    """The plain program of a source. Raises ParseError, IllFormed."""
    program = parse(text)
    require_well_formed(program)
    return program


def _origin(key: SourceKey) -> Origin:
    program = _plain(key.leir)
    if key.torch_code:
        return torch_origin(key.torch_code, key.id, program)
    allowed = gather_ranges(program)
    profiles = tuple(free_profile(declaration, allowed.get(declaration.tensor)) for declaration in program.inputs)
    return Origin(
        program, lambda inputs: {n: b.value for n, b in analyse(in_double(program), inputs).items()}, profiles
    )


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


def _conducts(key: SourceKey, target: Target, texts: Sequence[str]) -> dict[str, Conduct]:
    """What programs do on the draws of their source, by text; those that are not known are compiled together."""
    known = {text: _KEPT.get((key, target, text)) for text in texts}
    found = {text: conduct for text, conduct in known.items() if conduct is not None}
    missing = [text for text in known if text not in found]
    if not missing:
        return found
    programs = [_program(text, key.leir) for text in missing]
    trials = prepared_trials(key).trials
    compiled = compile_llvm(programs, poison=True) if target == "llvm" else compile_cuda(programs, contraction=False)
    for text, executable in zip(missing, compiled, strict=True):
        found[text] = conduct = observe(executable, trials)
        _KEPT.put((key, target, text), conduct)
    return found


def _program(text: str, source: str) -> Program:
    """A program that may be run. Raises ParseError, IllFormed, and Unverified for a signature unlike the source's."""
    program, plain = parse(text), _plain(source)
    require_well_formed(program)
    if (program.inputs, program.outputs) != (plain.inputs, plain.outputs):
        raise Unverified("the program has another signature than its source")
    return program


def _are_bit_equal(after: Conduct, before: Conduct) -> bool:
    if len(after.outputs) != len(before.outputs):
        return False
    pairs = zip(after.outputs, before.outputs, strict=True)
    return all(same_bits(array, parent[name]) for outputs, parent in pairs for name, array in outputs.items())


def _entry(target: Target, inputs: tuple[str, ...], conduct: Conduct, bit_equal: bool | None) -> dict[str, Any]:
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
