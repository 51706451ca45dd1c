"""Commands on what there is to choose from: strategies and source families."""

from dataclasses import asdict
from typing import Annotated

import typer

from stepTP.commands.show import InputError, Json, print_json, print_table

strategies = typer.Typer(no_args_is_help=True, help="The catalog of strategies.", rich_markup_mode=None)
sources = typer.Typer(no_args_is_help=True, help="The families of source programs.", rich_markup_mode=None)


FamilyName = Annotated[str, typer.Argument(help="The family's name.")]


@strategies.command("list")
def list_strategies(json: Json = False) -> None:
    """Every strategy with its level, whether it keeps every bit, and what it does."""
    from strategies.index import entries

    found = [asdict(entry) for entry in entries()]
    if json:
        print_json(found)
    else:
        print_table(("name", "level", "bit-exact", "summary"), [list(entry.values()) for entry in found])


@strategies.command("show")
def show_strategy(name: Annotated[str, typer.Argument(help="The strategy's name.")], json: Json = False) -> None:
    """One strategy's page: the rewrite, when it is legal, when it pays, and its arguments."""
    from strategies import catalog

    kind = catalog.strategy(name)
    page = kind.page().strip()
    schema = kind.model_json_schema().get("properties", {})
    if json:
        shown = {"name": kind.name, "level": kind.level, "bit_exact": kind.bit_exact, "summary": kind.summary()}
        print_json({**shown, "page": page, "args": schema})
        return
    print(f"{kind.name} ({kind.level} level, bit-exact: {kind.bit_exact})\n\n{page}\n\nArguments: {', '.join(schema)}")


@sources.command("list")
def list_sources(json: Json = False) -> None:
    """Every family of source programs."""
    from stepTP.sources import families

    found = [{"name": family.name, "summary": family.summary} for family in families()]
    if json:
        print_json(found)
    else:
        print_table(("name", "summary"), [list(entry.values()) for entry in found])


@sources.command("knobs")
def list_knobs(family: FamilyName, json: Json = False) -> None:
    """The knobs that a family draws, and what each is drawn from."""
    from stepTP.sources import families, knobs

    found = knobs(next(each for each in families() if each.name == _known(family)))
    if json:
        print_json({name: list(options) for name, options in found.items()})
    else:
        print_table(("knob", "options"), [[name, " | ".join(map(str, options))] for name, options in found.items()])


@sources.command("show")
def show_source(
    family: FamilyName,
    seed: Annotated[int, typer.Option(help="Draws its programs.", min=0)] = 0,
    count: Annotated[int, typer.Option(help="How many programs.", min=1, max=10_000)] = 1,
    json: Json = False,
) -> None:
    """Programs of one family, as PyTorch text."""
    from stepTP.sources import FamilyTooSmall, generate

    try:
        programs = generate([_known(family)], seed, count)
    except FamilyTooSmall as error:
        raise InputError(f"--count: {error}") from None
    if json:
        print_json([program.model_dump() for program in programs])
        return
    for program in programs:
        knobs = ", ".join(f"{name}={value}" for name, value in program.knobs.items())
        print(f"# {program.id}: {knobs}\n{program.torch_code}")


def _known(family: str) -> str:
    from stepTP.sources import families

    known = [each.name for each in families()]
    if family not in known:
        raise InputError(f"no family {family!r}: choose one of {', '.join(known)}")
    return family
