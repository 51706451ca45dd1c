"""Commands on steps: candidates of a program, and applying one."""

import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepTP.commands.language import well_formed
from stepTP.commands.show import InputError, Json, print_json, print_table

if TYPE_CHECKING:
    from strategies.base import Strategy


def candidates(
    state: Annotated[str, typer.Argument(help="A LEIR program; - reads standard input.")],
    strategy: Annotated[list[str] | None, typer.Option(help="Only of this strategy; may be given again.")] = None,
    legal: Annotated[bool, typer.Option("--legal", help="Leave out what is refused.")] = False,
    config: Annotated[Path | None, typer.Option(help="A build's YAML file, whose grid gives the sizes.")] = None,
    json: Json = False,
) -> None:
    """List the steps that strategies propose on a program: legal, or refused by which fact."""
    from stepTP.config import load_config
    from strategies import catalog
    from strategies.grid import DEFAULT

    grid = load_config(config).grid if config else DEFAULT
    program = well_formed(state)
    kinds = [catalog.strategy(name) for name in strategy or catalog.names()]
    found = [_judged(step, program) for kind in kinds for step in kind.proposed(program, grid)]
    shown = [entry for entry in found if entry["legal"] or not legal]
    if json:
        print_json(shown)
        return
    rows = [
        (
            e["strategy"],
            json_module.dumps(e["args"]),
            "legal" if e["legal"] else f"refused: {e['fact']}: {e['evidence']}",
        )
        for e in shown
    ]
    print_table(("strategy", "args", "verdict"), rows)
    print(f"{len(found)} candidates, {sum(entry['legal'] for entry in found)} legal")


def _judged(step: "Strategy", program: Any) -> dict[str, Any]:
    from leir.canonical import state_id
    from strategies.base import Refused

    shown: dict[str, Any] = {**step.to_json(), "legal": True, "fact": None, "evidence": None, "state_id": None}
    try:
        return {**shown, "state_id": state_id(step.apply(program).program)}
    except Refused as refused:
        return {**shown, "legal": False, "fact": refused.fact.name, "evidence": refused.fact.evidence}


def apply(
    state: Annotated[str, typer.Argument(help="A LEIR program; - reads standard input.")],
    strategy: Annotated[str, typer.Option(help="The strategy's name.")],
    args: Annotated[str, typer.Option(help='Its arguments as JSON: \'{"path": [0], "factor": 8}\'.')] = "{}",
    json: Json = False,
) -> None:
    """Take one step and print the program after it. Exit code 1 where a fact refuses it."""
    from leir.canonical import state_id
    from leir.printer import to_text
    from strategies import catalog
    from strategies.base import Refused

    program = well_formed(state)
    try:
        arguments = json_module.loads(args)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--args: not JSON ({error}): write an object like '{{\"path\": [0]}}'") from None
    step = catalog.parse_step({"strategy": strategy, "args": arguments})
    shown: dict[str, Any] = step.to_json()
    try:
        applied = step.apply(program)
    except Refused as refused:
        facts = [asdict(fact) for fact in (*refused.held, refused.fact)]
        if json:
            print_json({**shown, "legal": False, "facts": facts, "leir": None, "state_id": None, "bit_exact": None})
        else:
            typer.echo(str(refused), err=True)
        raise typer.Exit(1) from None
    text = to_text(applied.program)
    if json:
        facts = [asdict(fact) for fact in applied.facts]
        after = {"leir": text, "state_id": state_id(applied.program), "bit_exact": applied.bit_exact}
        print_json({**shown, "legal": True, "facts": facts, **after})
    else:
        print(text, end="")
