"""Where policy "paper" decides otherwise than a vector of format "tangram-scheduling-vectors/1" says."""

from __future__ import annotations

from typing import Any

from scheduler.core.candidates import candidates
from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.paper import GroupDecision, PaperPolicy


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
