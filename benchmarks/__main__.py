"""`python -m benchmarks NAME --json`: run one measured claim and say whether it holds."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

import click

#: Name of each benchmark and what it measures; the module of that name has `run() -> dict`.
BENCHMARKS = {
    "hop": "time that admission adds between publish and start, against plain Celery",
    "decision": "time of one event in the scheduler core, policy live, 1,536 actions on 15 nodes of 256 cores",
    "scale": "memory and time per event of the scheduler core with 100,000 waiting actions",
    "cpu_overhead": "time that giving and taking a sandbox's cores adds to one action",
    "session": "time of one command in a bash session, against a process of its own",
    "creation_storm": "what making 20 sandboxes does to actions beside it",
    "vectors": "decisions of policy paper against recorded instances",
    "resize": "time to grow and shrink the sandbox of a running action",
    "fidelity": "cores that an action really gets, against a limit by quota alone",
    "sandboxes": "a hundred live sandboxes: memory, creation rate, overhead in any of them",
    "journal": "time that recording a call adds, against an ordinary ACT",
    "qos": "a latency-sensitive action beside best-effort load",
    "fairness": "how much slower a light RL job is beside a heavy one, policy live, simulated",
    "pagein": "page-in of a 455 MB reward model against a copy of the same bytes",
    "services": "six services on the memory of two: residency-first and queue-aware against FCFS and LRU",
    "watching": "what events, metrics and the live page cost the scheduler per action",
    "api": "eight processes under one API quota, against Celery's rate_limit and against limiting clients",
    "in_flight": "calls of one API worker process at once, and what they cost",
    "simulate": "actions that the simulator gets through per CPU second, policy paper, 15 nodes of 256 cores",
}
#: What every result has; `holds` decides the exit code.
KEYS = ("name", "value", "unit", "reach", "holds", "n", "spread", "machine", "detail")


def main(arguments: list[str] | None = None) -> int:
    """Run one benchmark; returns 0 if its claim holds, 1 if not, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[*BENCHMARKS], help="what to measure; without it, list them")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object last")
    parser.add_argument("--swerex", action="store_true", help="cpu_overhead: install SWE-ReX and measure it, too")
    asked = parser.parse_args(arguments)
    if asked.swerex and asked.name != "cpu_overhead":
        parser.error("--swerex belongs to cpu_overhead")
    if asked.name is None:
        for name, what in BENCHMARKS.items():
            click.echo(f"{name:<14} {what}")
        return 0
    result = measure(asked.name, **({"with_swerex": True} if asked.swerex else {}))
    click.echo(readable(result))
    if asked.json:
        click.echo(json.dumps(result))
    return 0 if result["holds"] else 1


def measure(name: str, **options: bool) -> dict[str, Any]:
    """Run a benchmark with options of its own. Raises KeyError naming what its result lacks."""
    result: dict[str, Any] = importlib.import_module(f"benchmarks.{name}").run(**options)
    missing = [key for key in KEYS if key not in result]
    if missing:
        raise KeyError(f"benchmark {name} returned no {', '.join(missing)}")
    return {key: result[key] for key in KEYS}


def readable(result: dict[str, Any]) -> str:
    """Return a result as one line."""
    verdict = "holds" if result["holds"] else "DOES NOT HOLD"
    return f"{result['name']}: {result['value']} {result['unit']} (reach {result['reach']}; n={result['n']}): {verdict}"


if __name__ == "__main__":
    sys.exit(main())
