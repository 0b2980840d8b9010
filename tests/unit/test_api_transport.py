"""Where requests may leave for. Nothing is sent, and nothing is looked up."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest

from workers.api_transport import CheckedTransport, EgressRefused


def transport(trusted: str, seen: list[httpx.Request], *, allow_private: bool = False) -> CheckedTransport:
    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200)

    return CheckedTransport(trusted, allow_private=allow_private, inner=httpx.MockTransport(handle))


def answers(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    asked: list[str] = []

    async def look_up(self: Any, host: str, port: int, **options: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    return asked


async def get(through: CheckedTransport, url: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=through) as client:
        return await client.get(url)


async def test_a_name_is_called_by_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, "93.184.216.34")
    seen: list[httpx.Request] = []
    through = transport("api.example.org", seen)
    async with httpx.AsyncClient(transport=through) as client:
        await client.get("https://api.example.org/x")
        await client.get("https://api.example.org/y")
    assert asked == ["api.example.org"], "looked up once"
    assert {request.url.host for request in seen} == {"93.184.216.34"}
    assert seen[0].headers["host"] == "api.example.org"
    assert seen[0].extensions["sni_hostname"] == "api.example.org"


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"])
async def test_a_name_that_leads_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    answers(monkeypatch, "93.184.216.34", address)
    seen: list[httpx.Request] = []
    with pytest.raises(EgressRefused, match=r"api\.example\.org"):
        await get(transport("api.example.org", seen), "https://api.example.org/x")
    assert not seen


async def test_private_addresses_may_be_allowed_or_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "10.1.2.3")
    seen: list[httpx.Request] = []
    await get(transport("intranet", seen, allow_private=True), "http://intranet/x")
    await get(transport("10.1.2.3", seen), "http://10.1.2.3/x")
    assert len(seen) == 2
    with pytest.raises(EgressRefused):
        await get(transport("api.example.org", seen), "http://10.1.2.3/x")
