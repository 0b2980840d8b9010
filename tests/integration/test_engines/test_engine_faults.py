"""What engines get wrong, and what comes of it."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from tangram_tasks.errors import ServiceUnavailable
from tests.support.engine_simulators import SglangSimulator, VllmSimulator
from tests.support.engines import MIB, SCORES, Host, Simulator
from workers.residency import Residency
from workers.service import Place

KINDS = pytest.mark.parametrize("kind", [VllmSimulator, SglangSimulator])


@KINDS
def test_an_engine_that_keeps_memory_is_charged_for_it(
    host: Host, run: Any, kind: type[Simulator], caplog: pytest.LogCaptureFixture
) -> None:
    engine = run(kind)
    host.serve("leaky", engine)
    host.serve("other", run(VllmSimulator))
    host.ask("leaky")
    engine.faults.keeps = 300 * MIB

    with caplog.at_level(logging.WARNING), pytest.raises(ServiceUnavailable):
        host.pager.park("leaky")
    assert "leaky is LEAKY: asleep it keeps 300.0 MiB" in caplog.text
    with pytest.raises(ServiceUnavailable, match=r"300\.0 of 512\.0 MiB were not given back"):
        host.ask("leaky")
    with (
        pytest.raises(ServiceUnavailable, match=r"service other .* found no room"),
        host.pager.pin("other", action="a2", deadline=time.monotonic() + 0.05),
    ):
        pytest.fail("300 of 768 MiB are taken: 512 do not fit")
    engine.faults.keeps = 0
    host.pager.load("leaky", deadline=time.monotonic() + 10)
    host.pager.park("leaky")
    assert host.ask("other") == pytest.approx(SCORES), "nothing is charged any more"


@KINDS
def test_a_200_that_gives_nothing_up_is_noticed(host: Host, run: Any, kind: type[Simulator]) -> None:
    engine = run(kind)
    host.serve("liar", engine)
    host.ask("liar")
    engine.faults.lies_asleep = True

    with pytest.raises(ServiceUnavailable, match=r"is not asleep|are still taken"):
        host.pager.park("liar")
    assert host.pager.residency("liar") is Residency.FAILED
    assert not engine.deaths


def test_a_wake_up_without_effect_is_noticed(host: Host, run: Any) -> None:
    engine = run(VllmSimulator)
    host.serve("liar", engine)
    engine.faults.lies_awake = True

    with pytest.raises(ServiceUnavailable, match="answered 3 times that it is done, and is not awake"):
        host.ask("liar")
    assert not engine.deaths, "no request went to the sleeping engine"


@KINDS
def test_nonsense_after_waking_up_is_no_score(host: Host, run: Any, kind: type[Simulator]) -> None:
    engine = run(kind)
    host.serve("judge", engine)
    engine.faults.garbage = True

    with pytest.raises(ServiceUnavailable, match=r"woke up wrong: its canary \(score\) gave \[-7\.25, -7\.25\]"):
        host.ask("judge")
    with pytest.raises(ServiceUnavailable, match="has failed on device gpu-0"):
        host.ask("judge")
    assert host.device.free == host.device.total, "it was put to sleep again"


def test_sglang_without_a_weights_backup_fails_its_canary(host: Host, run: Any) -> None:
    host.serve("judge", run(SglangSimulator, weights_backup=False))
    with pytest.raises(ServiceUnavailable, match="woke up wrong"):
        host.ask("judge")


@KINDS
@pytest.mark.parametrize("path", ["wake", "score"])
def test_a_few_bad_gateways_are_survived(host: Host, run: Any, kind: type[Simulator], path: str) -> None:
    engine = run(kind)
    host.serve("judge", engine)
    vllm = kind is VllmSimulator
    wake = "/wake_up" if vllm else "/continue_generation"
    engine.faults.bad_gateways[wake if path == "wake" else "/score" if vllm else "/v1/rerank"] = 2
    assert host.ask("judge") == pytest.approx(SCORES)


def test_bad_gateways_without_end_are_an_error_that_names_the_engine(host: Host, run: Any) -> None:
    engine = run(VllmSimulator)
    host.serve("judge", engine)
    host.ask("judge")
    engine.faults.bad_gateways["/score"] = 10**6
    with pytest.raises(ServiceUnavailable, match=rf"judge at {engine.url} answered 502 at /score: is it running\?"):
        host.ask("judge")
    engine.faults.bad_gateways.clear()
    assert host.ask("judge") == pytest.approx(SCORES), "the service has not failed for good"


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (VllmSimulator, "/wake_up"),
        (VllmSimulator, "/sleep"),
        (SglangSimulator, "/resume_memory_occupation"),
        (SglangSimulator, "/release_memory_occupation"),
    ],
)
def test_a_command_whose_answer_was_lost_is_not_repeated_blindly(
    host: Host, run: Any, kind: type[Simulator], path: str
) -> None:
    engine = run(kind)
    host.serve("judge", engine)
    engine.faults.lost_answers[path] = 1
    assert host.ask("judge") == pytest.approx(SCORES)
    host.pager.park("judge")
    assert host.ask("judge") == pytest.approx(SCORES)
    assert not engine.deaths


def test_sglang_is_remembered_as_released_by_the_next_process(host: Host, run: Any) -> None:
    engine = run(SglangSimulator)
    host.serve("judge", engine)
    again = host.declare("judge", engine)

    (replica,) = again.replicas([Place("gpu-0")])
    assert replica is not None
    assert engine.seen.count("/release_memory_occupation") == 1
    replica.page_in(0)
    assert not engine.deaths


def test_sglang_that_was_started_again_while_it_slept_is_not_resumed(host: Host, run: Any) -> None:
    engine = run(SglangSimulator)
    host.serve("judge", engine)
    engine.die("killed")
    engine.restart()
    assert host.ask("judge") == pytest.approx(SCORES)
    host.pager.park("judge")
    assert host.device.free == host.device.total
    assert not engine.deaths
