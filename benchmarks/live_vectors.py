"""Where policy "live" decides otherwise than a vector of format "tangram-live-vectors/1" says."""

from __future__ import annotations

from typing import Any

from scheduler.core.completion import Running, gains
from scheduler.core.events import Action
from scheduler.core.gate import Gate
from scheduler.core.live import LivePolicy


def differences(instance: dict[str, Any]) -> list[str]:
    """Return in words where our decision of one instance differs from the expected one."""
    now, free, running, queue = _read(instance)
    wrong = [f"{row['id']} has other gains" for row in instance["running"] if not _gains_agree(row)]
    policy, gate = LivePolicy(), scene(instance)
    dropped = gate.decide()[0]
    before = {hold.action.id: hold.units["cpu"] for hold in running if hold.action is not None}
    after = {action.id: units for action, units in policy.decide(now, free, running, queue)}
    found = {
        "budget": gate.budget,
        "candidates": [int(action.id) for action in gate.candidates],
        "objective_by_evicted": gate.values(),
        "evicted": [int(action.id) for action in gate.candidates if action.id in dropped],
        "start": {name: units for name, units in after.items() if name not in before},
        "shrink": {name: units for name, units in after.items() if units < before.get(name, 0)},
        "grow": {name: units for name, units in after.items() if units > before.get(name, units)},
        "free_after": free["cpu"] - sum(units - before.get(name, 0) for name, units in after.items()),
    }
    expect = instance["expect"]
    return wrong + [f"{name} is {found[name]}, not {expect[name]}" for name in found if found[name] != expect[name]]


def scene(instance: dict[str, Any]) -> Gate:
    """Return the gate that decides an instance."""
    return LivePolicy().explain(*_read(instance))


def _read(instance: dict[str, Any]) -> tuple[int, dict[str, int], list[Running], list[Action]]:
    now = instance["now"]
    running = [_running(row, now) for row in instance["running"]]
    return now, {"cpu": instance["free"]}, running, [_action(row) for row in instance["queue"]]


def _action(row: dict[str, Any]) -> Action:
    return Action(
        id=str(row["id"]),
        seq=row["id"],
        arrival=row.get("arrival", 0),
        demand={"cpu": row["sizes"][0]},
        key="cpu",
        sizes=tuple(row["sizes"]),
        durations=tuple(row["durations"]),
        malleable=row["malleable"],
    )


def _running(row: dict[str, Any], now: int) -> Running:
    units = {"cpu": row["units"]}
    if not row["malleable"]:
        return Running(row["end"], units)
    action, rank = _action(row), row["sizes"].index(row["units"])
    return Running(now + row["remaining"][rank], units, action, rank, gains(action))


def _gains_agree(row: dict[str, Any]) -> bool:
    return not row["malleable"] or list(gains(_action(row))) == row["value"]
