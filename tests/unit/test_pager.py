"""The pager's books, with services that only record what is done to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from tangram_tasks.errors import ConfigurationError, ServiceUnavailable
from tests.support.recorded import FOREVER, NOW, Recorded, pager_of, touch
from workers.arena import ALIGNMENT
from workers.pager import Pager
from workers.residency import PageIn, Residency


@contextmanager
def _pin(pager: Pager, service: str, action: str = "a1", deadline: float = FOREVER) -> Iterator[PageIn]:
    with pager.pin(service, action=action, deadline=deadline) as cost:
        yield cost


def test_a_resident_service_is_not_copied_again() -> None:
    pager, services = pager_of(4, a=2)

    leased = []
    with _pin(pager, "a") as first:
        leased.append(services["a"].leased)
    leased.append(services["a"].leased)
    with _pin(pager, "a") as second:
        leased.append(services["a"].leased)

    assert leased == [True, False, True]
    assert (first.count, second.count) == (1, 0)
    assert services["a"].page_ins == 1
    assert (pager.counters.hits, pager.counters.page_ins, pager.counters.bytes_in) == (1, 1, 2 * ALIGNMENT)


def test_the_least_recently_used_service_makes_room() -> None:
    pager, services = pager_of(4, a=2, b=2, c=2)
    touch(pager, "a", "b", "a", "c")

    assert services["b"].offset is None
    assert services["a"].offset is not None
    assert [pager.residency(name) for name in "abc"] == [Residency.RESIDENT, Residency.PARKED, Residency.RESIDENT]
    assert pager.counters.page_outs == 1


def test_a_pinned_service_is_never_paged_out() -> None:
    pager, services = pager_of(4, a=2, b=2, c=4)

    with _pin(pager, "a", "holder"), pytest.raises(ServiceUnavailable) as refused, _pin(pager, "c", "late", NOW - 1):
        pytest.fail("c cannot fit beside a")

    assert services["a"].offset is not None
    assert all(word in str(refused.value) for word in ("service c", "action late", "gpu-0", "holder"))


def test_a_waiting_action_starts_when_a_pin_ends() -> None:
    pager, services = pager_of(2, a=2, b=2)
    waiting = threading.Event()

    def use_b() -> int:
        waiting.set()
        with _pin(pager, "b", "second") as cost:
            return cost.count

    with ThreadPoolExecutor(1) as threads:
        with _pin(pager, "a", "first"):
            answer = threads.submit(use_b)
            assert waiting.wait(10)
            assert services["b"].page_ins == 0
        assert answer.result(10) == 1
    assert services["a"].offset is None


def test_two_actions_that_want_one_service_page_it_in_once() -> None:
    pager, services = pager_of(2, a=2)
    services["a"].gate = threading.Event()

    def use(action: str) -> int:
        with _pin(pager, "a", action) as cost:
            return cost.count

    with ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(use, action) for action in ("first", "second")]
        assert services["a"].entered.wait(10)
        services["a"].gate.set()
        assert sorted(answer.result(10) for answer in answers) == [0, 1]
    assert services["a"].page_ins == 1


def test_a_page_in_that_fails_gives_its_room_back_and_is_not_tried_again() -> None:
    pager, services = pager_of(2, a=2, b=2)
    services["a"].fault = RuntimeError("wrong bytes")

    with pytest.raises(ServiceUnavailable, match="could not be paged in on device gpu-0 for a1: wrong bytes"):
        touch(pager, "a")
    with pytest.raises(ServiceUnavailable, match="has failed on device gpu-0: page-in: wrong bytes"):
        touch(pager, "a")

    touch(pager, "b")
    assert pager.residency("a") is Residency.FAILED
    assert services["a"].page_ins == 1
    assert pager.counters.page_outs == 0


def test_an_undeclared_change_of_weights_fails_the_action_and_the_service() -> None:
    pager, services = pager_of(2, a=2)
    services["a"].problem = "it changed a buffer"

    with pytest.raises(ServiceUnavailable, match="action a1: it changed a buffer"):
        touch(pager, "a")
    assert pager.residency("a") is Residency.FAILED
    assert services["a"].offset is None


def test_an_error_of_the_body_is_not_hidden_by_a_changed_service() -> None:
    pager, services = pager_of(2, a=2)
    services["a"].problem = "it changed a buffer"

    with pytest.raises(KeyError, match="mine"), _pin(pager, "a"):
        raise KeyError("mine")
    assert not services["a"].leased


def test_a_service_larger_than_the_device_is_refused_at_once() -> None:
    pager = Pager("gpu-0", 2 * ALIGNMENT)

    with pytest.raises(ConfigurationError, match=r"service big needs .* gpu-0"):
        pager.register("big", Recorded(3))


def test_a_device_is_ranked_by_what_a_lease_would_cost() -> None:
    pager, services = pager_of(4, a=2, b=2, c=2, broken=2)
    touch(pager, "a")
    assert (pager.cost("a"), pager.cost("b")) == (0, 1)
    services["broken"].fault = RuntimeError("wrong bytes")
    with pytest.raises(ServiceUnavailable):
        touch(pager, "broken")
    touch(pager, "b")
    assert (pager.cost("c"), pager.cost("broken")) == (2, 3)


def test_closing_pages_everything_out_and_refuses_the_rest() -> None:
    pager, services = pager_of(4, a=2, b=2)
    touch(pager, "a", "b")

    assert pager.close(NOW)
    assert services["a"].offset is services["b"].offset is None
    with pytest.raises(ServiceUnavailable, match="shutting down"):
        touch(pager, "a")


def test_closing_does_not_touch_what_is_still_pinned() -> None:
    pager, services = pager_of(4, a=2)
    with ExitStack() as held:
        held.enter_context(_pin(pager, "a"))
        assert not pager.close(NOW)
        assert services["a"].offset is not None
    assert pager.close(NOW)
    assert services["a"].offset is None


def test_the_device_answers_while_the_end_of_a_use_takes_its_time() -> None:
    """Such as the rest of a page-in that overlaps: the copies of one service must not hold up the books."""
    pager, services = pager_of(4, a=2, b=2)
    services["a"].settling = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        ending = threads.submit(touch, pager, "a")
        assert services["a"].settles.wait(10)
        try:
            assert pager.cost("b") == 1
            touch(pager, "b")
            with pytest.raises(ServiceUnavailable, match="in use"):
                pager.park("a")
            with pager.pin("a", action="another", deadline=FOREVER):
                pass
        finally:
            services["a"].settling.set()
        ending.result(10)
    assert not services["a"].leased
    assert services["a"].settled == 2, "once more, since somebody used it meanwhile"
    pager.park("a")


def test_a_use_whose_end_cannot_be_looked_at_has_failed() -> None:
    pager, services = pager_of(4, a=2)
    services["a"].problem_raised = RuntimeError("shape changed")
    with pytest.raises(ServiceUnavailable, match="shape changed"):
        touch(pager, "a")
    assert pager.residency("a") is Residency.FAILED
    assert not services["a"].leased
