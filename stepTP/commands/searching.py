"""The command that searches: steps from one program to a fast one."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepTP.commands.show import InputError, Json, Target, name_of, print_json, print_table, read_text, require_place
from stepTP.search import OFFLINE, SEARCHES

if TYPE_CHECKING:
    from stepTP.search.env import Environment
    from stepTP.search.run import Outcome


class Show(StrEnum):
    steps = "steps"
    leir = "leir"
    tir = "tir"
    cuda = "cuda"


def _one_of(help: str, known: Sequence[str]) -> Any:
    """An option whose values are names of modules."""

    def checked(name: str) -> str:
        if name not in known:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, known))}.")
        return name

    return typer.Option(help=help, metavar=f"<{'|'.join(known)}>", callback=checked)


def search(
    file: Annotated[str, typer.Argument(help="A LEIR program, or a PyTorch file (.py); - reads LEIR.")],
    search: Annotated[str, _one_of("What chooses the states to expand.", SEARCHES)] = "beam",
    policy: Annotated[str, _one_of("What proposes steps.", sorted((*OFFLINE, "llm")))] = "heuristic",
    target: Annotated[Target, typer.Option(help="What the program is made fast for.")] = Target.llvm,
    measure: Annotated[bool, typer.Option("--measure", help="Time states, not only predict them.")] = False,
    budget: Annotated[int, typer.Option(help="States that may be evaluated.", min=1)] = 100,
    seconds: Annotated[float | None, typer.Option(help="After which nothing new begins.", min=1)] = None,
    measurements: Annotated[int | None, typer.Option(help="States that may be timed.", min=1)] = None,
    width: Annotated[int, typer.Option(help="Moves taken at a state, states kept by a beam.", min=1)] = 4,
    depth: Annotated[int, typer.Option(help="Moves in a row.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Keys every draw.", min=0)] = 0,
    config: Annotated[Path | None, typer.Option(help="A build's YAML file, whose grid gives the sizes.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run's folder, one a search by default; given again, the search goes on there."),
    ] = None,
    show: Annotated[Show, typer.Option(help="How the best trajectory is printed.")] = Show.steps,
    plot: Annotated[Path | None, typer.Option(help="Where to draw the search, as SVG.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one a core by default.", min=1)] = None,
    endpoint: Annotated[str, typer.Option(help="Of --policy llm: an OpenAI-compatible server's URL.")] = "",
    model: Annotated[str, typer.Option(help="Of --policy llm: the model's name.")] = "",
    samples: Annotated[int, typer.Option(help="Of --policy llm: replies asked for at a state.", min=1)] = 4,
    timeout: Annotated[float, typer.Option(help="Of --policy llm: seconds to wait for a reply.", min=1)] = 600.0,
    requests: Annotated[
        Path | None, typer.Option(help="Of --policy llm, for a server that takes batches: where questions are written.")
    ] = None,
    replies: Annotated[
        Path | None, typer.Option(help="Of --policy llm: the batch's replies, with which the search goes on.")
    ] = None,
    json: Json = False,
) -> None:
    """Search for a fast program, step by verified step, and keep every step as rows. Exit code 1 if none is faster."""
    from stepTP.config import Verify, load_config
    from stepTP.search.protocol import Budget, Settings
    from stepTP.search.run import Asked, run_search
    from stepTP.verify.devices import cuda_devices
    from strategies import catalog
    from strategies.grid import DEFAULT

    grid = load_config(config).grid if config else DEFAULT
    if plot:
        require_place(plot)
    if measure and target is Target.cuda and not cuda_devices():
        raise InputError(f"{file}: no CUDA device here: leave --measure out, or give --target llvm")
    if measurements is not None and not measure:
        raise InputError("--measurements counts what --measure times: give both, or neither")
    if policy != "llm" and (endpoint or model or requests or replies):
        raise InputError(f"--policy {policy} asks no model: give --policy llm, or none of its options")
    options: dict[str, Any] = {}
    if policy == "llm":
        batch = requests is not None or replies is not None
        if not model or bool(endpoint) == batch or (requests is None) != (replies is None):
            raise InputError("--policy llm: give --model NAME, and --endpoint URL or --requests FILE --replies FILE")
        options = {"url": endpoint, "model": model, "count": samples, "timeout_s": timeout}
        if requests is not None:
            require_place(requests)
            options |= {"requests": str(requests), "replies": str(replies)}
    settings = Settings(
        strategies=tuple(sorted(catalog.names())),
        budget=Budget(budget, seconds, measurements),
        seed=seed,
        verify=Verify(),
        target=target.value,
        width=width,
        depth=depth,
        grid=grid,
    )
    asked = Asked(_source(file), search, policy, settings, measure, tuple(options.items()))
    folder = out or Path("runs") / f"search-{asked.source.id}-{asked.key}"
    with _Table() as table:
        found = run_search(asked, folder, workers, table.update)
    env = found.env
    if plot:
        from stepTP.manifest import write_whole
        from stepTP.search.plot import plot as draw

        write_whole(plot, draw(env, f"{name_of(file)}: {search}, {policy}").encode())
    if json:
        from stepTP.search.run import tree_of

        print_json({"run": str(folder), **asked.described(), "ended": found.ended, "rows": found.rows, **tree_of(env)})
    else:
        _print(env, found, folder, show)
    if env.best is env.root:
        raise typer.Exit(1)


def _source(file: str) -> Any:
    """A PyTorch file as a source program, a LEIR file as its row. Raises InputError, ParseError."""
    from stepTP.search.run import leir_source, torch_source

    if file.endswith(".py"):
        return torch_source(Path(file).name, read_text(file))
    from leir.printer import to_text
    from stepTP.commands.language import well_formed

    return leir_source(name_of(file), to_text(well_formed(file)))


def _print(env: "Environment", found: "Outcome", folder: Path, show: Show) -> None:
    best = env.best
    if show is Show.steps:
        rows = [
            (n.number, n.taken.step.strategy if n.taken else "", _arguments(n), _speedup(env, n))
            for n in env.trajectory(best)
        ]
        print_table(("state", "strategy", "arguments", "over source"), rows)
    else:
        from leir.parser import parse

        program = parse(best.state.leir)
        if show is Show.leir:
            print(best.state.leir, end="")
        elif show is Show.tir:
            from leir.lowering import tir_text

            print(tir_text(program))
        else:
            from leir.lowering import cuda_source
            from stepTP.verify.measure.baseline import bound_outermost

            print(cuda_source(bound_outermost(program)))
    print(
        f"{folder}: {len(env.nodes) - 1} states verified, {len(env.rejected)} rejected, {env.measurements} timed; best "
        f"{_speedup(env, best)} by {best.depth} steps ({env.objective.name}); ended: {found.ended}"
    )
    if env.problems:
        print(f"{len(env.problems)} questions to the policy had no answer, the first: {env.problems[0][1].message}")
    if env.visits:
        print("visits by depth: " + ", ".join(f"{depth}: {count}" for depth, count in sorted(env.visits.items())))


def _arguments(node: Any) -> str:
    import json as json_module

    return json_module.dumps(node.taken.step.args) if node.taken else ""


def _speedup(env: "Environment", node: Any) -> str:
    return "" if node.value_s is None else f"{2 ** env.gain(node):.3g}x"


class _Table:
    """The search while it runs, on a terminal's standard error; nothing where nobody looks."""

    def __enter__(self) -> "_Table":
        import sys

        self._live: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def update(self, env: "Environment") -> None:
        if self._live is None:
            return
        from rich.table import Table

        table = Table("state", "after", "step", "steps", "seconds", "over source")
        ranked = sorted((n for n in env.nodes if n.value_s is not None), key=lambda n: (n.value_s, n.number))[:10]
        for node in ranked:
            table.add_row(
                str(node.number), str(node.parent.number) if node.parent else "",
                node.taken.step.strategy if node.taken else "", str(node.depth), f"{node.value_s:.3g}",
                _speedup(env, node),
            )  # fmt: skip
        table.caption = f"{env.evaluations} states, {env.measurements} timed, {env.journal.seconds():.0f} s"
        self._live.update(table)

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
