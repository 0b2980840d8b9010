"""A service as one action uses it, from page-in until release."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tangram_tasks.errors import ActionCancelled, ActionTimeout, InvalidAction, NodeLost, ServiceUnavailable

if TYPE_CHECKING:
    from workers.device_thread import DeviceThread
    from workers.residency import PageIn
    from workers.service import Paged, Service

#: Seconds past its deadline that a run gets to end before its action ends without it.
OVERRUN = 5.0
#: Seconds between two looks at whether a caller still waits for its runs.
_LOOK = 0.2


@dataclass(slots=True)
class LeaseUsage:
    """What a lease cost beside the calls.

    Args:
        restore_s: seconds of paging in, waiting for room included.
        page_ins: devices the service was paged in on.
    """

    restore_s: float = 0.0
    page_ins: int = 0


class ServiceLease:
    """The right of one action to call a service; implements `tangram_tasks.context.ServiceHandle` and
    `workers.service.Watch`.

    With several devices a payload's items are spread over them (data parallel).

    Args:
        service: the service.
        action: who uses it.
        deadline: `time.monotonic()` value at which waiting for a device ends; then `begin` sets the action's own.
    """

    def __init__(self, service: Service, action: str, deadline: float) -> None:
        self.usage = LeaseUsage()
        self._service = service
        self._action = action
        self.deadline = deadline
        self._replicas: list[tuple[Paged, DeviceThread]] = []
        self._cancelled = threading.Event()
        self.lost = ""
        self._ended = False
        self._lock = threading.Lock()
        self._running = 0
        self._then: Callable[[], None] | None = None

    @property
    def units(self) -> int:
        """Devices it has."""
        return len(self._replicas)

    def add(self, replica: Paged, cost: PageIn, thread: DeviceThread) -> None:
        """Add a device on which the service is pinned for this lease, and the thread that runs it there."""
        self._replicas.append((replica, thread))
        self.usage.restore_s += cost.seconds
        self.usage.page_ins += cost.count

    def begin(self, timeout: float) -> float:
        """Start the action's own time, `timeout` s: paging in did not count. Returns the new deadline."""
        self.deadline = time.monotonic() + timeout
        return self.deadline

    def cancel(self) -> None:
        """Let the next batch, or the wait for a device, end with ActionCancelled."""
        self._cancelled.set()

    def lose(self, reason: str) -> None:
        """End what runs, and refuse calls, with NodeLost: a device of the lease is gone."""
        self.lost = reason

    def end(self, then: Callable[[], None]) -> bool:
        """Refuse further calls, and do `then` when nothing runs any more: at once, or in a device's thread.

        Returns whether it was done at once.
        """
        with self._lock:
            self._ended = True
            if self._running:
                self._then = then
                return False
        then()
        return True

    def check_cancelled(self) -> None:
        """Raise ActionCancelled if somebody cancelled the action, NodeLost if it has lost a device."""
        if self._cancelled.is_set():
            raise ActionCancelled(f"action {self._action} was cancelled")
        if self.lost:
            raise NodeLost(f"action {self._action}: {self.lost}")

    def check(self) -> None:
        """Raise ActionCancelled, NodeLost, ActionTimeout or ServiceUnavailable if the action must not go on."""
        self.check_cancelled()
        if self._ended:
            raise ServiceUnavailable(self._over())
        late = time.monotonic() - self.deadline
        if late > 0:
            raise ActionTimeout(
                f"action {self._action} is {late:.1f} s past its timeout in service {self._service.name}"
            )

    def call(self, method: str, payload: dict[str, Any]) -> list[Any]:
        """Call a method; returns one JSON-able value per item of the payload.

        Raises:
            InvalidAction: no such method, or the payload is not what it expects.
            ActionTimeout: the deadline passed; looked at between batches.
            ActionCancelled: the same.
            NodeLost: a device of the lease is gone.
            ServiceUnavailable: the model failed, or the lease has ended.
        """
        self.check()
        if not isinstance(payload, dict):
            raise InvalidAction(f"method {method} expects a dict as payload, not {type(payload).__name__}")
        chosen = self._service.method(method)
        items = chosen.items(payload)
        units = len(self._replicas)
        size = max(1, min(chosen.batch, -(-len(items) // units)))
        batches = [items[start : start + size] for start in range(0, len(items), size)]
        shares = [batches[first::units] for first in range(units)]
        answered = self._answers(
            [
                self._submit(thread, partial(self._run, method, replica, share))
                for (replica, thread), share in zip(self._replicas, shares, strict=True)
            ]
        )
        in_order = (answered[index % units][index // units] for index in range(len(batches)))
        return [answer for batch in in_order for answer in batch]

    def _submit(self, thread: DeviceThread, work: Callable[[], list[list[Any]]]) -> Future[list[list[Any]]]:
        with self._lock:
            if self._ended:
                raise ServiceUnavailable(self._over())
            self._running += 1
        future = thread.submit(work)
        future.add_done_callback(self._one_less)
        return future

    def _one_less(self, _future: Future[Any]) -> None:
        with self._lock:
            self._running -= 1
            then, self._then = (None, self._then) if self._running else (self._then, None)
        if then is not None:
            then()

    def _answers(self, futures: Sequence[Future[list[list[Any]]]]) -> list[list[list[Any]]]:
        """Wait for the runs, but not for ever: the action ends without them, and its devices stay taken."""
        while wait(futures, _LOOK, FIRST_EXCEPTION).not_done:
            for future in futures:
                if future.done():
                    future.result()  # raises what went wrong there
            self.check_cancelled()
            late = time.monotonic() - self.deadline
            if late > OVERRUN:
                raise ActionTimeout(
                    f"action {self._action} is {late:.1f} s past its timeout in service {self._service.name}, which "
                    "does not end: its devices are out of use until it does"
                )
        return [future.result() for future in futures]

    def _over(self) -> str:
        return f"the lease of action {self._action} on service {self._service.name} has ended"

    def _run(self, method: str, replica: Paged, batches: Sequence[Sequence[Any]]) -> list[list[Any]]:
        answered = []
        for batch in batches:
            self.check()
            answered.append(self._service.run(method, replica, batch, self))
        return answered
