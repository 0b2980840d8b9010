"""What services in engines are asked, told and refused."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from tangram_tasks.errors import ConfigurationError, InvalidAction, ServiceUnavailable
from tests.support.engine_simulators import SglangSimulator, SimulatedDevice, VllmSimulator
from tests.support.engines import NBYTES, SCORES, Host
from workers.service import Place


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
