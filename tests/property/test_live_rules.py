"""Policy "live" against its rules written down literally, on small random scenes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.completion import Running, gains
from scheduler.core.events import Action
from scheduler.core.live import LivePolicy
from tests.support import live_reference
from tests.support.core import action
from tests.support.live_reference import Runner

NOW = 1000


@st.composite
def curves(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes = tuple(sorted(draw(st.sets(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=4))))
    longest = draw(st.integers(20, 4000))
    falls = draw(st.lists(st.integers(0, 60), min_size=len(sizes), max_size=len(sizes)))
    durations = [longest]
    for fall in falls[1:]:
        durations.append(max(1, durations[-1] * (100 - fall) // 100))
    return sizes, tuple(durations)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[int, list[Runner], list[Action]]:
    running, queue = [], []
    for place in range(draw(st.integers(0, 5))):
        sizes, durations = draw(curves())
        malleable = draw(st.booleans()) and len(sizes) > 1
        one = action(f"r{place}", seq=place, sizes=sizes, durations=durations, malleable=malleable)
        running.append(Runner(one, NOW + draw(st.integers(-5, 900)), draw(st.integers(0, len(sizes) - 1))))
    for place in range(draw(st.integers(0, 6))):
        sizes, durations = draw(curves())
        arrival, malleable = draw(st.integers(0, NOW)), draw(st.booleans()) and len(sizes) > 1
        queue.append(
            action(f"q{place}", seq=10 + place, sizes=sizes, durations=durations, arrival=arrival, malleable=malleable)
        )
    return draw(st.integers(0, 14)), running, queue


@settings(deadline=None, max_examples=300)
@given(scenes())
def test_the_decision_is_the_literal_one(scene: tuple[int, list[Runner], list[Action]]) -> None:
    free, running, queue = scene
    holds = [
        Running(one.end, {"cpu": one.units}, one.action, one.rank, gains(one.action) if one.action.malleable else ())
        for one in running
    ]
    rows = LivePolicy().decide(NOW, {"cpu": free}, holds, queue)
    found = {one.action.id: one.units for one in running if one.action.malleable}
    found |= {one.id: units for one, units in rows}
    assert found == live_reference.decide(NOW, free, running, queue)
