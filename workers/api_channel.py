"""The connections to one provider: sends one request and says what came of it, in the words of our errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any
from urllib.parse import unquote

import httpx

from tangram_tasks.errors import InvalidAction, QuotaExhausted, ServiceUnavailable, TangramError
from tangram_tasks.provider import Provider
from workers.api_gate import RETRY_AFTER, retry_after
from workers.api_stripes import StripedTransport
from workers.api_transport import CheckedTransport, EgressRefused

#: A larger answer is refused, bytes.
MAX_ANSWER = 16 * 2**20
#: Redirects in a row.
MAX_HOPS = 3
#: What may be asked twice without harm.
SAFE_METHODS = ("GET", "HEAD")
HIDDEN = b"***"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong with one request.

    Args:
        error: for the caller.
        refused: the provider said that it did nothing with it, or never got it.
        closed: seconds for which it wants no calls; None if it did not say so.
        everybody: it would say that to all of our keys.
    """

    error: TangramError
    refused: bool = False
    closed: float | None = None
    everybody: bool = True


class ApiChannel:
    """One provider as this node calls it.

    Args:
        name: the provider's.
        provider: its declaration.
        inner: sends requests; by default over the network.

    Raises:
        ConfigurationError: a key is missing.
    """

    def __init__(self, name: str, provider: Provider, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self.name = name
        self.provider = provider
        self.keys = provider.keys()
        host = httpx.URL(provider.base_url).host
        inner = inner or StripedTransport(_pool_maker())
        transport = CheckedTransport(host, allow_private=provider.allow_private, inner=inner)
        self._client = httpx.AsyncClient(
            base_url=provider.base_url,
            transport=transport,
            timeout=httpx.Timeout(provider.timeout, connect=provider.connect_timeout),
            follow_redirects=False,
        )

    async def send(
        self, method: str, path: str, lane: int, timeout: float, options: dict[str, Any], left: Callable[[], None]
    ) -> httpx.Response | Trouble:
        """Send one request and read its answer.

        Args:
            method: of HTTP.
            path: below the base address; see `check_path`.
            lane: which of our keys it carries.
            timeout: seconds for all of it.
            options: httpx's.
            left: is called when the request has left.
        """
        try:
            async with asyncio.timeout(timeout):
                return self._judged(await self._exchange(method, path, lane, options, left))
        except (TimeoutError, httpx.TimeoutException) as error:
            refused = isinstance(error, httpx.ConnectTimeout)
            return Trouble(ServiceUnavailable(f"{self.name} did not answer in {timeout:g} s"), refused=refused)
        except EgressRefused as error:
            return Trouble(ServiceUnavailable(f"{self.name}: {error}"))
        except httpx.InvalidURL as error:
            return Trouble(InvalidAction(f"{path!r} is no path for {self.name}: {error}"))
        except httpx.HTTPError as error:
            why = f"{self.name}: {type(error).__name__}: {error}"
            return Trouble(ServiceUnavailable(why), refused=isinstance(error, httpx.ConnectError))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _exchange(
        self, method: str, path: str, lane: int, options: dict[str, Any], left: Callable[[], None]
    ) -> httpx.Response:
        async def trace(event: str, info: dict[str, Any]) -> None:
            if event.endswith("send_request_body.complete"):
                left()

        rest = dict(options)
        headers = {**(rest.pop("headers", None) or {}), **self._credentials(lane)}
        request = self._client.build_request(method, path, headers=headers, **rest)
        request.extensions = {**request.extensions, "trace": trace}
        for _ in range(MAX_HOPS):
            response = await self._client.send(request, stream=True)
            left()
            answer = await self._read(request, response)
            following = response.next_request
            if following is None or not self._may_follow(following):
                break
            for name in self.provider.credentials(""):
                following.headers.pop(name, None)
            request = following
        return answer

    async def _read(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise httpx.DecodingError(f"it sent more than {MAX_ANSWER >> 20} MiB", request=request)
        finally:
            await response.aclose()
        for key in self.keys:  # one that echoes requests must not get our key into a result
            body = body.replace(key.encode(), HIDDEN)
        headers = {name: value for name, value in response.headers.items() if name not in _OF_THE_WIRE}
        return httpx.Response(response.status_code, headers=headers, content=bytes(body), request=request)

    def _credentials(self, lane: int) -> dict[str, str]:
        return self.provider.credentials(self.keys[lane % len(self.keys)]) if self.keys else {}

    def _may_follow(self, request: httpx.Request) -> bool:
        """Whether a redirect leads where the operator allows; to the provider itself it would be an uncounted call."""
        host = request.url.host
        return host != self._client.base_url.host and any(fnmatch(host, row) for row in self.provider.redirect_hosts)

    def _judged(self, response: httpx.Response) -> httpx.Response | Trouble:
        status, asked = response.status_code, response.headers.get("retry-after")
        if status == httpx.codes.TOO_MANY_REQUESTS:
            seconds = retry_after(asked)
            error = QuotaExhausted(f"{self.name} answered 429", seconds)
            return Trouble(error, refused=True, closed=seconds, everybody=False)
        if status == httpx.codes.SERVICE_UNAVAILABLE:
            error_503 = ServiceUnavailable(f"{self.name} answered 503")
            return Trouble(error_503, refused=True, closed=retry_after(asked) if asked else RETRY_AFTER)
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            return Trouble(ServiceUnavailable(f"{self.name} answered {status}"))
        return response


#: Headers that were true of the bytes on the wire only.
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")


def _pool_maker() -> Callable[[], httpx.AsyncBaseTransport]:
    certificates = httpx.create_ssl_context()  # takes 20 ms to make: one for all pools
    return lambda: httpx.AsyncHTTPTransport(verify=certificates)


def check_path(path: str, name: str) -> None:
    """Raise InvalidAction if a path leaves the base address, however it is written: our key goes with every request."""
    plain = unquote(unquote(path)).replace("\\", "/")
    leaves = "://" in plain or plain.startswith("//") or ".." in plain.partition("?")[0].split("/")
    if leaves or not plain.isprintable():
        raise InvalidAction(f"{path!r} is not a path below the base address of {name}")
