"""When a child that ended is started again."""

from __future__ import annotations

from compose.backoff import Backoff
from compose.supervisor import describe_exit


def simulate(backoff: Backoff, uptimes: list[float]) -> list[float]:
    """Return the waits after runs of these lengths, on a clock that only exists here."""
    waits: list[float] = []
    previous = None
    for uptime in uptimes:
        previous = backoff.next(previous, uptime)
        waits.append(previous)
    return waits


def test_waits_double_up_to_the_limit() -> None:
    assert simulate(Backoff(first=1, limit=5, healthy=60), [0] * 5) == [1, 2, 4, 5, 5]


def test_a_healthy_run_starts_again_from_the_first_wait() -> None:
    assert simulate(Backoff(first=1, limit=5, healthy=60), [0, 0, 60, 0]) == [1, 2, 1, 2]


def test_a_crash_loop_is_bounded_in_restarts() -> None:
    backoff = Backoff()
    clock, starts, wait = 0.0, 0, None
    while clock < 600:
        starts += 1
        wait = backoff.next(wait, 0.5)
        clock += 0.5 + wait
    assert starts < 70


def test_exits_are_named_as_people_read_them() -> None:
    assert describe_exit(-9) == "SIGKILL"
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(None) == "exit code unknown"
