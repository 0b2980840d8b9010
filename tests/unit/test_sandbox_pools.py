"""Warm and stateless pools, with sandboxes that are only recorded."""

from __future__ import annotations

from typing import Any

import pytest

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import ConfigurationError, InvalidAction, SandboxError
from tangram_tasks.shared import shared_action
from workers.stateless_pool import IDLE_TIME, StatelessPool
from workers.warm_pool import WarmPool


class Maker:
    """Makes stand-ins of sandboxes, and remembers for what."""

    def __init__(self) -> None:
        self.now = 0.0
        self.broken = False
        self.made: list[Any] = []
        self.removed: list[Any] = []

    def __call__(self, order: OpenTrajectory) -> Any:
        self.made.append(order)
        if self.broken:
            raise SandboxError("there is no image")
        return object()


@pytest.fixture
def maker() -> Maker:
    return Maker()


def order(**fields: Any) -> OpenTrajectory:
    return OpenTrajectory(**{"trajectory": "t", "image": "i", "memory": 100, "expires_at": 1.0, **fields})


def test_the_warm_pool_fills_to_its_target_and_only_what_matches_is_claimed(maker: Maker) -> None:
    pool = WarmPool({("i", 100): 2}, maker, maker.removed.append)
    pool.refill(lambda: True)
    pool.refill(lambda: True)
    assert (pool.ready, len(maker.made)) == (2, 2)
    others: list[dict[str, Any]] = [{"image": "j"}, {"memory": 101}, {"network": "bridge"}, {"user": 7}]
    others += [{"mounts": {"/a": "/b"}}, {"fork_of": "x"}]
    assert [pool.claim(order(**fields)) for fields in others] == [None] * len(others)
    assert pool.claim(order()) is not pool.claim(order())
    assert pool.claim(order()) is None
    assert pool.counters == {"warm_claims": 2, "warm_misses": 1}


def test_refilling_stops_when_somebody_waits_for_a_sandbox(maker: Maker) -> None:
    pool = WarmPool({("i", 100): 5}, maker, maker.removed.append)
    answers = iter([True, True, False])
    pool.refill(lambda: next(answers))
    assert pool.ready == 2


def test_an_image_that_fails_is_left_alone_for_longer_and_longer(maker: Maker) -> None:
    pool = WarmPool({("i", 100): 2}, maker, maker.removed.append, clock=lambda: maker.now)
    maker.broken = True
    tries = []
    for maker.now in range(1000):  # the clock of the pool
        before = len(maker.made)
        pool.refill(lambda: True)
        tries += [maker.now] if len(maker.made) > before else []
    assert tries[:6] == [0, 1, 3, 7, 15, 31]
    assert len(tries) < 14, "never more than one try in five minutes"
    maker.broken, maker.now = False, 2000.0
    pool.refill(lambda: True)
    assert pool.ready == 2


def test_a_pool_keeps_several_sizes_of_an_image(maker: Maker) -> None:
    pool = WarmPool({("i", 100): 1, ("i", 300): 2}, maker, maker.removed.append)
    pool.refill(lambda: True)
    assert sorted(made.memory for made in maker.made) == [100, 300, 300]
    assert pool.reserved_mib == 700
    assert pool.claim(order(memory=300)) is not None
    assert pool.claim(order(memory=200)) is None
    assert pool.ready == 2


def test_targets_change(maker: Maker) -> None:
    pool = WarmPool({("i", 100): 2}, maker, maker.removed.append)
    pool.refill(lambda: True)
    assert len(pool.aim(("i", 100), 1, most=1000)) == 1
    assert pool.aim(("j", 200), 2, most=1000) == []
    pool.refill(lambda: True)
    assert (pool.ready, pool.reserved_mib) == (3, 500)
    with pytest.raises(ConfigurationError, match="1000 MiB for warm sandboxes is all"):
        pool.aim(("i", 100), 6, most=1000)
    assert pool.reserved_mib == 500


def test_what_was_made_for_a_target_that_fell_meanwhile_goes(maker: Maker) -> None:
    def fall() -> bool:
        pool.aim(("i", 100), 0, most=1000)
        return True

    pool = WarmPool({("i", 100): 1}, maker, maker.removed.append)
    pool.refill(fall)
    assert (pool.ready, len(maker.removed)) == (0, 1)


def test_a_closed_warm_pool_hands_over_what_it_has(maker: Maker) -> None:
    pool = WarmPool({("i", 100): 2}, maker, maker.removed.append)
    pool.refill(lambda: True)
    assert len(pool.close()) == 2
    pool.refill(lambda: True)
    assert pool.close() == []
    assert pool.claim(order()) is None


def clean(sandbox: Any) -> str:
    return ""


def dirty(sandbox: Any) -> str:
    return "/work/a"


def test_a_clean_sandbox_serves_the_next_of_its_kind(maker: Maker) -> None:
    pool = StatelessPool(maker, maker.removed.append, keep=2, clean=clean, clock=lambda: maker.now)
    first = pool.take("i", 64)
    pool.give_back(first, "i", 64)
    assert pool.take("i", 128) is not first
    assert pool.take("j", 64) is not first
    assert pool.take("i", 64) is first
    assert maker.removed == []


def test_a_dirty_one_serves_nobody(maker: Maker) -> None:
    pool = StatelessPool(maker, maker.removed.append, keep=2, clean=dirty)
    first = pool.take("i", 64)
    pool.give_back(first, "i", 64)
    assert maker.removed == [first]
    assert pool.take("i", 64) is not first


def test_too_many_and_too_old_ones_go(maker: Maker) -> None:
    pool = StatelessPool(maker, maker.removed.append, keep=1, clean=clean, clock=lambda: maker.now)
    taken = [pool.take("i", 64) for _ in range(2)]
    for sandbox in taken:
        pool.give_back(sandbox, "i", 64)
    assert maker.removed == [taken[1]]
    maker.now = IDLE_TIME + 1
    pool.expire()
    assert maker.removed == [taken[1], taken[0]]
    last = pool.take("i", 64)
    assert pool.close() == []
    pool.give_back(last, "i", 64)
    assert maker.removed[-1] is last, "what comes back after the end goes at once"


def test_stateless_actions_say_image_and_memory() -> None:
    def judge(sandbox: Any) -> None: ...

    spec = shared_action(cpu=1, sandbox="stateless", image="i", memory="64MiB")(judge).spec
    assert spec is not None
    assert (spec.image, spec.sandbox, dict(spec.demand.minimum)) == ("i", True, {"cpu": 1, "memory": 64})
    with pytest.raises(InvalidAction, match="add sandbox='stateless'"):
        shared_action(cpu=1, image="i")(judge)
    with pytest.raises(InvalidAction, match="'trajectory' or 'stateless'"):
        shared_action(cpu=1, sandbox="none")(judge)

    def no_sandbox() -> None: ...

    with pytest.raises(InvalidAction, match="must be stateless, take a sandbox"):
        shared_action(cpu=1, sandbox="stateless")(no_sandbox)
