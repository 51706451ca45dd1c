"""What a contest of searches found, as JSON and as tables."""

import math
from collections.abc import Sequence
from typing import Any

from stepTP.search.contest import Contest, Run

BUDGET = ("evaluations", "measurements", "width", "depth", "attempts", "seed")
MEASURES = ("over_source", "over_eager", "over_compiled", "of_limit")


def report(contest: Contest, seconds: float, errors: Sequence[str] = ()) -> dict[str, Any]:
    """All that is known. `errors`: of parts that failed through no program's fault."""
    described = [_described(run, contest.limits) for run in contest.runs]
    return {
        "seconds": round(seconds, 1),
        "limits": dict(contest.limits),
        "budget": {name: contest.told[name] for name in BUDGET},
        "errors": list(errors),
        "programs": [
            {"name": p.name, "bound": p.bound, "problem": p.problem, "baselines": dict(p.baselines), "work": p.work,
             "leir": p.row.leir if p.row else None}
            for p in contest.programs
        ],
        "runs": described,
        "table": table(described),
    }  # fmt: skip


def _described(run: Run, limits: dict[str, Any]) -> dict[str, Any]:
    program, env = run.program, run.env
    found: dict[str, Any] = {
        "program": program.name,
        "bound": program.bound,
        "search": run.search,
        "policy": run.policy,
    }
    found["ended"] = run.ended or "running"
    if env is None:
        return found
    nodes = list(env.nodes)
    valued = [node for node in nodes if node.value_s is not None and math.isfinite(node.value_s)]
    if not valued:
        return found
    best = min(valued, key=lambda node: (node.value_s, node.number))
    assert best.value_s is not None
    source = nodes[0].value_s
    found |= {
        "evaluations": env.evaluations, "measurements": env.measurements, "visits": dict(env.visits),
        "source_s": source, "best_s": best.value_s, "best_steps": best.depth,
        "over_source": (source or 0) / best.value_s,
        "steps": [step.model_dump() for step in best.state.path], "best_leir": best.state.leir,
        "values": [[node.number, node.value_s] for node in valued],
        "problems": [f"{node.depth} steps: {node.note}" for node in nodes if node.note][:5],
    }  # fmt: skip
    for name, baseline in program.baselines.items():
        if baseline.get("seconds"):
            found[f"over_{name}"] = baseline["seconds"] / best.value_s
    if "bytes_per_s" in limits and program.work.get("bytes"):
        limit = max(program.work["bytes"] / limits["bytes_per_s"], program.work["flops"] / limits["flops_per_s"])
        found["of_limit"] = limit / best.value_s
    return found


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each search and policy, and for the best of all: of each ratio the number, best, mean and geometric mean."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        if "best_s" in run:
            groups.setdefault((run["search"], run["policy"]), []).append(run)
    best: dict[str, dict[str, Any]] = {}
    for run in (run for group in groups.values() for run in group):
        if run["program"] not in best or run["best_s"] < best[run["program"]]["best_s"]:
            best[run["program"]] = run
    groups["best of all", "all programs"] = list(best.values())
    groups["best of all", "memory-bound"] = [run for run in best.values() if run["bound"] == "memory"]
    groups["best of all", "compute-bound"] = [run for run in best.values() if run["bound"] == "compute"]
    return [
        {"search": search, "policy": policy, "programs": len(group)} | {name: _means(group, name) for name in MEASURES}
        for (search, policy), group in groups.items()
    ]


def _means(group: list[dict[str, Any]], name: str) -> dict[str, float] | None:
    values = [run[name] for run in group if run.get(name)]
    if not values:
        return None
    return {
        "count": len(values),
        "best": max(values),
        "mean": sum(values) / len(values),
        "geomean": math.exp(sum(map(math.log, values)) / len(values)),
    }


def print_tables(report: dict[str, Any]) -> None:
    """What the searches reached, and for each program the best of all."""
    print("| search | policy | programs | " + " | ".join(f"{name} geomean (mean, best)" for name in MEASURES) + " |")
    print("|---|---|---|" + "---|" * len(MEASURES))
    for line in report["table"]:
        cells = [
            f"{found['geomean']:.3g} ({found['mean']:.3g}, {found['best']:.3g})" if (found := line[name]) else "-"
            for name in MEASURES
        ]
        print(f"| {line['search']} | {line['policy']} | {line['programs']} | {' | '.join(cells)} |")
    print("\n| program | bound | ms | over source | over eager | over torch.compile | of limit | by | steps |")
    print("|---|---|---|---|---|---|---|---|---|")
    for program in report["programs"]:
        found = [run for run in report["runs"] if run["program"] == program["name"] and "best_s" in run]
        if not found:
            print(f"| {program['name']} | {program['bound']} | {program['problem'] or 'not timed'} | | | | | | |")
            continue
        run = min(found, key=lambda run: run["best_s"])
        ratios = " | ".join(f"{run[name]:.3g}" if name in run else "-" for name in MEASURES)
        by = f"{run['search']}, {run['policy']}"
        head = f"| {program['name']} | {program['bound']} | {run['best_s'] * 1e3:.4f}"
        print(f"{head} | {ratios} | {by} | {run['best_steps']} |")
    for run in report["runs"]:
        if run["search"] == "mcts" and run.get("visits"):
            print(f"mcts visits by depth, {run['program']}, {run['policy']}: {run['visits']}")
    ended: dict[str, int] = {}
    for run in report["runs"]:
        ended[run["ended"][:60]] = ended.get(run["ended"][:60], 0) + 1
    print(f"{report['seconds']} s; " + "; ".join(f"{count} {why}" for why, count in ended.items()))
