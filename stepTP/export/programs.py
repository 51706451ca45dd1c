"""Programs in another spelling than LEIR: TVM's TIR, or CUDA source."""

from collections.abc import Iterable, Mapping
from typing import Any

from leir.parser import parse
from stepTP.prompt import Spelling
from stepTP.verify.pool import Failure, Pool

SPELL = "stepTP.export.programs.spell"
_BATCH = 32  # programs of one job


class NotSpelled(RuntimeError):
    """A program has no text in the spelling that was asked for; the message says why."""


def spell(payload: dict[str, Any]) -> list[str]:
    """The pool task: the `programs`, LEIR texts, in the `spelling` that is asked for ("tir" or "cuda")."""
    from leir.lowering import cuda_source, tir_text

    write = {"tir": tir_text, "cuda": cuda_source}[payload["spelling"]]
    return [write(parse(program)) for program in payload["programs"]]


def spelled(programs: Iterable[str], spelling: Spelling, workers: int | None = None) -> Mapping[str, str]:
    """The text of each program, by its LEIR text. Raises NotSpelled."""
    wanted = list(dict.fromkeys(programs))
    if spelling == "leir" or not wanted:
        return {program: program for program in wanted}
    texts: dict[str, str] = {}
    with Pool(workers, tasks=(SPELL,)) as pool:
        batches = [wanted[n : n + _BATCH] for n in range(0, len(wanted), _BATCH)]
        asked = [pool.submit(SPELL, {"spelling": spelling, "programs": batch}) for batch in batches]
        for batch, future in zip(batches, asked, strict=True):
            answer = future.result()
            if isinstance(answer, Failure):
                raise NotSpelled(f"programs cannot be written as {spelling}: {answer.message}")
            texts.update(zip(batch, answer, strict=True))
    return texts
