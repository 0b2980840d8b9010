"""Recompute decision vectors with policy "paper" and compare: `python -m benchmarks.vectors FILE`.

Without a file, the few that are packaged are used. The file format is "tangram-scheduling-vectors/1": instances with
`free`, `running`, `queue`, `now`, `depth`, and what is expected of each.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from benchmarks.machine import machine
from scheduler.core.candidates import candidates
from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.paper import GroupDecision, PaperPolicy
from tangram_tasks.errors import ConfigurationError

PACKAGED = Path(__file__).with_name("decision_vectors.json")
FORMAT = "tangram-scheduling-vectors/1"


def load(path: Path) -> list[dict[str, Any]]:
    """Return the instances of a vectors file. Raises ConfigurationError if it cannot be read as one."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise ConfigurationError(f"cannot read the vectors file {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"the vectors file {path} is not JSON: {error}") from None
    found = document.get("format") if isinstance(document, dict) else None
    if found != FORMAT:
        raise ConfigurationError(f"{path} has format {found!r}, not {FORMAT!r}")
    instances = document.get("instances")
    if not isinstance(instances, list):
        raise ConfigurationError(f"the vectors file {path} has no list of instances")
    return instances


def differences(instance: dict[str, Any]) -> list[str]:
    """Return in words where our decision of one instance differs from the expected one."""
    now, free = instance["now"], instance["free"]
    running = [Running(row["end"], row["units"]) for row in instance["running"]]
    queue = [_action(row, place) for place, row in enumerate(instance["queue"])]
    policy = PaperPolicy(instance["depth"])
    expect = instance["expect"]
    found = {
        "candidates": [int(action.id) for action in candidates(queue, free)],
        "decision": {action.id: units for action, units in policy.decide(now, free, running, queue)},
    }
    wrong = [f"{name} is {found[name]}, not {expect[name]}" for name in found if found[name] != expect[name]]
    groups = {group.key: group for group in policy.explain(now, free, running, queue)}
    if groups.keys() != expect["groups"].keys():
        return [*wrong, f"the groups are {sorted(groups)}, not {sorted(expect['groups'])}"]
    for key, group in groups.items():
        wrong += _group_differences(group, expect["groups"][key])
    return wrong


def compare(instances: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the differences of each instance that has some, by its name."""
    return {instance["name"]: found for instance in instances if (found := differences(instance))}


def run() -> dict[str, Any]:
    """Compare the packaged vectors; for `python -m benchmarks`."""
    instances = load(PACKAGED)
    wrong = compare(instances)
    return {
        "name": "vectors",
        "value": len(instances) - len(wrong),
        "unit": "equal decisions",
        "reach": f"all {len(instances)}",
        "holds": not wrong,
        "n": len(instances),
        "spread": {},
        "machine": machine(),
        "detail": wrong,
    }


def _action(row: dict[str, Any], place: int) -> Action:
    return Action(
        id=str(row["id"]),
        seq=place,
        arrival=row["arrival"],
        demand=row["demand"],
        key=row["key"],
        sizes=tuple(row["sizes"]),
        durations=tuple(row["durations"]),
    )


def _group_differences(group: GroupDecision, expect: dict[str, Any]) -> list[str]:
    found = {
        "members": [int(name) for name in group.members],
        "later": [int(name) for name in group.later],
        "budget": group.budget,
        "dp_total_by_prefix": list(group.dp_total_by_prefix),
        "objective_by_kept": {str(kept): value for kept, value in group.objective_by_kept.items()},
        "kept": group.kept,
        "evicted": [int(name) for name in group.evicted],
        "alloc": group.alloc,
        "objective": group.objective,
    }
    return [
        f"{group.key} {name} is {value}, not {expect[name]}" for name, value in found.items() if value != expect[name]
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison. Returns 0 if all are equal, 1 if some differ, 2 if the file is no vectors file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vectors", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=PACKAGED, help="a vectors file in JSON")
    try:
        instances = load(parser.parse_args(arguments).file)
    except ConfigurationError as error:
        click.echo(f"error: {error}", err=True)
        return 2
    wrong = compare(instances)
    totals = Counter(instance["kind"] for instance in instances)
    bad = Counter(instance["kind"] for instance in instances if instance["name"] in wrong)
    click.echo(f"{'kind':<20} {'instances':>9} {'equal':>6} {'differ':>6}")
    for kind, total in totals.items():
        click.echo(f"{kind:<20} {total:>9} {total - bad[kind]:>6} {bad[kind]:>6}")
    click.echo(f"{'all':<20} {len(instances):>9} {len(instances) - len(wrong):>6} {len(wrong):>6}")
    for name, found in wrong.items():
        click.echo(f"{name}: {'; '.join(found)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
