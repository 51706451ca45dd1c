"""The command line: `steptp`.

Exit codes: 0 done and clean; 1 the answer is no (a program is not clean, a step is refused, a row does not verify);
2 bad input, said in one line with the file, the place and the remedy. A bug shows its traceback.
"""

import sys

import typer

from stepTP.commands import build, language, listing, rows, steps, translating

app = typer.Typer(
    name="steptp",
    help="Datasets of atomic, verified, explained steps of tensor-program optimisation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("build")(build.build)
app.command("status")(build.status)
app.add_typer(listing.strategies, name="strategies")
app.add_typer(listing.sources, name="sources")
app.command("translate")(translating.translate)
app.command("check")(language.check)
app.command("run")(language.run)
app.command("lower")(language.lower)
app.command("candidates")(steps.candidates)
app.command("apply")(steps.apply)
app.command("verify")(rows.verify)
app.command("replay")(rows.replay)
app.command("stats")(rows.stats)
app.command("show")(rows.show)

# The errors that a person meets, by module: one whose module is not loaded was not raised.
_EXPECTED = {
    "stepTP.commands.show": ("InputError",),
    "stepTP.config": ("ConfigError",),
    "stepTP.manifest": ("RunError",),
    "stepTP.records": ("RowError",),
    "stepTP.tokens": ("NoVocabulary",),
    "stepTP.verify.pool": ("PoolError",),
    "strategies.catalog": ("StepError",),
    "leir.parser": ("ParseError",),
    "leir.interp": ("InterpreterError",),
}


def _expected() -> tuple[type[Exception], ...]:
    return tuple(getattr(sys.modules[m], name) for m, names in _EXPECTED.items() if m in sys.modules for name in names)


def main() -> None:
    """Runs the command of `sys.argv`."""
    try:
        app(prog_name="steptp")
    except OSError as error:  # a full disk, a folder that may not be written
        sys.exit(_say(f"{error.filename or 'output'}: {error.strerror or error}"))
    except _expected() as error:
        sys.exit(_say(str(error)))


def _say(message: str) -> int:
    print(f"steptp: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
