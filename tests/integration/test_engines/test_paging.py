"""Services in engines are paged: simulators behave as the engines' documentation says."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tangram_tasks.errors import ServiceUnavailable
from tests.support.engine_simulators import SglangSimulator, VllmSimulator
from tests.support.engines import NBYTES, SCORES, Host, Simulator
from tests.waiting import wait_until
from workers.residency import Residency

KINDS = pytest.mark.parametrize("kind", [VllmSimulator, SglangSimulator])


@KINDS
def test_an_engine_sleeps_from_the_start_and_wakes_for_a_call(host: Host, run: Any, kind: type[Simulator]) -> None:
    engine = run(kind)
    host.serve("judge", engine)
    assert host.device.free == host.device.total

    assert host.ask("judge") == pytest.approx(SCORES)
    assert host.device.free == host.device.total - NBYTES
    assert host.pager.residency("judge") is Residency.RESIDENT
    host.pager.park("judge")
    assert host.device.free == host.device.total
    assert not engine.deaths


@KINDS
def test_two_engines_take_turns_on_one_device(host: Host, run: Any, kind: type[Simulator]) -> None:
    engines = [run(kind), run(VllmSimulator)]
    for name, engine in zip("ab", engines, strict=True):
        host.serve(name, engine)
    host.device.most_used = 0
    for _ in range(3):
        for name in "ab":
            assert host.ask(name) == pytest.approx(SCORES)
    assert host.device.most_used == NBYTES, "they were never awake at the same time"
    assert not [engine.deaths for engine in engines if engine.deaths]


@KINDS
def test_opposite_swaps_end_and_never_double_book(host: Host, run: Any, kind: type[Simulator]) -> None:
    for name in "ab":
        engine = run(kind)
        engine.faults.late_s = 0.05  # it says it is done before it is
        host.serve(name, engine)
    time.sleep(0.2)
    host.device.most_used = 0

    def swap(thread: int) -> None:
        for turn in range(5):
            name = "ab"[(thread + turn) % 2]
            assert host.ask(name, action=f"a{thread}-{turn}") == pytest.approx(SCORES)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(swap, range(2)))
    assert host.device.most_used == NBYTES


def test_a_call_during_page_out_waits_and_is_answered_rightly(host: Host, run: Any) -> None:
    engine = run(VllmSimulator)
    host.serve("judge", engine)
    host.ask("judge")
    stranger = ThreadPoolExecutor(1)
    engine.faults.endless.set()  # somebody else's request, which sleeping waits for
    waiting = stranger.submit(httpx.post, f"{engine.url}/score", json={"text_1": ["x"], "text_2": ["x"]}, timeout=10)
    wait_until(lambda: engine.in_flight >= 1, "the engine got there")
    with stranger, ThreadPoolExecutor(2) as threads:
        parking = threads.submit(host.pager.park, "judge")
        wait_until(lambda: "/sleep" in engine.seen[-2:], "the engine got there")
        asking = threads.submit(host.ask, "judge")
        assert not asking.done()
        engine.faults.endless.clear()
        parking.result(10)
        assert asking.result(10) == pytest.approx(SCORES)
    assert waiting.result().status_code == 200, "mode=wait let it end"
    assert not engine.deaths


@KINDS
def test_a_page_out_waits_for_running_calls(host: Host, run: Any, kind: type[Simulator]) -> None:
    slow = run(kind)
    host.serve("slow", slow)
    host.serve("other", run(VllmSimulator))
    host.ask("slow")
    slow.faults.endless.set()
    with ThreadPoolExecutor(2) as threads:
        calling = threads.submit(host.ask, "slow")
        wait_until(lambda: slow.in_flight >= 1, "the engine got there")
        other = threads.submit(host.ask, "other", action="a2")
        time.sleep(0.1)
        assert not other.done()
        slow.faults.endless.clear()
        assert calling.result(10) == other.result(10) == pytest.approx(SCORES)
    assert not slow.deaths


@KINDS
def test_an_endless_call_ends_at_its_deadline_and_others_go_on(host: Host, run: Any, kind: type[Simulator]) -> None:
    engine = run(kind)
    host.serve("judge", engine)
    host.ask("judge")
    engine.faults.endless.set()
    with pytest.raises(ServiceUnavailable, match=r"action a1: not within 0\.3 s"):
        host.ask("judge", seconds=0.3)
    wait_until(lambda: engine.in_flight == 0, "the engine stopped computing, since its client went")
    engine.faults.endless.clear()
    assert host.ask("judge", action="a2") == pytest.approx(SCORES)
