"""How the demo divides the machine in its two runs."""

from __future__ import annotations

from pathlib import Path

from compose.demo.machine import BUDGET_MIB, PER_SECOND, PROVIDER, Machine
from compose.demo.shares import PerAction, Static

SMALL = Machine(cores=2, cpu_unit=0.25, services=("minilm", "smollm2"))


def test_units_and_share() -> None:
    assert (SMALL.units, SMALL.share) == (8, 4)
    assert Machine(16, 1.0, ()).share == 4
    assert Machine(1, 1.0, ()).share == 1


async def test_tangram_has_one_device_and_static_one_per_service() -> None:
    assert SMALL.capacity("tangram") == {"cpu": 8, "api:search": 4, "gpu": 1}
    assert SMALL.capacity("static")["gpu"] == 2
    assert isinstance(SMALL.sharing("tangram"), PerAction)
    static = SMALL.sharing("static")
    assert isinstance(static, Static)
    assert static.live == 2


def test_static_devices_are_held_for_the_whole_batch() -> None:
    assert SMALL.reserved("static", 10.0) == {"gpu": 20.0}
    assert SMALL.reserved("tangram", 10.0) == {}


def test_without_services_there_is_no_gpu() -> None:
    lite = Machine(2, 0.25, ())
    assert lite.capacity("static") == {"cpu": 8, "api:search": 4}
    assert lite.reserved("static", 10.0) == {}
    assert lite.stack("tangram", "http://127.0.0.1:1", Path("state")).gpu == ()


def test_the_stack_spends_less_than_the_provider_allows() -> None:
    stack = SMALL.stack("tangram", "http://127.0.0.1:1", Path("state"))
    (node,) = stack.api
    search = node.providers["search"]
    assert search.concurrency is not None
    assert search.burst is not None
    assert search.concurrency <= PROVIDER.concurrency
    assert PER_SECOND + search.burst < PROVIDER.per_window
    assert stack.imports == ("compose.demo.actions",)
    assert stack.gpu[0].budget_mib == BUDGET_MIB
    assert [stack.gpu[0].devices, SMALL.stack("static", "http://127.0.0.1:1", Path("state")).gpu[0].devices] == [1, 2]
