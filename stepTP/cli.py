"""The command line: `steptp`.

Exit codes: 0 done and clean; 1 the answer is no (a program is not clean, a step is refused, a row does not verify);
2 bad input, said in one line with the file, the place and the remedy; 130 stopped by Ctrl-C. A bug shows its traceback.
"""

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

import typer

from stepTP.commands import (
    build,
    evaluating,
    export,
    language,
    listing,
    measure,
    minimising,
    overlap,
    publishing,
    reporting,
    rows,
    scaffolding,
    scoring,
    searching,
    steps,
    teaching,
    translating,
)

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
app.add_typer(scaffolding.new, name="new")
app.command("translate")(translating.translate)
app.command("check")(language.check)
app.command("run")(language.run)
app.command("lower")(language.lower)
app.command("candidates")(steps.candidates)
app.command("apply")(steps.apply)
app.command("verify")(rows.verify)
app.command("measure")(measure.measure)
app.command("minimise")(minimising.minimise)
app.command("replay")(rows.replay)
app.command("rephrase")(teaching.rephrase)
app.command("score")(scoring.score)
app.command("search")(searching.search)
app.add_typer(evaluating.evaluation, name="eval")
app.command("export")(export.export)
app.command("push")(publishing.push)
app.command("report")(reporting.report)
app.command("diff")(reporting.diff)
app.command("stats")(rows.stats)
app.command("balance")(overlap.balance)
app.command("decontaminate")(overlap.decontaminate)
app.command("show")(rows.show)

# The errors that a person meets, by module: one whose module is not loaded was not raised.
_EXPECTED = {
    "stepTP.commands.show": ("InputError",),
    "stepTP.chat": ("ChatError",),
    "stepTP.config": ("ConfigError",),
    "stepTP.evaluate.questions": ("EvaluationError",),
    "stepTP.export.programs": ("NotSpelled",),
    "stepTP.export.write": ("ExportError",),
    "stepTP.manifest": ("RunError",),
    "stepTP.measurements": ("MeasureError",),
    "stepTP.minimise.subject": ("SubjectError",),
    "stepTP.publish.folder": ("PublishError",),
    "stepTP.records": ("RowError",),
    "stepTP.scale": ("NoExecutor",),
    "stepTP.search.env": ("SearchError",),
    "stepTP.search.journal": ("JournalError",),
    "stepTP.tokens": ("NoVocabulary",),
    "stepTP.verify.devices": ("DeviceBusy",),
    "stepTP.verify.spawn": ("PoolError",),
    "strategies.catalog": ("StepError",),
    "strategies.packages": ("PackageError",),
    "leir.parser": ("ParseError",),
    "leir.interp": ("InterpreterError",),
}


def _expected() -> tuple[type[Exception], ...]:
    return tuple(getattr(sys.modules[m], name) for m, names in _EXPECTED.items() if m in sys.modules for name in names)


_UsageError: Any = typer.BadParameter.__base__  # of the command line itself; typer names it nowhere else

_INTERRUPTED = 130  # Ctrl-C
# What is left of a command that Ctrl-C stopped, by its name.
_STOPPED = {
    "build": "stopped; nothing is half-written, and the build goes on where it was when it is given again",
    "measure": "stopped; the table of a run has what was timed, and the rest is timed when it is given again",
    "minimise": "stopped; what is shown, if anything, is the smallest so far that fails",
}

# What to do about errors of the system, by number.
_REMEDIES = {
    errno.EACCES: "allow it, or name another place",
    errno.EROFS: "name a place that can be written",
    errno.ENOSPC: "make room, or name a place on another disk",
    errno.EDQUOT: "make room, or name a place on another disk",
    errno.ENOENT: "make its folder first, or name another place",
    errno.ENOTDIR: "name a place in a folder",
    errno.EISDIR: "name a file in it",
    errno.EEXIST: "name a folder",
    errno.ENAMETOOLONG: "name it shorter",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


def main() -> None:
    """Runs the command of `sys.argv`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who called
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 (to the end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file's name need not be text, nor a terminal take every character
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(prog_name="steptp", standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        sys.exit(_usage(error))
    except BrokenPipeError:  # who reads has had enough, like `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except MemoryError as error:
        sys.exit(_say(f"not enough memory ({error or 'none left'}): make the program's sizes smaller"))
    except OSError as error:
        remedy = f": {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else ""
        sys.exit(_say(f"{error.filename or 'output'}: {error.strerror or error}{remedy}"))
    except _expected() as error:
        sys.exit(_say(str(error)))
    if code == _INTERRUPTED:
        _say(_STOPPED.get(next(iter(sys.argv[1:]), ""), "stopped; nothing is half-written"))
    sys.exit(code or 0)


def _usage(error: Any) -> int:
    """What is wrong with a command line; a command without arguments shows its help."""
    command = error.ctx.command_path if error.ctx else "steptp"
    message = error.format_message()
    if "\n" in message:
        print(message, file=sys.stderr)
        return 2
    return _say(f"{message.rstrip('.').replace('Value error, ', '')}: see {command} --help")


def _say(message: str) -> int:
    print(f"steptp: {' '.join(message.splitlines())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
