"""Loading, parking and keeping services by hand, and what a page-out does that is not instant or not complete."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tangram_tasks.errors import ServiceUnavailable
from tests.support.recorded import FOREVER, NOW, Recorded, pager_of, touch
from tests.waiting import wait_until
from workers.arena import ALIGNMENT
from workers.residency import Residency


def test_a_loaded_service_is_resident_before_any_action() -> None:
    pager, services = pager_of(4, a=2)
    assert pager.load("a", deadline=FOREVER).count == 1
    assert pager.load("a", deadline=FOREVER).count == 0
    assert pager.residency("a") is Residency.RESIDENT
    assert not services["a"].leased
    touch(pager, "a")
    assert services["a"].page_ins == 1


def test_a_parked_service_is_paged_out_at_once() -> None:
    pager, services = pager_of(4, a=2)
    touch(pager, "a")
    pager.park("a")
    pager.park("a")
    assert pager.residency("a") is Residency.PARKED
    assert services["a"].page_outs == 1


def test_a_service_in_use_is_not_parked() -> None:
    pager, services = pager_of(4, a=2)
    with (
        pager.pin("a", action="holder", deadline=FOREVER),
        pytest.raises(ServiceUnavailable, match="service a is in use on device gpu-0 by holder"),
    ):
        pager.park("a")
    assert pager.residency("a") is Residency.RESIDENT
    assert services["a"].page_outs == 0


def test_draining_waits_for_pins_and_new_pins_wait_for_it() -> None:
    pager, services = pager_of(4, a=2)
    with ThreadPoolExecutor(2) as threads:
        with pager.pin("a", action="holder", deadline=FOREVER):
            parked = threads.submit(pager.park, "a", deadline=FOREVER)
            wait_until(lambda: pager.residency("a") is Residency.DRAINING, "draining")
            later = threads.submit(touch, pager, "a")
            assert pager.cost("a") == 2
            assert services["a"].page_outs == 0
        parked.result(10)
        later.result(10)
    assert (services["a"].page_outs, services["a"].page_ins) == (1, 2)


def test_draining_that_takes_too_long_leaves_the_service_in_use() -> None:
    pager, services = pager_of(4, a=2)
    with pager.pin("a", action="holder", deadline=FOREVER):
        with pytest.raises(ServiceUnavailable, match="in use"):
            pager.park("a", deadline=NOW - 1)
        with pager.pin("a", action="another", deadline=FOREVER):
            pass
    assert services["a"].page_ins == 1


def test_a_kept_service_makes_no_room() -> None:
    pager, services = pager_of(2, a=2, b=2)
    touch(pager, "a")
    pager.keep("a", True)
    with pytest.raises(ServiceUnavailable, match="kept: a"):
        touch(pager, "b", deadline=NOW - 1)
    pager.keep("a", False)
    touch(pager, "b")
    assert services["a"].offset is None


def test_an_action_that_comes_during_a_page_out_is_served_after_it() -> None:
    pager, services = pager_of(2, a=2)
    touch(pager, "a")
    services["a"].leaving = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        parked = threads.submit(pager.park, "a")
        assert services["a"].left.wait(10)
        later = threads.submit(touch, pager, "a")
        assert pager.residency("a") is Residency.DRAINING
        services["a"].leaving.set()
        parked.result(10)
        later.result(10)
    assert services["a"].page_ins == 2


def test_others_are_served_while_a_page_out_takes_its_time() -> None:
    pager, services = pager_of(4, a=2, b=2)
    touch(pager, "a", "b")
    services["a"].leaving = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        parked = threads.submit(pager.park, "a")
        assert services["a"].left.wait(10)
        touch(pager, "b")
        services["a"].leaving.set()
        parked.result(10)


def test_bytes_that_are_not_given_back_stay_charged() -> None:
    pager, services = pager_of(4, a=3, b=2, c=1)
    touch(pager, "a")
    services["a"].kept_bytes = 2 * ALIGNMENT
    with pytest.raises(ServiceUnavailable, match="were not given back"):
        pager.park("a")
    assert pager.residency("a") is Residency.FAILED
    touch(pager, "b", "c")  # just what is left
    with pytest.raises(ServiceUnavailable, match="has failed on device gpu-0: page-out"):
        touch(pager, "a")
    services["a"].kept_bytes = 0
    pager.load("a", deadline=FOREVER)
    assert pager.residency("a") is Residency.RESIDENT


def test_a_page_out_that_fails_keeps_everything_charged() -> None:
    pager, services = pager_of(4, a=3, b=2)
    touch(pager, "a")
    services["a"].page_out_fault = ServiceUnavailable("502")
    with pytest.raises(ServiceUnavailable, match="found no room"):
        touch(pager, "b", deadline=NOW - 1)
    assert pager.residency("a") is Residency.FAILED


def test_who_finds_no_room_is_told_what_was_not_given_back() -> None:
    pager, services = pager_of(2, a=2, b=2)
    touch(pager, "a")
    services["a"].page_out_fault = RuntimeError("the engine is gone")
    with pytest.raises(ServiceUnavailable, match=r"in use by nobody, kept: nothing, not given back: a: raise"):
        touch(pager, "b", deadline=NOW - 1)


def test_weights_that_changed_fail_the_service_also_while_it_drains() -> None:
    pager, services = pager_of(4, a=2)
    services["a"].problem = "it changed a buffer"

    def use_until_it_drains() -> None:
        with pager.pin("a", action="holder", deadline=FOREVER):
            pinned.set()
            wait_until(lambda: pager.residency("a") is Residency.DRAINING, "draining")

    pinned = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        used = threads.submit(use_until_it_drains)
        assert pinned.wait(10)
        with pytest.raises(ServiceUnavailable, match="it changed a buffer"):
            pager.park("a", deadline=FOREVER)
        with pytest.raises(ServiceUnavailable, match="action holder: it changed a buffer"):
            used.result(10)
    assert pager.residency("a") is Residency.FAILED
    assert services["a"].page_outs == 1


def test_closing_waits_for_a_page_out_that_runs() -> None:
    pager, services = pager_of(4, a=2)
    touch(pager, "a")
    services["a"].leaving = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        parked = threads.submit(pager.park, "a")
        assert services["a"].left.wait(10)
        assert not pager.close(NOW)
        services["a"].leaving.set()
        parked.result(10)
    assert pager.close(NOW)


def test_an_interrupted_page_in_leaves_the_service_usable() -> None:
    pager, services = pager_of(2, a=2)
    services["a"].fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        touch(pager, "a")
    assert pager.residency("a") is Residency.PARKED
    services["a"].fault = None
    touch(pager, "a")


def test_a_page_in_that_runs_out_of_memory_gives_its_room_back() -> None:
    pager, services = pager_of(2, a=2, b=2)
    services["a"].fault = MemoryError("half-way")
    with pytest.raises(ServiceUnavailable, match="could not be paged in on device gpu-0 for a1: half-way"):
        touch(pager, "a")
    assert isinstance(services["a"], Recorded)
    assert services["a"].page_outs == 1  # whatever was there is given up
    touch(pager, "b")
