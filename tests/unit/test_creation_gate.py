"""How many sandboxes are made at once."""

from __future__ import annotations

import contextlib

import pytest

from workers.creation_gate import CreationGate


@pytest.mark.parametrize(("free", "room"), [(0, 1), (2, 1), (4, 2), (7.5, 3), (64, 4)])
def test_a_busy_node_makes_fewer(free: float, room: int) -> None:
    now = 0.0
    gate = CreationGate(lambda: free, clock=lambda: now)
    assert gate.room == 4
    gate.note_action()
    assert gate.room == room
    now = 1.5
    assert gate.room == 4, "a second without an action"


def test_it_is_quiet_when_nobody_is_inside() -> None:
    gate = CreationGate(lambda: 1.0)
    with contextlib.suppress(ValueError), gate.enter():
        assert not gate.quiet
        raise ValueError("a bad image")
    assert gate.quiet
