"""Idle sandboxes give their page cache back, once per idle time, and wake with the next action."""

from __future__ import annotations

from tests.support.sandboxes import FakeControl, fake_sandbox
from workers.cpu_book import Share

SHARE = Share(1, (0,))


def test_once_per_idle_time() -> None:
    control = FakeControl()
    sandbox = fake_sandbox(control)
    assert [sandbox.pause(0.0), sandbox.pause(0.0)] == [True, False]
    sandbox.grow(SHARE, 1.0)
    assert control.size == (1.0, (0,)), "it wakes at once"
    assert not sandbox.pause(0.0), "an action runs"
    sandbox.shrink(SHARE, 1.0)
    assert sandbox.pause(0.0)
    assert control.reclaims == 2


def test_not_before_its_time() -> None:
    assert not fake_sandbox(FakeControl()).pause(60.0)


def test_an_action_that_starts_meanwhile_neither_waits_nor_pays() -> None:
    control = FakeControl()
    sandbox = fake_sandbox(control)
    control.on_reclaim = lambda: sandbox.grow(SHARE, 1.0)
    assert sandbox.pause(0.0)
    assert control.reclaims_cut == 1
    assert control.size == (1.0, (0,))


def test_one_that_is_removed_is_left_alone() -> None:
    control = FakeControl()
    sandbox = fake_sandbox(control)
    sandbox.remove()
    assert not sandbox.pause(0.0)
    assert control.reclaims == 0
