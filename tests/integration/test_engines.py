"""Services in engines: paging against simulators that behave as the engines' documentation says."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tangram_tasks.errors import ConfigurationError, InvalidAction, ServiceUnavailable
from tests.support.engine_simulators import SglangSimulator, SimulatedDevice, VllmSimulator
from tests.support.engines import MIB, NBYTES, SCORES, Host, Simulator
from tests.waiting import wait_until
from workers.residency import Residency
from workers.service import Place

KINDS = pytest.mark.parametrize("kind", [VllmSimulator, SglangSimulator])


@pytest.fixture
def device() -> SimulatedDevice:
    """Room for two engines that are awake, so that nobody is refused while they start."""
    return SimulatedDevice(3 * NBYTES)


@pytest.fixture
def host(device: SimulatedDevice, tmp_path: Path) -> Iterator[Host]:
    """A pager that shares out room for one engine."""
    made = Host(device, tmp_path, NBYTES + NBYTES // 2)
    yield made
    made.close()


@pytest.fixture
def run(device: SimulatedDevice) -> Iterator[Any]:
    """Yield a function that starts an engine."""
    with ExitStack() as engines:

        def start(kind: type[Simulator], **options: Any) -> Simulator:
            engine: Simulator = kind(device, NBYTES, **options)
            engines.enter_context(engine)
            return engine

        yield start


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


def test_level_2_reloads_the_weights_before_the_cache_is_back(host: Host, run: Any) -> None:
    engine = run(VllmSimulator)
    host.serve("judge", engine, level=2)
    assert host.ask("judge") == pytest.approx(SCORES)
    wake = engine.seen.index("/wake_up")
    path = [one for one in engine.seen[wake:] if one != "/is_sleeping"]
    assert path[:4] == ["/wake_up", "/collective_rpc", "/wake_up", "/reset_prefix_cache"]


def test_an_engine_without_sleep_mode_is_refused_at_the_start(host: Host, run: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"judge.*404.*VLLM_SERVER_DEV_MODE=1 and --enable-sleep-mode"):
        host.serve("judge", run(VllmSimulator, dev_mode=False))


def test_an_engine_that_does_not_run_is_refused_at_the_start(host: Host, device: SimulatedDevice) -> None:
    with VllmSimulator(device, NBYTES) as engine:
        url = engine.url
    with pytest.raises(ConfigurationError, match=rf"judge at {url} cannot be reached .*is it running"):
        host.serve("judge", engine)


def test_a_device_that_the_node_lacks_is_named(host: Host, run: Any) -> None:
    service = host.declare("judge", run(VllmSimulator), servers=({"url": "http://127.0.0.1:9", "devices": [3]},))
    with pytest.raises(ConfigurationError, match="is on device 3, and this node has 1, from 0"):
        service.replicas([Place("gpu-0")])


def test_the_key_is_sent_and_never_told(
    host: Host, run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "s3cret")
    engine = run(VllmSimulator, key="s3cret")
    host.serve("judge", engine, key_env="JUDGE_KEY")
    with caplog.at_level(logging.DEBUG):
        assert host.ask("judge") == pytest.approx(SCORES)
        (tmp_path / "key").write_text("wr0ng\n")
        with pytest.raises(ConfigurationError, match="401") as refused:
            host.serve("other", engine, key_file=tmp_path / "key")
    assert "wr0ng" not in str(refused.value)
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("name", ["JUDGE_KEY", ""])
def test_a_missing_key_is_named(host: Host, run: Any, name: str, tmp_path: Path) -> None:
    where: dict[str, Any] = {"key_env": name} if name else {"key_file": tmp_path / "nowhere"}
    with pytest.raises(ConfigurationError, match="service judge: its key"):
        host.declare("judge", run(VllmSimulator), **where)


def test_methods_of_vllm(host: Host, run: Any) -> None:
    quality = {"path": "/classify", "items": "texts", "body": {"input": "$items"}, "answers": "data.*.probs.1"}
    host.serve("judge", run(VllmSimulator), model="m", methods={"quality": quality})
    assert host.ask("judge", {"texts": ["good answer", "bad"]}, method="quality") == [1.0, 0.0]
    assert host.ask("judge", {"texts": ["bad"]}, method="classify") == [[1.0, 0.0]]
    assert host.ask("judge", {"pairs": [["ab", "cd"], ["abcd", "e"]]}, method="logprob") == [-2.5, -4.0]
    with pytest.raises(InvalidAction, match="no method 'rank', only: chat, classify, logprob, pooling, quality"):
        host.ask("judge", method="rank")


def test_methods_of_sglang(host: Host, run: Any) -> None:
    host.serve("judge", run(SglangSimulator))
    assert host.ask("judge", {"texts": ["good answer"]}, method="classify") == [[1.0]]
    assert host.ask("judge", {"pairs": [["ab", "cd"]]}, method="logprob") == [-2.5]


def test_an_answer_of_another_shape_is_an_error_that_says_so(host: Host, run: Any) -> None:
    odd = {"path": "/classify", "items": "texts", "body": {"input": "$items"}, "answers": "scores.*"}
    host.serve("judge", run(VllmSimulator), methods={"odd": odd})
    with pytest.raises(ServiceUnavailable, match="answered /classify in another shape than odd expects: KeyError"):
        host.ask("judge", {"texts": ["x"]}, method="odd")


def test_an_engine_on_two_devices_wakes_when_both_have_room(host: Host, run: Any) -> None:
    engine = run(VllmSimulator)
    service = host.declare("big", engine, servers=({"url": engine.url, "devices": [0, 1]},), canary=None)
    first, second = service.replicas([Place("gpu-0"), Place("gpu-1")])
    assert service.spans == ((0, 1),)
    assert first is not None
    assert second is not None

    first.page_in(0)
    assert "/wake_up" not in engine.seen
    second.page_in(0)
    assert engine.seen.count("/wake_up") == 1
    assert first.page_out() == second.page_out() == 0
    assert engine.seen.count("/sleep") == 2, "once at the start"


def test_several_servers_can_be_leased_one_by_one_or_together(host: Host, run: Any) -> None:
    engines = [run(VllmSimulator), run(VllmSimulator)]
    servers = [{"url": engine.url, "devices": [index]} for index, engine in enumerate(engines)]
    assert host.declare("big", engines[0], servers=servers).spans == ((0,), (1,), (0, 1))


def test_vllm_ignores_parameters_in_a_json_body(run: Any) -> None:
    """The simulator itself: what our client must not do."""
    engine = run(VllmSimulator)
    httpx.post(f"{engine.url}/sleep", json={"level": 2})
    assert engine.level == 1


def test_sglang_dies_as_documented(run: Any) -> None:
    """The simulator itself."""
    engine = run(SglangSimulator)
    assert httpx.post(f"{engine.url}/flush_cache").status_code == 422
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{engine.url}/resume_memory_occupation", json={})
    assert engine.deaths == ["KeyError: cuda_graph"]
    engine.restart()
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{engine.url}/release_memory_occupation", json={})
    assert "not idle" in engine.deaths[0]
