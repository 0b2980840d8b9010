"""Sliding logs: what counts, from when, until when."""

from __future__ import annotations

from scheduler.core.quota import Spent, Window
from scheduler.core.sliding import SlidingLog


def test_a_call_counts_from_its_grant_until_a_window_after_it_left() -> None:
    log = SlidingLog(Window(limit=2, ms=1000, margin=10))
    log.open("a", Spent(0, 1))
    log.open("b", Spent(0, 1))
    assert (log.room(5000), log.when(5000, 1)) == (0, None), "when they left is not known yet"
    log.close("a", 400)
    assert (log.room(1409), log.when(1409, 1), log.room(1410)) == (0, 1410, 1)


def test_of_several_answers_the_latest_counts_and_an_assumption_least() -> None:
    log = SlidingLog(Window(limit=1, ms=1000))
    log.open("a", Spent(0, 1))
    log.close("a", 100)
    log.close("a", 300)
    log.close("a", 200)
    log.assume("a", 900)
    assert log.when(300, 1) == 1300


def test_calls_that_never_left_are_taken_back() -> None:
    log = SlidingLog(Window(limit=1, ms=1000))
    log.open("a", Spent(0, 1))
    log.undo("a")
    assert log.room(0) == 1


def test_tokens_are_corrected_while_they_count() -> None:
    log = SlidingLog(Window(limit=1000, ms=1000, counts="tokens"))
    log.open("a", Spent(0, 1, 300))
    log.close("a", 0)
    log.correct("a", 900)
    assert (log.room(500), log.when(500, 200)) == (100, 1000)
    log.correct("gone", 5)
    assert log.room(1000) == 1000


def test_what_is_written_down_only_delays() -> None:
    window = Window(limit=100, ms=60_000)
    log, restored = SlidingLog(window), SlidingLog(window)
    for place in range(100):
        log.load([Spent(place * 500, 1)])
    cells = log.spent(50_000)
    restored.load(cells)
    assert len(cells) < 100
    for at in range(50_000, 111_000, 500):
        assert restored.room(at) <= log.room(at)
        assert log.room(at) - restored.room(at) <= 4
    assert restored.room(110_000) == 100
