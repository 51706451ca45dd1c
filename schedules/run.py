"""`python -m schedules NAME --size ... [--tiles ...]`: prints a trajectory, and measures it on this machine's GPU.

NAME is a module of this folder. `--tiles` are JSON of the trajectory's keyword arguments:
    python -m schedules matmul --size 2048 2048 2048 --tiles '{"block": [128, 128, 16], "thread": [8, 8]}' --measure all
"""

import argparse
import fcntl
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from leir.canonical import state_id
from leir.printer import to_text
from schedules import NAMES
from schedules.trajectory import Trajectory


def main(given: list[str] | None = None) -> int:
    """Exit code 1 where a result was wrong or the GPU could not run a state; argparse's 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        "schedules", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--size", type=int, nargs="+", required=True, help="as the module's trajectory takes them")
    parser.add_argument("--tiles", type=json.loads, default={}, help="JSON object of its keyword arguments")
    parser.add_argument("--measure", choices=("all", "last"), help="time every state, or the last, on the GPU")
    parser.add_argument("--lock", type=Path, help="file to hold while the GPU is used: one process at a time measures")
    parser.add_argument("--json", type=Path, help="where to write steps, states and times")
    options = parser.parse_args(given)
    size: tuple[int, ...] = tuple(options.size)
    begun = time.process_time()
    found = trajectory(options.name, size, options.tiles)
    built_s = time.process_time() - begun
    report: dict[str, Any] = {"name": options.name, "size": size, "tiles": options.tiles, "built_s": built_s}
    report["source"] = to_text(found.states[0])
    report["steps"] = [
        {**step.to_json(), "state_id": state_id(state)}
        for step, state in zip(found.steps, found.states[1:], strict=True)
    ]
    report["result"] = to_text(found.program)
    if options.measure:
        from schedules.measure import measure

        last = len(found.states) - 1
        numbers = tuple(range(last + 1)) if options.measure == "all" else (last,)
        report["measured"] = measure(found, options.name, size, numbers, _turn(options.lock))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    _print(report)
    return 1 if any("error" in state for state in report.get("measured", {}).get("states", ())) else 0


def trajectory(name: str, size: tuple[int, ...], tiles: dict[str, Any]) -> Trajectory:
    """The trajectory of a module; lists of tiles as tuples."""
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in tiles.items()}
    return import_module(f"schedules.{name}").trajectory(*size, **arguments)


@contextmanager
def _turn(lock: Path | None) -> Iterator[None]:
    """Holds a lock of all processes that measure, if there is one."""
    if lock is None:
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _print(report: dict[str, Any]) -> None:
    measured = report.get("measured", {})
    notes = {
        state["number"]: f"  {state['seconds'] * 1e3:.4f} ms" if "seconds" in state else f"  {state['error']}"
        for state in measured.get("states", ())
    }
    print(report["source"])
    for number, step in enumerate(report["steps"], 1):
        shown = json.dumps({"strategy": step["strategy"], "args": step["args"]})
        print(f"{number:3} {step['state_id'][:12]} {shown}{notes.get(number, '')}")
    print(report["result"])
    print(f"{len(report['steps'])} steps in {report['built_s']:.1f} s of processor time")
    if "seconds" in measured:
        source = f"{measured['over_source']:.1f} times the source's speed, " if "over_source" in measured else ""
        print(
            f"{measured['seconds'] * 1e3:.4f} ms: {source}{measured['over_eager']:.3f} of PyTorch's, "
            f"{measured['of_limit']:.3f} of the limit ({measured['limit']})"
        )


if __name__ == "__main__":
    sys.exit(main())
