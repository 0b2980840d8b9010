"""Policy "paper" against a literal reference, on small random cases of any shape."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.arrangement import Arrangement
from scheduler.core.bucket import TokenBucket
from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.paper import PaperPolicy
from tests.support import reference
from tests.support.core import action

NOW = 100
KEYS = ("cpu", "gpu")


@st.composite
def actions(draw: st.DrawFn, keys: tuple[str, ...] = ("cpu",), most: int = 5) -> list[Action]:
    queue = []
    for place in range(draw(st.integers(1, most))):
        key = draw(st.sampled_from(keys))
        sizes = sorted(draw(st.sets(st.integers(1, 5), min_size=1, max_size=3)))
        durations = draw(st.lists(st.integers(1, 30), min_size=len(sizes), max_size=len(sizes)))
        beside = {name: draw(st.integers(0, 2)) for name in keys if name != key}
        arrival = draw(st.integers(0, NOW))
        queue.append(action(f"a{place}", key=key, sizes=sizes, durations=durations, beside=beside, arrival=arrival))
    return queue


@settings(deadline=None)
@given(actions(), st.integers(0, 12))
def test_every_prefix_of_the_table_is_the_best_of_all_arrangements(members: list[Action], extra: int) -> None:
    budget = sum(one.sizes[0] for one in members) + extra
    table = Arrangement(members, budget)
    for kept in range(len(members) + 1):
        best = reference.arrangement(members[:kept], budget)
        assert table.units(kept) == list(best)
        rows = zip(members, best, strict=False)
        assert table.total(kept) == sum(one.durations[one.sizes.index(units)] for one, units in rows)


@settings(deadline=None)
@given(
    actions(keys=KEYS, most=6),
    st.fixed_dictionaries({"cpu": st.integers(0, 12), "gpu": st.integers(0, 8)}),
    st.lists(st.tuples(st.integers(NOW - 20, NOW + 40), st.sampled_from(KEYS), st.integers(1, 4)), max_size=4),
    st.integers(0, 4),
)
def test_the_decision_is_the_literal_one(
    queue: list[Action], free: dict[str, int], holds: list[tuple[int, str, int]], depth: int
) -> None:
    running = [Running(end, {name: units}) for end, name, units in holds]
    decided = PaperPolicy(depth).decide(NOW, free, running, queue)
    assert {one.id: units for one, units in decided} == reference.decide(NOW, free, running, queue, depth)
    assert [one.id for one, _ in decided] == [one.id for one in queue if any(one is other for other, _ in decided)]


@settings(deadline=None)
@given(actions(keys=KEYS, most=6), st.integers(0, 10), st.integers(0, 4))
def test_what_is_explained_is_what_is_decided(queue: list[Action], units: int, depth: int) -> None:
    free, running = {"cpu": units, "gpu": units}, [Running(NOW + 9, {"cpu": 3})]
    policy = PaperPolicy(depth)
    groups = policy.explain(NOW, free, running, queue)
    explained = {name: given for group in groups for name, given in group.alloc.items()}
    assert explained == {one.id: given for one, given in policy.decide(NOW, free, running, queue)}
    for group in groups:
        holds = [(NOW + 9, 3)] if group.key == "cpu" else []
        members = [one for one in queue if one.id in group.members]
        later = [one for one in queue if one.id in group.later]
        for kept, value in group.objective_by_kept.items():
            expected = reference.objective(NOW, group.budget, holds, members, later, kept)
            assert (float("inf") if value is None else value) == expected


@settings(deadline=None)
@given(
    st.sampled_from([Fraction(1, 4), Fraction(3), Fraction(7, 2), Fraction(100)]),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 5)), max_size=30),
)
def test_the_bucket_equals_exact_fractions(rate: Fraction, burst: int, steps: list[tuple[int, int]]) -> None:
    bucket, level, now = TokenBucket(float(rate), burst, now=0), Fraction(burst), 0
    starts: list[tuple[int, int]] = []
    for wait, wanted in steps:
        now += wait
        level = min(Fraction(burst), level + rate * wait / 1000)
        assert bucket.tokens(now) == int(level)
        if wanted <= burst:
            when = bucket.when(now, wanted)
            assert min(Fraction(burst), level + rate * (when - now) / 1000) >= wanted
            assert when == now or level + rate * (when - 1 - now) / 1000 < wanted
        if wanted <= level:
            bucket.take(now, wanted)
            level -= wanted
            starts.append((now, wanted))
    for first, last in product(range(len(starts)), repeat=2):
        if first <= last:
            span = starts[last][0] - starts[first][0]
            assert sum(count for _, count in starts[first : last + 1]) <= burst + rate * span / 1000
