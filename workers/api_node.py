"""An API node: calls providers' HTTP APIs. Quotas are held by the scheduler; this node only spends them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import httpx
from pydantic import BaseModel, ConfigDict, Field

from tangram_tasks.context import ActionContext
from tangram_tasks.errors import ActionTimeout, ConfigurationError, InvalidAction, QuotaExhausted, ServiceUnavailable
from tangram_tasks.resources import API_PREFIX
from tangram_tasks.wire import ActionHeader, GrantHeader, NodeKind, NodeOrder, QuotaRecord
from workers.node import Applied

#: A larger answer is refused, bytes.
MAX_ANSWER = 16 * 2**20
#: Seconds after which a provider that answered 429 without Retry-After may be asked again.
RETRY_AFTER = 1.0


class Provider(BaseModel):
    """An HTTP API with a quota.

    Args:
        base_url: where it is.
        concurrency: calls in flight.
        per_second: calls started per second on average; None is unlimited.
        burst: calls that may start at once when the bucket is full.
        timeout: seconds for one request, at most.
        key_env: environment variable of the worker that holds the bearer token; never sent through Redis.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str
    concurrency: int = Field(gt=0)
    per_second: float | None = Field(default=None, gt=0)
    burst: int = Field(default=1, gt=0)
    timeout: float = Field(default=30.0, gt=0)
    key_env: str | None = None

    def client(self) -> httpx.Client:
        """Return a client for it. Raises ConfigurationError if its key is missing."""
        headers = {}
        if self.key_env is not None:
            if not os.environ.get(self.key_env):
                raise ConfigurationError(f"the key of {self.base_url} is missing: set {self.key_env}")
            headers["authorization"] = f"Bearer {os.environ[self.key_env]}"
        limits = httpx.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency)
        return httpx.Client(base_url=self.base_url, headers=headers, limits=limits, follow_redirects=False)


class ApiCall:
    """The ApiHandle of one action.

    Args:
        name: the provider's.
        provider: its limits.
        client: its connections.
        deadline: `time.monotonic()` value at which the action's timeout ends.
    """

    def __init__(self, name: str, provider: Provider, client: httpx.Client, deadline: float) -> None:
        self._name = name
        self._provider = provider
        self._client = client
        self._deadline = deadline

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one request within the deadline.

        Raises:
            InvalidAction: `path` leaves the provider's base address.
            QuotaExhausted: the provider answered 429.
            ServiceUnavailable: no answer, a broken one, one that is too large, or a status of 500 and above.
            ActionTimeout: the action's timeout ended first.
        """
        _check_below_base(path, self._name)
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ActionTimeout(f"no time left for a request to {self._name}")
        try:
            return self._checked(self._send(method, path, min(left, self._provider.timeout), options))
        except httpx.TimeoutException:
            if time.monotonic() >= self._deadline:
                raise ActionTimeout(f"{self._name} did not answer before the action's timeout") from None
            raise ServiceUnavailable(f"{self._name} did not answer in {self._provider.timeout:g} s") from None
        except httpx.InvalidURL as error:
            raise InvalidAction(f"{path!r} is no path for {self._name}: {error}") from None
        except httpx.HTTPError as error:
            raise ServiceUnavailable(f"{self._name}: {type(error).__name__}: {error}") from None

    def _send(self, method: str, path: str, timeout: float, options: dict[str, Any]) -> httpx.Response:
        started = time.monotonic()
        with self._client.stream(method, path, timeout=timeout, **options) as response:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise ServiceUnavailable(f"{self._name} sent more than {MAX_ANSWER >> 20} MiB")
                if time.monotonic() - started > timeout:  # a dripping server never trips httpx's own timeout
                    raise httpx.ReadTimeout("the answer took too long", request=response.request)
            headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
            return httpx.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise QuotaExhausted(f"{self._name} answered 429", _seconds(response.headers.get("retry-after")))
        if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise ServiceUnavailable(f"{self._name} answered {response.status_code}")
        return response


def _check_below_base(path: str, name: str) -> None:
    """The provider's key goes with every request: no path may leave its base address, however it is written."""
    plain = unquote(unquote(path)).replace("\\", "/")
    leaves = "://" in plain or plain.startswith("//") or ".." in plain.partition("?")[0].split("/")
    if leaves or not plain.isprintable():
        raise InvalidAction(f"{path!r} is not a path below the base address of {name}")


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or RETRY_AFTER))
    except ValueError:
        return RETRY_AFTER


class ApiNode:
    """Applies grants for API calls.

    Args:
        name: node name.
        providers: by name.

    Raises:
        ConfigurationError: a provider's key is missing.
    """

    kind: NodeKind = "api"
    capacity: Mapping[str, int] = {}
    services: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()

    def __init__(self, name: str, providers: Mapping[str, Provider]) -> None:
        self.name = name
        self._providers = dict(providers)
        self._clients = {provider: found.client() for provider, found in providers.items()}
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._calls = 0
        self.slots = max(4, sum(provider.concurrency for provider in providers.values()))

    @property
    def quotas(self) -> Mapping[str, QuotaRecord]:
        """What the providers allow."""
        return {
            name: QuotaRecord(concurrency=one.concurrency, per_second=one.per_second, burst=one.burst)
            for name, one in self._providers.items()
        }

    @contextlib.contextmanager
    def apply(self, action: str, header: ActionHeader, grant: GrantHeader) -> Iterator[Applied]:
        """Give the action its provider's client. Raises ServiceUnavailable if this node does not know the provider."""
        name = header.spec.demand.key.removeprefix(API_PREFIX)
        if name not in self._providers:
            raise ServiceUnavailable(f"node {self.name} has no provider {name!r}")
        deadline = time.monotonic() + header.spec.timeout
        call = ApiCall(name, self._providers[name], self._clients[name], deadline)
        with self._lock:
            self._running.add(action)
            self._calls += 1
        try:
            yield Applied(ActionContext(action=action, units=grant.units, deadline=deadline, api=call))
        finally:
            with self._lock:
                self._running.discard(action)

    def cancel(self, action: str) -> bool:
        """A request on its way cannot be taken back; its answer is dropped."""
        with self._lock:
            return action in self._running

    def obey(self, order: NodeOrder) -> None:
        """API nodes have no sandboxes."""

    def units_of(self, action: str, grant: str) -> int:
        """See Node: it does not count them."""
        return 0

    def stats(self) -> dict[str, float]:
        """Calls so far."""
        return {"calls": float(self._calls), "in_flight": float(len(self._running))}

    def stop(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()
