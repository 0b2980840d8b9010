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


@pytest.mark.parametrize(("free", "rests"), [(0.0, True), (1.5, True), (2.0, False)])
def test_beside_actions_that_hold_all_cores_a_place_rests_as_long_as_it_was_used(free: float, rests: bool) -> None:
    clock = Clock()
    gate = CreationGate(lambda: free, clock=clock)
    gate.note_action()
    with gate.enter():
        clock.now += 0.4
    gate.note_action()
    assert gate.resting is rests
    clock.now += 0.5
    assert not gate.resting


def test_nobody_rests_on_a_quiet_node_and_nobody_long() -> None:
    clock = Clock()
    gate = CreationGate(lambda: 0.0, clock=clock)
    with gate.enter():
        clock.now += 30.0
    quiet = gate.resting
    gate.note_action()
    at_once = gate.resting
    clock.now += 1.0
    assert (quiet, at_once, gate.resting) == (False, True, False)


class Clock:
    """Says what it is told to; s."""

    now = 0.0

    def __call__(self) -> float:
        return self.now
