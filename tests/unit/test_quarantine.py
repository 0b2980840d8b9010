"""Quarantine of nodes that answer but start nothing."""

from __future__ import annotations

from scheduler.quarantine import FIRST, LIMIT, Quarantine

MS = 1000


def strike_out(quarantine: Quarantine, now: int, generation: str = "g1") -> None:
    for action in ("a", "b", "c"):
        quarantine.strike("n", generation, action, now)


def test_three_different_actions_in_a_row_put_a_node_into_quarantine() -> None:
    quarantine = Quarantine()
    assert quarantine.strike("n", "g1", "a", 0) is None
    assert quarantine.strike("n", "g1", "b", 0) is None
    record = quarantine.strike("n", "g1", "c", 0)
    assert record is not None
    assert record.times == 1
    assert record.until == FIRST * MS
    assert quarantine.holds("n")


def test_one_action_that_nobody_can_start_is_not_the_nodes_fault() -> None:
    quarantine = Quarantine()
    assert [quarantine.strike("n", "g1", "same", 0) for _ in range(9)] == [None] * 9
    assert not quarantine.holds("n")


def test_an_action_that_ends_wipes_the_slate() -> None:
    quarantine = Quarantine()
    quarantine.strike("n", "g1", "a", 0)
    quarantine.strike("n", "g1", "b", 0)
    quarantine.works("n")
    assert quarantine.strike("n", "g1", "c", 0) is None


def test_on_probation_one_strike_is_enough_and_it_takes_twice_as_long() -> None:
    quarantine = Quarantine()
    strike_out(quarantine, 0)
    assert quarantine.release(9 * MS) == []
    assert quarantine.release(10 * MS) == ["n"]
    assert quarantine.release(10 * MS) == [], "once"
    assert not quarantine.holds("n")
    record = quarantine.strike("n", "g1", "d", 11 * MS)
    assert record is not None
    assert (record.times, record.until) == (2, 31 * MS)


def test_the_pause_is_bounded() -> None:
    quarantine, now = Quarantine(), 0
    strike_out(quarantine, now)
    for turn in range(12):
        now = quarantine.records["n"].until
        quarantine.release(now)
        quarantine.strike("n", "g1", f"again-{turn}", now)
    assert quarantine.records["n"].until - now == LIMIT * MS


def test_a_new_process_begins_with_a_clean_sheet() -> None:
    quarantine = Quarantine()
    strike_out(quarantine, 0)
    assert quarantine.keep_only({"n": "g1"}) == []
    assert quarantine.keep_only({"n": "g2"}) == ["n"]
    assert not quarantine.holds("n")
