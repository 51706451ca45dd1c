"""The command line starts quickly and loads no heavy library to print help or a list."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "tvm", "islpy", "lark", "numpy", "sympy", "pyarrow", "datasets", "huggingface_hub")
COMMANDS = (["--help"], ["strategies", "list"], ["strategies", "list", "--json"])


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_start_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['steptp', *{arguments!r}]\n"
        "from stepTP.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stderr.strip().splitlines()[-1] == "[]"


def processor_seconds(*arguments: str) -> float:
    """Of one child: what else the machine does counts as little as it can."""
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_start_costs_little_more_than_the_parser_of_arguments(arguments: list[str]) -> None:
    """Against the import of typer alone, in turns: a slow or shared machine slows both. Quiet: 0.16 s and 0.05 s."""
    own: list[float] = []
    least: list[float] = []
    for _ in range(5):
        own.append(processor_seconds("-m", "stepTP.cli", *arguments))
        least.append(processor_seconds("-c", "import typer"))
    assert min(own) < 8 * min(least), (own, least)


@pytest.mark.parametrize("module", ["stepTP.cli", "typer", "stepTP.commands.rows"])
def test_ctrl_c_while_the_command_line_loads(module: str) -> None:
    """The signal comes when the module is looked for: no traceback, and the exit code of every other Ctrl-C."""
    code = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt()); sys.argv = ['steptp', '--help']\n"
        "from stepTP.start import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
