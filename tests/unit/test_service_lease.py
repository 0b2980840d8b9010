"""How a lease splits a call into batches, and when it refuses to go on. No model is involved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tangram_tasks.errors import ActionCancelled, ActionTimeout, InvalidAction, ServiceUnavailable
from workers.device_thread import DeviceThread
from workers.residency import PageIn
from workers.service_lease import ServiceLease

if TYPE_CHECKING:
    from workers.service import Paged, Service, Watch

FOREVER = 1e12
THREADS: list[DeviceThread] = []


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """End the threads that a test started."""
    yield
    while THREADS:
        THREADS.pop().stop()


class Doubler:
    """A service that doubles numbers, two at a time, and notes which replica did."""

    name = "doubler"

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.runs: list[tuple[str, list[int]]] = []
        self._before = before

    def method(self, name: str) -> Any:
        return SimpleNamespace(items=lambda payload: payload["numbers"], batch=2)

    def run(self, name: str, replica: Any, items: Sequence[int], watch: Watch) -> list[int]:
        self._before()
        self.runs.append((replica, list(items)))
        return [2 * item for item in items]


def _lease(service: Doubler, *replicas: str, deadline: float = FOREVER) -> ServiceLease:
    lease = ServiceLease(cast("Service", service), "a1", deadline)
    for replica in replicas:
        THREADS.append(DeviceThread(replica))
        lease.add(cast("Paged", replica), PageIn(0.5, 1), THREADS[-1])
    return lease


def test_items_are_answered_in_order_in_batches() -> None:
    service = Doubler()

    assert _lease(service, "r0").call("double", {"numbers": [1, 2, 3, 4, 5]}) == [2, 4, 6, 8, 10]
    assert service.runs == [("r0", [1, 2]), ("r0", [3, 4]), ("r0", [5])]


def test_several_devices_share_the_items() -> None:
    service = Doubler()
    lease = _lease(service, "r0", "r1", "r2")

    assert lease.call("double", {"numbers": list(range(10))}) == list(range(0, 20, 2))
    assert {replica for replica, _ in service.runs} == {"r0", "r1", "r2"}
    assert lease.usage.page_ins == 3
    assert lease.usage.restore_s == 1.5


def test_a_few_items_are_spread_thin() -> None:
    service = Doubler()
    _lease(service, "r0", "r1").call("double", {"numbers": [1, 2]})

    assert sorted(service.runs) == [("r0", [1]), ("r1", [2])]


def test_no_items_give_no_answers() -> None:
    assert _lease(Doubler(), "r0").call("double", {"numbers": []}) == []


def test_the_deadline_is_looked_at_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    service = Doubler(before=lambda: now.__setitem__(0, now[0] + 1.0))
    lease = _lease(service, "r0", deadline=1.5)

    with pytest.raises(ActionTimeout, match=r"action a1 is 0\.5 s past its timeout in service doubler"):
        lease.call("double", {"numbers": [1, 2, 3, 4, 5, 6]})
    assert len(service.runs) == 2


def test_a_cancel_ends_the_call_before_the_next_batch() -> None:
    leases: list[ServiceLease] = []
    service = Doubler(before=lambda: leases[0].cancel())
    leases.append(_lease(service, "r0", "r1"))

    with pytest.raises(ActionCancelled, match="a1"):
        leases[0].call("double", {"numbers": list(range(20))})
    assert 1 <= len(service.runs) <= 2


def test_a_lease_that_ended_answers_no_more() -> None:
    lease = _lease(Doubler(), "r0")
    ended: list[str] = []
    assert lease.end(lambda: ended.append("now"))
    assert ended == ["now"]

    with pytest.raises(ServiceUnavailable, match="lease of action a1 on service doubler has ended"):
        lease.call("double", {"numbers": [1]})


def test_a_payload_that_is_no_dict_is_refused() -> None:
    with pytest.raises(InvalidAction, match="method double expects a dict"):
        _lease(Doubler(), "r0").call("double", cast("dict[str, Any]", [1, 2]))


def test_paging_in_does_not_count_as_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Doubler()
    lease = _lease(service, "r0", deadline=100.0)
    monkeypatch.setattr(time, "monotonic", lambda: 101.0)
    with pytest.raises(ActionTimeout):
        lease.call("double", {"numbers": [1]})
    assert lease.begin(5.0) == 106.0
    assert lease.call("double", {"numbers": [1]}) == [2]
