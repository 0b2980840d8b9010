"""The way out of an API node: a name is looked up once per connection, checked, and then called by its address.

Who looks a name up twice, first to check it and then to connect, can be given two answers (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time

import httpx

from tangram_tasks.errors import TangramError

#: An address is used for so many seconds before its name is looked up again.
FRESH = 30.0

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class EgressRefused(TangramError):
    """A request would leave for a place where it must not go."""


class CheckedTransport(httpx.AsyncBaseTransport):
    """Sends requests to addresses that were checked.

    Args:
        trusted: the host that the operator wrote down; if it is written as an address, or as localhost, that is
            meant as it is.
        allow_private: a name may lead to a private address.
        inner: sends what was checked.
    """

    def __init__(self, trusted: str, *, allow_private: bool, inner: httpx.AsyncBaseTransport) -> None:
        self._trusted = trusted
        self._allow_private = allow_private
        self._inner = inner
        self._known: dict[tuple[str, int], tuple[float, str]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises EgressRefused, httpx.ConnectError."""
        host = request.url.host
        if self._allow_private or (host == self._trusted and _is_literal(host)):
            return await self._inner.handle_async_request(request)
        address = await self._address(host, request.url.port or (443 if request.url.scheme == "https" else 80))
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=address)  # the Host header still has the name
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def _address(self, host: str, port: int) -> str:
        until, known = self._known.get((host, port), (0.0, ""))
        if time.monotonic() < until:
            return known
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpx.ConnectError(f"{host} cannot be looked up: {error}") from None
        addresses = [str(row[4][0]) for row in rows]
        private = [address for address in addresses if not _is_public(ipaddress.ip_address(address))]
        if private:
            raise EgressRefused(f"{host} leads to {private[0]}, which is not public: set allow_private to allow that")
        self._known[host, port] = (time.monotonic() + FRESH, addresses[0])
        return addresses[0]


def _is_literal(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_public(address: Address) -> bool:
    inner = getattr(address, "ipv4_mapped", None) or address
    return bool(inner.is_global) and not inner.is_multicast
