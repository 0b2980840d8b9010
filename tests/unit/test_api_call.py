"""One action's requests: where they may go, what comes of trouble, and what the scheduler learns. Nothing is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tangram_tasks.errors import ActionTimeout, InvalidAction, QuotaExhausted, ServiceUnavailable, TangramError
from tangram_tasks.provider import Provider
from workers.api_call import ApiCall
from workers.api_channel import ApiChannel
from workers.api_gate import ApiGate
from workers.api_loop import LoopThread
from workers.node import Usage

BASE = "http://127.0.0.1:9/api/v1"
Answer = httpx.Response | Exception


class Bench:
    """A call whose provider is a function, and what it complained of."""

    def __init__(self, loop: LoopThread, *answers: Answer, left: float = 60.0, calls: int = 1, **fields: Any) -> None:
        self.seen: list[httpx.Request] = []
        self.complaints: list[tuple[float, int | None]] = []
        self.gate = ApiGate()
        self._answers = list(answers)
        provider = Provider(**{"base_url": BASE, "concurrency": 1, **fields})
        self.channel = ApiChannel("search", provider, httpx.MockTransport(self._handle))
        self.usage = Usage()
        self.call = ApiCall(
            self.channel,
            loop,
            self.gate,
            lambda seconds, lane: self.complaints.append((seconds, lane)),
            calls=calls,
            deadline=time.monotonic() + left,
            usage=self.usage,
        )

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        answer = self._answers.pop(0) if self._answers else httpx.Response(200, json={"ok": True})
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def make() -> Iterator[Callable[..., Bench]]:
    loop, made = LoopThread(), []

    def build(*answers: Answer, **options: Any) -> Bench:
        made.append(Bench(loop, *answers, **options))
        return made[-1]

    yield build
    for bench in made:
        loop.run(bench.channel.aclose())
    loop.stop()


def test_a_path_goes_below_the_base_address(make: Callable[..., Bench]) -> None:
    bench = make()
    assert bench.call.request("GET", "/q", params={"x": "1"}).json() == {"ok": True}
    assert str(bench.seen[0].url) == f"{BASE}/q?x=1"
    assert bench.usage.calls == 1
    assert abs(bench.usage.sent_at - time.time()) < 60


@pytest.mark.parametrize(
    "path",
    [
        "http://other/x",
        "//other/x",
        "../../admin",
        "/a/../../admin",
        "%2e%2e/admin",
        "%252e%252e/admin",
        "..\\admin",
        "/a\nb",
    ],
)
def test_a_path_may_not_leave_it(make: Callable[..., Bench], path: str) -> None:
    bench = make()
    with pytest.raises(InvalidAction):
        bench.call.request("GET", path)
    assert not bench.seen, "the provider's key went nowhere"
    assert bench.usage.calls == 0


@pytest.mark.parametrize(
    ("answer", "error", "closed", "again"),
    [
        (httpx.Response(429, headers={"retry-after": "7"}), QuotaExhausted, [(7.0, 0)], 0.0),
        (httpx.Response(503, headers={"retry-after": "3"}), ServiceUnavailable, [(3.0, None)], 0.2),
        (httpx.Response(500), ServiceUnavailable, [], 0.2),
        (httpx.ConnectError("refused"), ServiceUnavailable, [], 0.2),
        (httpx.ReadTimeout("slow"), ServiceUnavailable, [], 0.2),
        (httpx.RemoteProtocolError("truncated"), ServiceUnavailable, [], 0.2),
        (httpx.Response(200, content=b"x" * (17 << 20)), ServiceUnavailable, [], 0.2),
    ],
    ids=["429", "503", "500", "refused", "slow", "truncated", "too large"],
)
def test_trouble_is_typed_told_and_tried_again(
    make: Callable[..., Bench], answer: Answer, error: type[TangramError], closed: list[Any], again: float
) -> None:
    bench = make(answer)
    with pytest.raises(error) as raised:
        bench.call.request("GET", "/q")
    assert bench.complaints == closed
    pause = bench.call.pause(0)
    assert pause is not None
    assert 0.5 * again <= pause <= 1.5 * again
    if isinstance(raised.value, QuotaExhausted):
        assert raised.value.retry_after == 7


@pytest.mark.parametrize("answer", [httpx.Response(500), httpx.ReadTimeout("slow")], ids=["500", "slow"])
def test_a_post_that_may_have_been_done_is_not_sent_twice(make: Callable[..., Bench], answer: Answer) -> None:
    bench = make(answer)
    with pytest.raises(ServiceUnavailable):
        bench.call.request("POST", "/q")
    assert bench.call.pause(0) is None


def test_a_pause_past_the_deadline_is_none(make: Callable[..., Bench]) -> None:
    bench = make(httpx.Response(429, headers={"retry-after": "7"}), left=5.0)
    with pytest.raises(QuotaExhausted):
        bench.call.request("GET", "/q")
    assert bench.call.pause(0) is None


def test_a_closed_gate_lets_nobody_call(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.gate.close(5.0, None)
    with pytest.raises(QuotaExhausted):
        bench.call.request("GET", "/q")
    assert not bench.seen
    assert bench.usage.calls == 0
    assert bench.call.pause(0) == 0.0


def test_no_time_left_is_a_timeout(make: Callable[..., Bench]) -> None:
    bench = make(left=-1.0)
    with pytest.raises(ActionTimeout):
        bench.call.request("GET", "/q")
    assert not bench.seen


def test_no_more_requests_than_were_granted(make: Callable[..., Bench]) -> None:
    bench = make(calls=2)
    bench.call.request("GET", "/1")
    assert not bench.call.all_left()
    bench.call.request("GET", "/2")
    assert bench.call.all_left()
    with pytest.raises(InvalidAction, match="calls=N"):
        bench.call.request("GET", "/3")
    assert len(bench.seen) == 2


def test_tokens_are_those_of_the_answer(make: Callable[..., Bench]) -> None:
    bench = make(httpx.Response(200, json={"usage": {"total_tokens": 41}}))
    bench.call.request("POST", "/chat")
    assert bench.usage.tokens == 41


def test_a_key_that_is_echoed_does_not_come_back(make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SEARCH_KEY", "sk-verysecret")
    bench = make(httpx.Response(200, text="you sent Bearer sk-verysecret"), key_env="TEST_SEARCH_KEY")
    answer = bench.call.request("GET", "/q")
    assert bench.seen[0].headers["authorization"] == "Bearer sk-verysecret"
    assert answer.text == "you sent Bearer ***"


def test_a_redirect_goes_only_where_it_may_and_without_the_key(
    make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_SEARCH_KEY", "sk-verysecret")
    options: dict[str, Any] = {"key_env": "TEST_SEARCH_KEY", "allow_private": True}
    away = httpx.Response(302, headers={"location": "http://cdn.example.org/x"})
    stays = make(away, **options)
    assert stays.call.request("GET", "/q").status_code == 302
    assert len(stays.seen) == 1
    goes = make(away, redirect_hosts=("*.example.org",), **options)
    assert goes.call.request("GET", "/q").json() == {"ok": True}
    assert "authorization" not in goes.seen[1].headers
    home = make(httpx.Response(302, headers={"location": f"{BASE}/other"}), redirect_hosts=("*",), **options)
    assert home.call.request("GET", "/q").status_code == 302, "that would be a call nobody has counted"
