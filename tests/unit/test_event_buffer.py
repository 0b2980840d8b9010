"""What is told of actions, and that telling costs a bounded amount of memory whatever happens."""

from __future__ import annotations

import pytest

from monitoring.event_buffer import BURST, SETTLE, EventBuffer
from scheduler.facts import Refused, Waits
from tests.support.facts import ended, entry, granted


class Watch:
    now = 10.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def buffer(watch: Watch) -> EventBuffer:
    buffer = EventBuffer(limit=1000, clock=watch)
    buffer.enabled = True
    return buffer


def test_only_who_still_waits_after_a_moment_is_announced_once(buffer: EventBuffer, watch: Watch) -> None:
    quick, slow = entry("quick"), entry("slow")
    buffer.hear(Waits(quick))
    buffer.hear(Waits(slow))
    assert buffer.take().waiting == []
    buffer.hear(granted(quick, 2))
    watch.now += SETTLE
    burst = buffer.take()
    assert [envelope.action for envelope in burst.waiting] == ["slow"]
    assert ("slow", "cpu=1..4", "", "", "", "") in burst.columns
    assert buffer.take().waiting == []


def test_columns_follow_an_action_from_grant_to_end(buffer: EventBuffer) -> None:
    one = entry("a")
    buffer.hear(granted(one, 2))
    buffer.hear(ended(one))
    assert buffer.take().columns == [
        ("a", "cpu=1..4", "cpu=2", "cpu-1", "1.500 s", ""),
        ("a", "cpu=1..4", "cpu=2", "cpu-1", "1.500 s", "10.0 ms"),
    ]


def test_who_is_refused_is_not_announced_any_more(buffer: EventBuffer, watch: Watch) -> None:
    one = entry("a")
    buffer.hear(Waits(one))
    buffer.hear(Refused(one.envelope, "cancelled"))
    watch.now += 1
    burst = buffer.take()
    assert burst.waiting == []
    assert [refused.outcome for refused in burst.over] == ["cancelled"]


def test_what_does_not_fit_is_dropped_and_counted(buffer: EventBuffer, watch: Watch) -> None:
    for number in range(1500):
        buffer.hear(Waits(entry(str(number))))
    assert buffer.dropped == 500
    watch.now += 1
    assert len(buffer.take().waiting) == BURST
    assert len(buffer.take().waiting) == 500
    assert buffer.take().waiting == []


def test_nothing_is_kept_while_nobody_listens(watch: Watch) -> None:
    buffer = EventBuffer(limit=1, clock=watch)
    for number in range(5):
        buffer.hear(Waits(entry(str(number))))
    watch.now += 1
    assert buffer.take().waiting == []
    assert buffer.dropped == 0
