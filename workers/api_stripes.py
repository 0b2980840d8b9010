"""Thousands of connections, in many small pools.

A pool of httpcore looks at all of its connections, for each of them, at the start and at the end of every request:
measured, that is 20 ms of CPU per call with 500 connections in one pool. In pools of sixteen it does not matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx

#: Requests at once in one pool.
WIDTH = 16
#: Pools that are kept with their idle connections.
KEPT = 16


class Stripe:
    """One small pool, and how many requests it has at once."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self.transport = transport
        self.busy = 0


class StripedTransport(httpx.AsyncBaseTransport):
    """Sends each request through the first pool that has room.

    Args:
        make: makes a pool.
    """

    def __init__(self, make: Callable[[], httpx.AsyncBaseTransport]) -> None:
        self._make = make
        self._stripes: list[Stripe] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; its pool has room again when the answer is closed."""
        stripe = next((one for one in self._stripes if one.busy < WIDTH), None)
        if stripe is None:
            stripe = Stripe(self._make())
            self._stripes.append(stripe)
        stripe.busy += 1
        try:
            response = await stripe.transport.handle_async_request(request)
        except BaseException:
            await self._leave(stripe)
            raise
        response.stream = _Leaving(response.stream, lambda: self._leave(stripe))
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for stripe in self._stripes:
            await stripe.transport.aclose()
        self._stripes.clear()

    async def _leave(self, stripe: Stripe) -> None:
        stripe.busy -= 1
        if not stripe.busy and len(self._stripes) > KEPT:
            self._stripes.remove(stripe)
            await stripe.transport.aclose()


class _Leaving(httpx.AsyncByteStream):
    """An answer that makes room in its pool when it is closed, once."""

    def __init__(self, stream: object, leave: Callable[[], Awaitable[None]]) -> None:
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError(f"an asynchronous transport answered with {type(stream).__name__}")
        self._stream = stream
        self._leave: Callable[[], Awaitable[None]] | None = leave

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        leave, self._leave = self._leave, None
        try:
            await self._stream.aclose()
        finally:
            if leave is not None:
                await leave()
