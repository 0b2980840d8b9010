"""What happens to a provider's quota while calls wait."""

from __future__ import annotations

from scheduler.core.events import Grant, NodeLost, Released, Restored, Tick
from scheduler.core.quota import CallSent, LaneState, ProviderClosed, Quota, QuotaChanged, QuotaSpent, Spent, Window
from tests.support.core import Driver, action, grants, rejects

SEARCH = "api:search"
MINUTE = Window(limit=2, ms=60_000)


def search(driver: Driver, *names: str, tokens: int = 0) -> dict[str, tuple[str, int]]:
    beside = {"tokens": tokens} if tokens else None
    return grants(driver.submit(*(action(name, key=SEARCH, beside=beside) for name in names)))


def test_a_window_is_kept_by_when_calls_left_and_the_next_start_is_known() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, windows=(MINUTE,)))
    assert list(search(driver, "a0", "a1", "a2")) == ["a0", "a1"]
    assert driver.core.next_wake(0) is None, "when they left is not known yet"
    driver.feed(CallSent(100, "a0", sent=70))
    assert driver.core.next_wake(100) == 60_070
    assert driver.feed(Tick(60_069)) == []
    assert list(grants(driver.feed(Tick(60_070)))) == ["a2"]


def test_who_does_not_tell_has_sent_when_it_ends_also_with_its_node() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, windows=(MINUTE,)))
    driver.api_node("y", search=Quota(concurrency=9, windows=(MINUTE,)))
    search(driver, "a0", "a1", "a2")
    driver.feed(Released(500, "a0"))
    assert driver.core.next_wake(500) == 60_500
    driver.feed(NodeLost(700, "y"))
    driver.feed(CallSent(800, "a1", unsent=True))
    assert driver.core.next_wake(800) == 60_500


def test_calls_that_never_left_make_room_at_once() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, windows=(MINUTE,)))
    search(driver, "a0", "a1", "a2")
    assert list(grants(driver.feed(CallSent(10, "a0", unsent=True)))) == ["a2"]


def test_tokens_are_a_budget_beside_calls() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, windows=(Window(1000, 60_000, "tokens"),)))
    assert list(search(driver, "a0", "a1", "a2", tokens=400)) == ["a0", "a1"]
    assert list(grants(driver.feed(CallSent(5, "a0", sent=5, tokens=100)))) == ["a2"]
    assert rejects(driver.submit(action("a9", key=SEARCH, beside={"tokens": 1001}))) == {"a9": "infeasible"}


def test_each_key_has_a_quota_of_its_own() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=2, keys=2))
    decisions = driver.submit(*(action(f"a{place}", key=SEARCH) for place in range(5)))
    lanes = {row.action: row.lane for row in decisions if isinstance(row, Grant)}
    assert sorted(lanes.values()) == [0, 0, 1, 1]
    driver.feed(ProviderClosed(1, "search", until=1000, lane=lanes["a0"]))
    assert grants(driver.feed(Released(2, "a0"))) == {}
    other = next(name for name, lane in lanes.items() if lane != lanes["a0"])
    assert list(grants(driver.feed(Released(3, other)))) == ["a4"]


def test_a_closed_provider_is_called_by_nobody_until_it_opens() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9))
    driver.feed(ProviderClosed(0, "search", until=2000))
    assert search(driver, "a0", "a1") == {}
    assert driver.core.next_wake(0) == 2000
    assert driver.feed(Tick(1999)) == []
    assert list(grants(driver.feed(Tick(2000)))) == ["a0", "a1"]


def test_limits_set_by_hand_count_at_once_outlast_announcements_and_go() -> None:
    driver = Driver()
    declared = Quota(concurrency=1)
    driver.api_node("x", search=declared)
    assert list(search(driver, "a0", "a1", "a2", "a3")) == ["a0"]
    assert list(grants(driver.feed(QuotaChanged(1, "search", Quota(concurrency=3))))) == ["a1", "a2"]
    driver.api_node("x", search=declared)
    assert list(grants(driver.feed(Released(2, "a0")))) == ["a3"]
    driver.feed(QuotaChanged(3, "search", None))
    assert search(driver, "a5") == {}


def test_a_new_window_knows_what_the_old_one_saw() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, windows=(MINUTE,)))
    search(driver, "a0", "a1")
    driver.feed(CallSent(100, "a0", sent=100))
    driver.feed(QuotaChanged(200, "search", Quota(concurrency=9, windows=(Window(2, 1000),))))
    assert search(driver, "a2") == {}
    assert list(grants(driver.feed(Tick(1100)))) == ["a2"]


def test_an_unknown_limit_is_learned() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=100, adaptive=True))
    assert len(search(driver, *(f"a{place}" for place in range(40)))) == 4
    assert len(grants(driver.feed(ProviderClosed(10, "search", until=10)))) == 0
    driver.feed(Released(20, "a0"))
    assert driver.feed(Released(30, "a1")) == [], "two are in flight, and more it does not bear"
    assert len(grants(driver.feed(Released(40, "a2")))) == 1
    running = ["a3", "a4"]
    most = 0
    for at in range(50, 75):
        running += grants(driver.feed(Released(at, running.pop(0))))
        most = max(most, len(running))
    assert 4 < most < 10, "one more for each full round that went well"


def test_the_next_leader_begins_where_the_last_one_ended() -> None:
    driver, quota = Driver(), Quota(concurrency=9, windows=(MINUTE,))
    driver.feed(QuotaSpent(1000, "search", (LaneState((Spent(500, 1),), closed_until=3000),)))
    driver.feed(Restored(1000, action("a0", key=SEARCH), "x", 1))
    driver.api_node("x", search=quota)
    assert search(driver, "a1") == {}
    driver.feed(CallSent(2000, "a0", sent=900))
    assert driver.core.next_wake(2000) == 60_500
    (lane,) = driver.core.spent()["search"]
    assert (lane.spent, lane.closed_until, lane.in_flight) == ((Spent(500, 1), Spent(900, 1)), 3000, 1)
    assert driver.core.spent() == {}, "nothing has happened since"
