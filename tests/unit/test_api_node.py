"""What a path of an API call may be. Nothing is sent."""

from __future__ import annotations

import time

import httpx
import pytest

from tangram_tasks.errors import ActionTimeout, ConfigurationError, InvalidAction, QuotaExhausted, ServiceUnavailable
from workers.api_node import ApiCall, Provider

BASE = "http://127.0.0.1:9/api/v1"


def call(
    answer: httpx.Response | Exception | None = None, *, left: float = 60.0
) -> tuple[ApiCall, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer or httpx.Response(200, json={"ok": True})

    client = httpx.Client(base_url=BASE, transport=httpx.MockTransport(handle))
    provider = Provider(base_url=BASE, concurrency=1)
    return ApiCall("search", provider, client, time.monotonic() + left), seen


def test_a_path_goes_below_the_base_address() -> None:
    api, seen = call()
    assert api.request("GET", "/q", params={"x": "1"}).json() == {"ok": True}
    assert str(seen[0].url) == f"{BASE}/q?x=1"


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
def test_a_path_may_not_leave_it(path: str) -> None:
    api, seen = call()
    with pytest.raises(InvalidAction):
        api.request("GET", path)
    assert not seen, "the provider's key went nowhere"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(429, headers={"retry-after": "7"}), QuotaExhausted),
        (httpx.Response(500), ServiceUnavailable),
        (httpx.ConnectError("refused"), ServiceUnavailable),
        (httpx.ReadTimeout("slow"), ServiceUnavailable),
        (httpx.Response(200, content=b"x" * (17 << 20)), ServiceUnavailable),
    ],
    ids=["429", "500", "refused", "slow", "too large"],
)
def test_trouble_is_typed(answer: httpx.Response | Exception, error: type[Exception]) -> None:
    api, _ = call(answer)
    with pytest.raises(error) as raised:
        api.request("GET", "/q")
    if isinstance(raised.value, QuotaExhausted):
        assert raised.value.retry_after == 7


def test_no_time_left_is_a_timeout() -> None:
    api, seen = call(left=-1.0)
    with pytest.raises(ActionTimeout):
        api.request("GET", "/q")
    assert not seen


def test_a_missing_key_is_said_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="TANGRAM_TEST_NO_SUCH_KEY"):
        Provider(base_url=BASE, concurrency=1, key_env="TANGRAM_TEST_NO_SUCH_KEY").client()
