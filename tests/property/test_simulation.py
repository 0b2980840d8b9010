"""Whatever the batch and the policy: everything ends, nothing is held twice, and work is neither lost nor invented."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given, settings

from compose.simulate.machines import Costs
from compose.simulate.outcome import Outcome
from compose.simulate.policies import simulate
from compose.simulate.work import Plan, Turn, Work, Workload
from compose.simulate.workloads.draws import amdahl
from tests.support.simulation import cpu

POLICIES = ["static:4", "fixed:2", "min", "paper", "paper_wait", "live", "utilisation", "wait_or_start"]
CORES = 6


@st.composite
def works(draw: st.DrawFn) -> Work:
    sizes = draw(st.sampled_from([(1,), (1, 2), (1, 2, 4), (2, 4)]))
    durations = amdahl(draw(st.integers(1, 5_000)), draw(st.floats(0, 1)), sizes)
    return Work("work", "cpu", sizes, durations, malleable=len(sizes) > 1 and draw(st.booleans()))


turns = st.builds(Turn, st.integers(0, 500), st.lists(works(), min_size=1, max_size=3).map(tuple))
batches = st.lists(st.lists(turns, min_size=1, max_size=3), min_size=1, max_size=6).map(
    lambda plans: Workload("drawn", tuple(Plan(f"t{place}", tuple(one), 0, 1) for place, one in enumerate(plans)))
)


@settings(max_examples=150, deadline=None)
@given(batch=batches, policy=st.sampled_from(POLICIES), overhead=st.integers(0, 20))
def test_books_close(batch: Workload, policy: str, overhead: int) -> None:
    outcome = simulate(policy, cpu(CORES), batch, Costs(cpu=overhead, sandbox=10))
    assert len(outcome.finished) == batch.actions
    loads = outcome.gauges["cpu"].rows
    assert all(0 <= load.units <= CORES and load.waiting >= 0 for load in loads)
    assert (loads[-1].units, loads[-1].waiting) == (0, 0)
    assert outcome.gauges["cpu"].unit_ms() == sum(row.held for row in outcome.finished)
    assert outcome.step >= max(sum(turn.gap for turn in plan.turns) for plan in batch.plans)
    _check_work(batch, outcome)


def _check_work(batch: Workload, outcome: Outcome) -> None:
    """Without resizes each action took one of its durations; with them, none beats its fastest size for all of it."""
    drawn = [work for plan in batch.plans for turn in plan.turns for work in turn.actions]
    taken = sorted(row.execution for row in outcome.finished)
    fastest = sorted(min(work.durations) for work in drawn)
    slowest = sorted(max(work.durations) for work in drawn)
    slack = outcome.resizes  # each resize rounds up to a whole ms
    assert all(low <= took <= high + slack for low, took, high in zip(fastest, taken, slowest, strict=True))
    if not outcome.resizes:
        allowed = Counter(duration for work in drawn for duration in work.durations)
        assert not Counter(taken) - allowed
