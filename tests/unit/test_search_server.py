"""The demo's search API and its books."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from compose.demo.api_server import ApiQuota, ApiStats, Meter, SearchServer

DOCUMENTS = {"merge.py": "merge overlapping intervals", "csv.py": "read rows", "text.py": "wrap text"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_meter_refuses_too_many_in_flight() -> None:
    meter = Meter(ApiQuota(concurrency=2, per_window=10), Clock())
    assert [meter.enter() for _ in range(3)] == [True, True, False]
    meter.leave()
    assert meter.enter()
    assert meter.stats() == ApiStats(answered=3, refused=1, most_in_flight=3, most_in_window=3)


def test_meter_refuses_too_many_in_any_window() -> None:
    clock = Clock()
    meter = Meter(ApiQuota(concurrency=10, per_window=2, window=1.0), clock)
    answers = []
    for now in (0.0, 0.9, 0.95, 1.0, 1.5, 1.95):
        clock.now = now
        answers.append(meter.enter())
        if answers[-1]:
            meter.leave()
    assert answers == [True, True, False, True, False, True]


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with SearchServer(DOCUMENTS, ApiQuota(concurrency=1, per_window=100), latency=(0.0, 0.0)) as server:
        yield server


def test_search_ranks_by_common_words_and_counts(server: SearchServer) -> None:
    answer = httpx.get(server.url + "/search", params={"q": "merge intervals"})
    assert answer.status_code == 200
    assert answer.json()["results"][0] == "merge.py"
    assert httpx.get(server.url + "/stats").json() == {
        "answered": 1,
        "refused": 0,
        "most_in_flight": 1,
        "most_in_window": 1,
    }


def test_over_quota_is_429_and_recorded() -> None:
    quota = ApiQuota(concurrency=100, per_window=3, window=60.0)
    with SearchServer(DOCUMENTS, quota, latency=(0.0, 0.0)) as server, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: httpx.get(server.url + "/search?q=x"), range(8)))
        assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 5
        assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 429)
        assert server.meter.stats().refused == 5


def test_unknown_path_is_404(server: SearchServer) -> None:
    assert httpx.get(server.url + "/other").status_code == 404


def test_it_is_gone_at_the_end() -> None:
    with SearchServer(DOCUMENTS, ApiQuota(1, 1)) as server:
        url = server.url
    with pytest.raises(httpx.ConnectError):
        httpx.get(url + "/stats")
