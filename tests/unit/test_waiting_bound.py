"""Nobody waits without a bound: who arrives much later is never served first, whatever the policy and the resource."""

from __future__ import annotations

from random import Random

import pytest

from scheduler.core.admission import Admission
from scheduler.core.events import Action, NodeJoined
from scheduler.core.fcfs import AGING
from scheduler.core.quota import Quota
from scheduler.core.residency import AGING as COLD
from tests.support.core import action
from tests.support.virtual_time import VirtualTime

#: ms by which an action that is served earlier may have arrived later, on CPU nodes.
BOUND = {
    "live": 30_000,  # an eviction; a head that lacks memory is passed for 10 s
    "wait_or_start": 30_000,  # a size that is worth waiting for
    "paper": 0,
    "paper_wait": 0,
    "min": 0,
    "fixed:4": 0,
    "utilisation": 0,
}
SIZES = ((1,), (1, 2, 4, 8), (2, 4), (4,))


def overload(random: Random, count: int, gap: float, **fields: object) -> list[Action]:
    """Return more than a node of 8 cores can do, of all kinds, a tenth of it with much memory."""
    rows, at = [], 0.0
    for place in range(count):
        at += random.expovariate(1 / gap)
        sizes = random.choice(SIZES)
        base = random.uniform(500, 20_000)
        rows.append(
            action(
                f"a{place}",
                sizes=sizes,
                durations=[round(base * (0.1 + 0.9 / size)) for size in sizes],
                memory=90 if random.random() < 0.1 else 5,
                arrival=round(at),
                malleable=len(sizes) > 1 and random.random() < 0.5,
                job=random.choice(["", "b"]),
            )
        )
    return rows


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", BOUND)
def test_on_cpu_nodes(policy: str, seed: int) -> None:
    core = Admission(policy, instant_resize=True)
    core.handle(NodeJoined(0, "n", "cpu", {"cpu": 8, "memory": 100}))
    world = VirtualTime(core)
    world.run(overload(Random(seed), 250, gap=2000))
    assert len(world.starts) == 250
    late = [start.action.arrival - one.arrival for start in world.starts for one in start.overtaken]
    assert max(late, default=0) <= BOUND[policy]
    passed = [start for start in world.starts if start.overtaken]
    assert bool(passed) == (BOUND[policy] > 0), "the load makes nobody pass: nothing is tested"


@pytest.mark.parametrize("seed", range(3))
def test_a_head_that_lacks_memory_is_passed_for_ten_seconds_at_most(seed: int) -> None:
    core = Admission("live", instant_resize=True)
    core.handle(NodeJoined(0, "n", "cpu", {"cpu": 8, "memory": 100}))
    world, random = VirtualTime(core), Random(seed)
    world.run(
        action(
            f"a{place}", durations=[3000], memory=80 if place % 5 == 0 else 10, arrival=place * random.randint(300, 500)
        )
        for place in range(200)
    )
    waits = [start.at - one.arrival for start in world.starts for one in start.overtaken]
    assert 0 < max(waits) < 10_000


@pytest.mark.parametrize("seed", range(3))
def test_on_gpu_nodes(seed: int) -> None:
    core, random = Admission(), Random(seed)
    core.handle(NodeJoined(0, "g", "gpu", {"gpu": 4}, services=("a", "b", "c", "d", "e", "f")))
    world = VirtualTime(core)
    world.run(
        action(
            f"a{place}",
            key="gpu",
            sizes=random.choice([(1,), (2,)]),
            durations=[random.randint(100, 900)],
            arrival=place * 120,
            service=random.choice("abcdef"),
        )
        for place in range(400)
    )
    late = [start.action.arrival - one.arrival for start in world.starts for one in start.overtaken]
    assert 0 < max(late) <= 2 * COLD


def test_at_providers_first_come_first_served() -> None:
    core = Admission()
    core.handle(NodeJoined(0, "x", "api", {}, {"search": Quota(concurrency=3, per_second=5.0, burst=2)}))
    world = VirtualTime(core)
    world.run(action(f"a{n}", key="api:search", durations=[300 + n % 700], arrival=n * 100) for n in range(200))
    assert not any(start.overtaken for start in world.starts)
    assert world.starts[-1].at >= 200 / 5 * 1000 - 1000, "the rate is kept"


@pytest.mark.parametrize("policy", BOUND)
def test_urgent_actions_overtake_by_no_more_than_their_head_start(policy: str) -> None:
    core = Admission(policy, instant_resize=True)
    core.handle(NodeJoined(0, "n", "cpu", {"cpu": 2, "memory": 100}))
    world = VirtualTime(core)
    world.run(action(f"a{n}", durations=[1000], arrival=n * 300, priority=int(n % 3 == 0)) for n in range(400))
    late = [start.action.arrival - one.arrival for start in world.starts for one in start.overtaken]
    assert 0 < max(late) <= AGING
