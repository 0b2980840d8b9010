"""What each policy pages out first."""

from __future__ import annotations

from dataclasses import replace

from tests.support.recorded import Recorded, touch
from workers.arena import ALIGNMENT
from workers.outlook import LOOK_AHEAD, Outlook
from workers.page_out import Idle, Lru, QueueAware
from workers.pager import Pager
from workers.paging import Paging
from workers.residency import HALF_LIFE, Entry, Residency

IDLE = Idle(nbytes=10**9, age=5, heat=1.0, seconds=0.1, next_use=None)


def test_lru_keeps_what_was_used_last() -> None:
    assert Lru().worth(replace(IDLE, age=1)) > Lru().worth(replace(IDLE, age=2, next_use=0, heat=99.0))


def test_what_is_waited_for_is_worth_more_than_anything_else() -> None:
    worth = QueueAware().worth
    assert worth(replace(IDLE, next_use=10**6)) > worth(replace(IDLE, heat=1e9, seconds=1e9))


def test_the_nearer_use_is_worth_more() -> None:
    worth = QueueAware().worth
    assert worth(replace(IDLE, next_use=0)) > worth(replace(IDLE, next_use=1)) > worth(replace(IDLE, next_use=63))


def test_without_a_known_use_it_is_cost_times_frequency_per_byte() -> None:
    worth = QueueAware().worth
    assert worth(replace(IDLE, heat=2.0)) > worth(IDLE)
    assert worth(replace(IDLE, seconds=0.2)) > worth(IDLE)
    assert worth(replace(IDLE, nbytes=2 * 10**9)) < worth(IDLE)


def test_old_uses_fade() -> None:
    entry = Entry("a", Recorded(1))
    for now in range(1, 11):
        entry.use(now)
    warm = entry.heat_at(10)
    assert 9 < warm < 10
    assert entry.heat_at(10 + HALF_LIFE) == warm / 2


def test_the_pager_asks_the_queue() -> None:
    waiting: dict[str, int] = {"a": 0}
    pager = Pager("gpu-0", 4 * ALIGNMENT, Paging(next_uses=lambda: waiting))
    for name in ("a", "b", "c"):
        pager.register(name, Recorded(2))
    touch(pager, "a", "b", "c")  # LRU would have paged a out
    assert [pager.residency(name) for name in "abc"] == [Residency.RESIDENT, Residency.PARKED, Residency.RESIDENT]


def test_the_outlook_puts_those_who_wait_here_first() -> None:
    outlook = Outlook()
    outlook.hint(["x", "y", "a"])
    with outlook.wait("a1", "a"), outlook.wait("a2", "b"), outlook.wait("a3", "a"):
        assert outlook.next_uses() == {"a": 0, "b": 1, "x": 3, "y": 4}
    assert outlook.next_uses() == {"x": 0, "y": 1, "a": 2}
    outlook.hint([])
    assert outlook.next_uses() == {}


def test_the_outlook_ends_somewhere() -> None:
    outlook = Outlook()
    outlook.hint([f"s{number}" for number in range(2 * LOOK_AHEAD)])
    assert len(outlook.next_uses()) == LOOK_AHEAD
