"""Requests spread over small pools, which end when they are not needed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

from workers.api_stripes import KEPT, WIDTH, StripedTransport


class Pool(httpx.MockTransport):
    """A pool that knows whether it was closed."""

    def __init__(self) -> None:
        super().__init__(lambda request: httpx.Response(200, content=_hello()))
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True


async def _hello() -> AsyncIterator[bytes]:
    yield b"hello"


async def test_a_pool_has_so_many_requests_and_room_again_when_they_are_closed() -> None:
    pools: list[Pool] = []

    def make() -> Pool:
        pools.append(Pool())
        return pools[-1]

    async with httpx.AsyncClient(transport=StripedTransport(make)) as client:
        count = WIDTH * (KEPT + 2)
        answers = [await client.send(client.build_request("GET", "http://x/"), stream=True) for _ in range(count)]
        assert len(pools) == KEPT + 2
        for answer in answers:
            assert await answer.aread() == b"hello"
            await answer.aclose()
            await answer.aclose()
        assert sum(pool.closed for pool in pools) == 2
        await client.get("http://x/")
        assert len(pools) == KEPT + 2, "those that were kept are used again"
    assert all(pool.closed for pool in pools)


async def test_a_request_that_fails_leaves_its_pool() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    transport = StripedTransport(lambda: httpx.MockTransport(refuse))
    async with httpx.AsyncClient(transport=transport) as client:
        for _ in range(WIDTH * 2):
            try:
                await client.get("http://x/")
            except httpx.ConnectError:
                continue
        assert len(transport._stripes) == 1
