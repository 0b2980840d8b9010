"""An API node: calls providers' HTTP APIs. Quotas are held by the scheduler; this node only spends them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping

import redis

from tangram_tasks.context import ActionContext
from tangram_tasks.errors import QuotaExhausted, ServiceUnavailable
from tangram_tasks.keys import Keys
from tangram_tasks.orders import NodeOrder
from tangram_tasks.provider import Provider
from tangram_tasks.resources import API_PREFIX
from tangram_tasks.sharing import CallsSent, CloseProvider, ProviderState, QuotaRecord
from tangram_tasks.wire import ActionHeader, GrantHeader, NodeKind
from workers.api_cache import ApiCache
from workers.api_call import ApiCall
from workers.api_channel import ApiChannel
from workers.api_gate import ApiGate
from workers.api_loop import LoopThread
from workers.api_voice import ApiVoice
from workers.node import Applied, TryLater, Usage

#: Actions in flight on one node. Each has a thread, which is made when it is needed and sleeps.
IN_FLIGHT = 2048
#: The scheduler learns this often, s, when the calls of actions that still run have left.
TELL_EVERY = 0.25


class ApiNode:
    """Applies grants for API calls.

    Args:
        name: node name.
        providers: by name.
        client: the deployment's Redis, which keeps answers and takes complaints.
        keys: names there.

    Raises:
        ConfigurationError: a provider's key is missing.
    """

    kind: NodeKind = "api"
    capacity: Mapping[str, int] = {}
    services: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()
    slots = IN_FLIGHT

    def __init__(self, name: str, providers: Mapping[str, Provider], client: redis.Redis, keys: Keys) -> None:
        self.name = name
        self._channels = {provider: ApiChannel(provider, found) for provider, found in providers.items()}
        self._gates = {provider: ApiGate() for provider in providers}
        self._caches = {
            provider: ApiCache(client, keys, provider, found.cache_ttl)
            for provider, found in providers.items()
            if found.cache_ttl is not None
        }
        self._voice = ApiVoice(client, keys)
        self._lock = threading.Lock()
        self._running: dict[str, ApiCall] = {}
        self._told: set[str] = set()
        self._calls = self._refused = 0
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes a line for every request
        self._loop = LoopThread()
        self._stop = threading.Event()
        self._telling = threading.Thread(target=self._keep_telling, name="api-sent", daemon=True)
        self._telling.start()

    @property
    def quotas(self) -> Mapping[str, QuotaRecord]:
        """What the providers allow."""
        return {name: one.provider.quota(max(1, len(one.keys))) for name, one in self._channels.items()}

    @contextlib.contextmanager
    def apply(self, action: str, header: ActionHeader, grant: GrantHeader) -> Iterator[Applied]:
        """Give the action its provider.

        Raises:
            ServiceUnavailable: this node does not know the provider.
            TryLater: the provider refused or lost the body's call, and it may be tried again.
        """
        name = header.spec.demand.key.removeprefix(API_PREFIX)
        if name not in self._channels:
            raise ServiceUnavailable(f"node {self.name} has no provider {name!r}")
        deadline, usage = time.monotonic() + header.spec.timeout - header.spent, Usage()
        call = ApiCall(
            self._channels[name],
            self._loop,
            self._gates[name],
            lambda seconds, lane: self._complain(name, seconds, lane),
            cache=self._caches.get(name),
            lane=grant.lane,
            calls=grant.units,
            deadline=deadline,
            usage=usage,
        )
        with self._lock:
            self._running[action] = call
        try:
            yield Applied(ActionContext(action=action, units=grant.units, deadline=deadline, api=call), usage)
        except (QuotaExhausted, ServiceUnavailable) as error:
            pause = call.pause(header.tries) if header.tries < self._channels[name].provider.retries else None
            if pause is None or call.trouble is None or call.trouble.error is not error:
                raise
            raise TryLater(str(error), pause) from error
        finally:
            with self._lock:
                del self._running[action]
                self._told.discard(action)
                self._calls += usage.calls

    def cancel(self, action: str) -> bool:
        """End what an action waits for. The provider may go on with it."""
        with self._lock:
            call = self._running.get(action)
        if call is not None:
            call.cancel()
        return call is not None

    def obey(self, order: NodeOrder) -> None:
        """Close a provider that complained elsewhere. API nodes have no sandboxes."""
        if isinstance(order, CloseProvider) and order.provider in self._gates:
            self._gates[order.provider].close(order.seconds, order.lane)

    def units_of(self, action: str, grant: str) -> int:
        """See Node: it does not count them."""
        return 0

    def stats(self) -> dict[str, float]:
        """Calls so far, complaints of providers, and actions in flight."""
        return {
            "calls": float(self._calls),
            "complaints": float(self._refused),
            "in_flight": float(len(self._running)),
        }

    def stop(self) -> None:
        """Close the connections. Idempotent."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._telling.join()
        for channel in self._channels.values():
            self._loop.run(channel.aclose())
        self._loop.stop()

    def _complain(self, provider: str, seconds: float, lane: int | None) -> None:
        self._refused += 1
        self._voice.tell(ProviderState(node=self.name, provider=provider, seconds=seconds, lane=lane))

    def _keep_telling(self) -> None:
        """Calls take long at some providers: when they left must be known before they end."""
        while not self._stop.wait(TELL_EVERY):
            with self._lock:
                fresh = {
                    action: call.usage.sent_at
                    for action, call in self._running.items()
                    if call.all_left() and action not in self._told
                }
                self._told |= fresh.keys()
            if fresh:
                self._voice.tell(CallsSent(node=self.name, sent=fresh))
