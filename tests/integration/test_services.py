"""Declared services in a whole deployment: rewards, own reward code, and moving them by hand. No torch, no GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compose.cli import main
from compose.embedded import Stack
from compose.stack_config import GpuNodeConfig, StackConfig
from tangram_tasks import ActionTimeout, Infeasible, InvalidAction, ServiceUnavailable, TangramApp
from tangram_tasks.rewards import logprobs, score
from tangram_tasks.settings import settings
from tests.support.engine_simulators import SglangSimulator, SimulatedDevice, VllmSimulator
from tests.support.reward_actions import best
from tests.waiting import wait_until

WAIT = 30
MIB = 1 << 20
PAIRS = [["the cat", "the cat"], ["the cat", "the dog"]]

DECLARED = """
services:
  - {name: fake, kind: fake, memory: 100MiB, canary: {payload: {pairs: [[a, a]]}, expected: [1.0]}}
  - {name: wrong, kind: fake, memory: 100MiB, sizes: [1], canary: {payload: {pairs: [[a, b]]}, expected: [1.0]}}
  - name: vllm
    kind: vllm
    servers: [{url: "%s", devices: [0]}]
    memory: 150MiB
    residual: 20MiB
    canary: {payload: {pairs: [[a b, a b]]}, expected: [1.0]}
  - name: sglang
    kind: sglang
    servers: [{url: "%s", devices: [0]}]
    memory: 150MiB
"""

Tangram = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[VllmSimulator, SglangSimulator]]:
    device = SimulatedDevice(400 * MIB)
    with ExitStack() as running:
        vllm, sglang = VllmSimulator(device, 150 * MIB, residual=20 * MIB), SglangSimulator(device, 150 * MIB)
        running.enter_context(vllm)
        running.enter_context(sglang)
        yield vllm, sglang


@pytest.fixture(scope="module")
def app(
    engines: tuple[VllmSimulator, SglangSimulator], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TangramApp]:
    file = tmp_path_factory.mktemp("services") / "services.yaml"
    file.write_text(DECLARED % tuple(engine.url for engine in engines))
    node = GpuNodeConfig(name="gpu-1", devices=2, budget_mib=220, services=(str(file),))
    config = StackConfig(persistent=False, gpu=(node,), imports=("tests.support.reward_actions",))
    with Stack(config) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.set_current()
        yield app
        app.close()


@pytest.fixture
def tangram(app: TangramApp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Tangram]:
    """Yield a function that runs the command line; returns exit code, output and errors."""
    monkeypatch.setenv("TANGRAM_BROKER_URL", app.url)
    settings.cache_clear()

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tangram", "services", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    yield run
    settings.cache_clear()


def _states(tangram: Tangram, service: str) -> list[dict[str, object]]:
    code, out, _ = tangram("ls", "-o", "json")
    assert code == 0
    return [state for answer in json.loads(out) for state in answer["states"] if state["service"] == service]


def test_rewards_come_from_any_declared_service(app: TangramApp) -> None:
    for service in ("fake", "vllm", "sglang"):
        assert score.delay(service, PAIRS).get(timeout=WAIT) == pytest.approx(
            [1.0, 4 / 7 if service == "fake" else 1 / 3], abs=0.2
        )
    assert logprobs.delay("vllm", [["ab", "cd"]]).get(timeout=WAIT) == [-2.5]


def test_services_take_turns_on_their_device(app: TangramApp, engines: tuple[VllmSimulator, SglangSimulator]) -> None:
    for _ in range(3):
        results = [score.delay(service, PAIRS) for service in ("vllm", "sglang", "fake") * 2]
        for result in results:
            assert result.get(timeout=WAIT)[0] == 1.0
    assert not [engine.deaths for engine in engines if engine.deaths]


def test_own_reward_code_gets_the_service(app: TangramApp) -> None:
    assert best.delay("a cat", ["a dog", "a cat", "no"]).get(timeout=WAIT) == "a cat"
    assert best.using(gpu=2).delay("a cat", ["a dog", "a cat", "no"]).get(timeout=WAIT) == "a cat"


def test_what_no_node_could_ever_hold_is_infeasible(app: TangramApp) -> None:
    with pytest.raises(Infeasible, match="gpu=4"):
        best.using(gpu=4).delay("a", ["b"]).get(timeout=WAIT)
    with pytest.raises(Infeasible, match="calls service nobody, which no gpu node holds"):
        score.delay("nobody", PAIRS).get(timeout=WAIT)


def test_a_number_of_devices_that_the_service_does_not_take_is_refused(app: TangramApp) -> None:
    for service, named in (("wrong", "service wrong takes 1"), ("vllm", r"service vllm can be on \[\[0\]\] only")):
        with pytest.raises(InvalidAction, match=named):
            score.using(gpu=2).delay(service, PAIRS).get(timeout=WAIT)


def test_an_endless_scorer_times_out_and_others_go_on(
    app: TangramApp, engines: tuple[VllmSimulator, SglangSimulator]
) -> None:
    score.delay("vllm", PAIRS).get(timeout=WAIT)  # its canary must be over
    engines[0].faults.endless.set()
    endless = score.using(timeout=2).delay("vllm", PAIRS)
    wait_until(lambda: engines[0].in_flight > 0, "it computes")
    assert score.delay("fake", PAIRS).get(timeout=WAIT)[0] == 1.0
    with pytest.raises(ActionTimeout):
        endless.get(timeout=WAIT)
    engines[0].faults.endless.clear()
    assert score.delay("vllm", PAIRS).get(timeout=WAIT)[0] == 1.0


def test_a_cancel_reaches_a_request_on_its_way(app: TangramApp, engines: tuple[VllmSimulator, SglangSimulator]) -> None:
    score.delay("vllm", PAIRS).get(timeout=WAIT)
    engines[0].faults.endless.set()
    cancelled = score.using(timeout=60).delay("vllm", PAIRS)
    wait_until(lambda: engines[0].in_flight > 0, "it computes")
    cancelled.revoke()
    wait_until(lambda: engines[0].in_flight == 0, "the engine stopped computing, since its client went")
    assert score.delay("sglang", PAIRS).get(timeout=WAIT)[0] == 1.0
    engines[0].faults.endless.clear()


def test_bad_gateways_end_as_an_error_that_is_no_score(
    app: TangramApp, engines: tuple[VllmSimulator, SglangSimulator]
) -> None:
    engines[0].faults.bad_gateways["/score"] = 10**6
    with pytest.raises(ServiceUnavailable, match="answered 502 at /score"):
        score.delay("vllm", PAIRS).get(timeout=WAIT)
    engines[0].faults.bad_gateways.clear()
    assert score.delay("vllm", PAIRS).get(timeout=WAIT)[0] == 1.0


def test_services_are_moved_by_hand(tangram: Tangram, engines: tuple[VllmSimulator, SglangSimulator]) -> None:
    assert tangram("park", "sglang") == (0, "gpu-1: sglang is parked\n", "")
    assert tangram("load", "vllm") == (0, "gpu-1: vllm is resident\n", "")
    (state,) = _states(tangram, "vllm")
    assert (state["state"], state["device"], state["nbytes"]) == ("resident", "emulated-0", 150 * MIB)
    assert not engines[0].away
    assert tangram("park", "vllm", "--node", "gpu-1")[0] == 0
    assert engines[0].away


def test_a_pinned_service_stays(tangram: Tangram, app: TangramApp) -> None:
    assert tangram("pin", "vllm")[0] == 0
    assert _states(tangram, "vllm")[0]["kept"] is True
    with pytest.raises(ServiceUnavailable, match="kept: vllm"):
        score.using(timeout=1).delay("sglang", PAIRS).get(timeout=WAIT)
    assert tangram("unpin", "vllm")[0] == 0
    assert score.delay("sglang", PAIRS).get(timeout=WAIT)[0] == 1.0


def test_a_canary_is_asked_by_hand(tangram: Tangram) -> None:
    assert tangram("canary", "vllm")[:2] == (0, "gpu-1: vllm answers its canary rightly\n")
    code, _, error = tangram("canary", "wrong")
    assert code == 1
    assert "service wrong answers wrongly: its canary (score) gave [0.0] instead of [1.0]" in error
    assert "was declared without a canary" in tangram("canary", "sglang")[2]


def test_the_table_shows_what_there_is(tangram: Tangram) -> None:
    code, out, _ = tangram("ls")
    assert code == 0
    assert out.splitlines()[0].split()[:5] == ["SERVICE", "NODE", "DEVICE", "STATE", "MIB"]
    assert len(out.splitlines()) == 1 + 2 * 2 + 2, "two fakes on two devices, two engines on one"


def test_what_is_not_there_is_named(tangram: Tangram) -> None:
    assert "no live GPU node is called gpu-9: gpu-1" in tangram("ls", "--node", "gpu-9")[2]
    assert (
        "no GPU node holds service nobody; the services there are: fake, sglang, vllm, wrong"
        in tangram("load", "nobody")[2]
    )


def test_a_file_that_does_not_fit_stops_the_node_at_its_start(tmp_path: Path) -> None:
    from workers.gpu_node import GpuNode

    file = tmp_path / "services.yaml"
    file.write_text("services:\n  - {name: huge, kind: fake, memory: 2GiB}\n")
    with pytest.raises(Exception, match=r"service huge needs 2048\.0 MiB"):
        GpuNode(node="gpu-1", state_dir=tmp_path, services=(str(file),), devices=1, budget_mib=100)
