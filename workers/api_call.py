"""What the body of an action calls its API with."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import httpx

from tangram_tasks.errors import ActionCancelled, ActionTimeout, InvalidAction, QuotaExhausted, TangramError
from workers.api_cache import ApiCache
from workers.api_channel import SAFE_METHODS, ApiChannel, Trouble, check_path
from workers.api_gate import ApiGate
from workers.api_loop import LoopThread
from workers.node import Usage

#: Pause before the first new try, s; it doubles, times a factor between 0.5 and 1.5.
PAUSE = 0.2
LONGEST_PAUSE = 30.0

#: Is told when a provider had too much: seconds for which it closes (0: it only failed), and the lane or None for all.
Complaint = Callable[[float, int | None], None]


class ApiCall:
    """The ApiHandle of one action.

    Args:
        channel: the connections to its provider.
        loop: where they live.
        gate: whether the provider may be called.
        complain: tells everybody what the provider complained of.
        cache: answers that are known, if they are kept.
        lane: which key it was granted.
        calls: how many requests it was granted.
        deadline: `time.monotonic()` value at which the action's timeout ends.
        usage: what it used is written there.
    """

    def __init__(
        self,
        channel: ApiChannel,
        loop: LoopThread,
        gate: ApiGate,
        complain: Complaint,
        *,
        cache: ApiCache | None = None,
        lane: int = 0,
        calls: int = 1,
        deadline: float,
        usage: Usage,
    ) -> None:
        self._channel = channel
        self._loop = loop
        self._gate = gate
        self._complain = complain
        self._cache = cache
        self._lane = lane
        self._granted = self._left = calls
        self._deadline = deadline
        self._future: Future[httpx.Response | Trouble] | None = None
        self._cancelled = False
        self.usage = usage
        self.trouble: Trouble | None = None
        self.safe = True

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one request within the deadline, or take the answer that is known.

        Raises:
            InvalidAction: `path` leaves the provider's base address, or these are more requests than were granted.
            QuotaExhausted: the provider answered 429, or is closed.
            ServiceUnavailable: no answer, a broken one, one that is too large, or a status of 500 and above.
            ActionTimeout: the action's timeout ended first.
        """
        name, self.trouble = self._channel.name, None
        check_path(path, name)
        self.safe = method.upper() in SAFE_METHODS
        known = self._cache.find(method, path, options) if self._cache else None
        if known is not None:
            return known
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ActionTimeout(f"no time left for a request to {name}")
        if self._left <= 0:
            raise InvalidAction(f"this action was granted fewer requests to {name}: declare calls=N, or api={{...: N}}")
        closed = self._gate.closed_for(self._lane)
        if closed:
            raise self._failed(Trouble(QuotaExhausted(f"{name} is closed", closed), refused=True))
        self._left -= 1
        answer = self._sent(method, path, min(left, self._channel.provider.timeout), options)
        if isinstance(answer, Trouble):
            self._complained(answer)
            if time.monotonic() >= self._deadline:
                raise ActionTimeout(f"{name} did not answer before the action's timeout") from None
            raise self._failed(answer)
        self._count_tokens(answer)
        if self._cache is not None:
            self._cache.keep(method, path, options, answer)
        return answer

    def all_left(self) -> bool:
        """Whether it has sent all the requests that it was granted."""
        return self._left == 0 and self.usage.calls == self._granted

    def cancel(self) -> None:
        """End what it waits for."""
        self._cancelled = True
        if self._future is not None:
            self._future.cancel()

    def pause(self, tries: int) -> float | None:
        """Return after how many seconds the action may be tried again for what went wrong last; None if never.

        A closed provider needs none: the scheduler lets nobody pass before it opens.
        """
        trouble = self.trouble
        if trouble is None or not (trouble.refused or self.safe):
            return None
        if isinstance(trouble.error, QuotaExhausted):
            wait, pause = trouble.error.retry_after, 0.0
        else:
            pause = wait = min(LONGEST_PAUSE, PAUSE * 2**tries) * random.uniform(0.5, 1.5)
        return pause if time.monotonic() + wait < self._deadline else None

    def _sent(self, method: str, path: str, timeout: float, options: dict[str, Any]) -> httpx.Response | Trouble:
        told = [False]

        def left() -> None:
            if not told[0]:
                told[0] = True
                self.usage.calls += 1
            self.usage.sent_at = time.time()

        self._future = self._loop.submit(self._channel.send(method, path, self._lane, timeout, options, left))
        if self._cancelled:
            self._future.cancel()
        try:
            return self._future.result()
        except CancelledError:
            raise ActionCancelled(f"the request to {self._channel.name} was cancelled") from None

    def _failed(self, trouble: Trouble) -> TangramError:
        self.trouble = trouble
        return trouble.error

    def _complained(self, trouble: Trouble) -> None:
        if trouble.closed is not None:
            lane = None if trouble.everybody else self._lane
            self._gate.close(trouble.closed, lane)
            self._complain(trouble.closed, lane)
        elif self._channel.provider.concurrency is None:
            self._complain(0.0, self._lane)

    def _count_tokens(self, answer: httpx.Response) -> None:
        if not answer.headers.get("content-type", "").startswith("application/json"):
            return
        try:
            tokens = answer.json()["usage"]["total_tokens"]
        except (ValueError, LookupError, TypeError):
            return
        if isinstance(tokens, int) and tokens >= 0:
            self.usage.tokens = (self.usage.tokens or 0) + tokens
