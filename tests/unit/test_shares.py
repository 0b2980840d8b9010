"""Per-action and static sharing of one machine."""

from __future__ import annotations

import asyncio

import pytest

from compose.demo.shares import PerAction, Static


async def test_per_action_lets_everybody_in_and_reserves_nothing() -> None:
    sharing = PerAction()
    async with sharing.enter() as first, sharing.enter() as second, first.hold("minilm"), second.hold("minilm"):
        assert first.cpu is None
        assert first.waited == 0
    assert sharing.reserved() == {}


async def test_static_lets_in_as_many_shares_as_fit() -> None:
    sharing = Static(capacity=9, share=4, services=(), quotas={})
    live = most = 0
    gates = [asyncio.Event() for _ in range(5)]

    async def trajectory(gate: asyncio.Event) -> None:
        nonlocal live, most
        async with sharing.enter() as share:
            assert share.cpu == 4
            live += 1
            most = max(most, live)
            await gate.wait()
            live -= 1

    tasks = [asyncio.create_task(trajectory(gate)) for gate in gates]
    for gate in gates:
        for _ in range(5):
            await asyncio.sleep(0)
        gate.set()
    await asyncio.gather(*tasks)
    assert most == 2
    assert sharing.reserved()["cpu"] > 0


async def test_static_gives_a_share_back_when_its_trajectory_is_cancelled() -> None:
    sharing = Static(capacity=4, share=4, services=(), quotas={})

    async def forever() -> None:
        async with sharing.enter():
            await asyncio.Event().wait()

    task = asyncio.create_task(forever())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(5), sharing.enter() as share:
        assert share.cpu == 4


async def test_static_serves_one_call_of_a_service_at_a_time() -> None:
    sharing = Static(capacity=8, share=4, services=("minilm", "smollm2"), quotas={})
    async with sharing.enter() as first, sharing.enter() as second, first.hold("minilm"):
        async with second.hold("smollm2"):
            pass  # another device
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), second.hold("minilm"):
                pass


async def test_static_splits_a_quota_evenly_over_live_trajectories() -> None:
    sharing = Static(capacity=8, share=4, services=(), quotas={"search": 100.0})
    async with sharing.enter() as share:
        clock = asyncio.get_running_loop().time
        began = clock()
        for _ in range(3):
            async with share.hold("api:search"):
                pass
        assert clock() - began >= 2 * 0.02  # 100 per second among 2


def test_a_share_must_fit() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Static(capacity=3, share=4, services=(), quotas={})
