"""Who gives a lease back, and when: its action, or the reaper."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tangram_tasks.errors import InvalidAction, ServiceUnavailable
from workers.lease_book import TTL, LeaseBook
from workers.service_lease import ServiceLease

if TYPE_CHECKING:
    from workers.service import Service


class Clock:
    """Says what it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Busy(ServiceLease):
    """A lease with a run that ends when told."""

    busy = True

    def end(self, then: Callable[[], None]) -> bool:
        self.finish = then
        return super().end(then) if not self.busy else False

    @property
    def units(self) -> int:
        return 2


def _lease(deadline: float = 10.0) -> ServiceLease:
    return ServiceLease(cast("Service", SimpleNamespace(name="toy")), "a1", deadline)


def test_a_lease_is_given_back_once_whatever_happens() -> None:
    book, ends = LeaseBook("gpu-1"), list[str]()

    def fail() -> None:
        with book.lease("a1", _lease()) as held:
            held.callback(ends.append, "end")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert ends == ["end"]
    assert book.find("a1") is None


def test_an_action_has_one_lease() -> None:
    book = LeaseBook("gpu-1")
    with (
        book.lease("a1", _lease()),
        pytest.raises(InvalidAction, match="a1 already has a lease on node gpu-1"),
        book.lease("a1", _lease()),
    ):
        pytest.fail("it has one")


def test_a_lease_long_past_its_deadline_is_taken_back() -> None:
    clock, ends = Clock(), list[str]()
    book = LeaseBook("gpu-1", clock=clock)
    lease = _lease(deadline=10.0)
    with book.lease("a1", lease) as held:
        held.callback(ends.append, "end")
        clock.now = 10.0 + TTL
        assert book.reap() == []
        clock.now += 1.0
        assert book.reap() == ["a1"]
        assert ends == ["end"]
        with pytest.raises(ServiceUnavailable, match="has ended"):
            lease.check()
    assert ends == ["end"]


def test_the_lease_of_a_thread_that_is_gone_is_taken_back() -> None:
    book, ends, kept = LeaseBook("gpu-1"), list[str](), list[ExitStack]()

    def forget() -> None:
        outer = ExitStack()
        held = outer.enter_context(book.lease("a1", _lease(deadline=1e12)))
        held.callback(ends.append, "end")
        kept.append(outer)  # never closed

    thread = threading.Thread(target=forget)
    thread.start()
    thread.join()
    assert book.reap() == ["a1"]
    assert ends == ["end"]
    kept.pop().close()
    assert ends == ["end"]


def test_what_does_not_end_keeps_its_devices_and_counts_as_stuck() -> None:
    book, ends = LeaseBook("gpu-1"), list[str]()
    lease = Busy(cast("Service", SimpleNamespace(name="toy")), "a1", 10.0)
    with book.lease("a1", lease) as held:
        held.callback(ends.append, "end")
    assert (book.stuck, ends) == (2, [])
    lease.finish()
    assert (book.stuck, ends) == (0, ["end"])


def test_a_closed_book_names_why() -> None:
    book = LeaseBook("gpu-1")
    lease = _lease()
    with book.lease("a1", lease):
        assert book.close("the node is stopping") == [lease]
    assert book.close("again") is None
    with (
        pytest.raises(ServiceUnavailable, match="the node is stopping: action a2 gets no service"),
        book.lease("a2", _lease()),
    ):
        pytest.fail("it is closed")
