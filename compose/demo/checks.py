"""Whether the main job really did what it says."""

from __future__ import annotations

from collections.abc import Iterator

from compose.demo.api_server import ApiQuota, ApiStats
from compose.demo.outcome import Batch, Outcome


def check_batch(batch: Batch, *, services: tuple[str, ...]) -> list[str]:
    """Return what is wrong with a batch, one line each, by trajectory; empty if all is well.

    Args:
        batch: what came out.
        services: reward models that must have ranked right above wrong.
    """
    return [
        f"trajectory {outcome.number}: {problem}"
        for outcome in batch.outcomes
        for problem in _problems(outcome, services)
    ]


def check_api(stats: ApiStats, quota: ApiQuota, *, expected: int) -> list[str]:
    """Return what is wrong with the provider's own books.

    Args:
        stats: what it counted.
        quota: what it allows.
        expected: calls that trajectories saw answered.
    """
    problems = []
    if stats.refused:
        problems.append(f"the search API refused {stats.refused} calls as over quota")
    if stats.most_in_flight > quota.concurrency:
        problems.append(f"the search API saw {stats.most_in_flight} calls at once, {quota.concurrency} are allowed")
    if stats.most_in_window > quota.per_window:
        problems.append(f"the search API saw {stats.most_in_window} calls in a window, {quota.per_window} are allowed")
    if stats.answered < expected:
        problems.append(f"the search API answered {stats.answered} calls, trajectories counted {expected}")
    return problems


def _problems(outcome: Outcome, services: tuple[str, ...]) -> Iterator[str]:
    if outcome.error:
        yield outcome.error
        return
    if len(outcome.suites) != 2:
        yield f"the whole suite ran {len(outcome.suites)} times, not twice"
    else:
        before, after = outcome.suites
        if not before.failed:
            yield "no test failed before the edit"
        if after.failed or after.passed != before.passed + before.failed:
            yield f"{after.passed} tests passed and {after.failed} failed after the edit, {before.passed} before it"
    if not outcome.searches:
        yield "no search was answered"
    for service in services:
        ranking = outcome.rewards.get(service)
        if ranking is None:
            yield f"{service} gave no reward"
        elif ranking.right <= ranking.wrong:
            yield f"{service} ranked wrong ({ranking.wrong:.3f}) above right ({ranking.right:.3f})"
