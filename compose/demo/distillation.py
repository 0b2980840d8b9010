"""A batch of distillation requests: each trajectory asks one of nine teachers for log-probabilities when it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from compose.demo.outcome import Batch, Outcome
from compose.demo.questions import CONTINUATIONS
from compose.demo.rollout import within
from compose.demo.shares import Sharing
from compose.simulate.workloads.mopd import draw
from tangram_tasks.app import TangramApp
from tangram_tasks.hub import hub_of
from tangram_tasks.report import ActionReport
from tangram_tasks.rewards import logprobs

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One trajectory's request.

    Args:
        at: seconds after the batch's begin.
        teacher: whom it asks.
        pairs: prompts and answers.
    """

    at: float
    teacher: str
    pairs: Pairs


def requests(count: int, seed: int, seconds: float) -> list[Request]:
    """Draw a batch from the workload `mopd`, whose arrivals are squeezed into `seconds`."""
    plans = draw("mopd", count, seed, 0.0).plans
    last = max(plan.start for plan in plans) or 1
    return [
        Request(seconds * plan.start / last, plan.turns[0].actions[0].service or "", _pairs(number))
        for number, plan in enumerate(plans)
    ]


class Distillation:
    """Asks the teachers.

    Args:
        app: publishes the actions; becomes the current app.
        sharing: how trajectories share the devices.
        limit: seconds until one that is not answered counts as failed.
    """

    def __init__(self, app: TangramApp, sharing: Sharing, limit: float) -> None:
        self._app = app
        self._sharing = sharing
        self._limit = limit
        self._reports: list[ActionReport] = []
        self.answers: dict[int, list[float]] = {}

    def run(self, batch: Sequence[Request], progress: Callable[[], None]) -> Batch:
        """Send every request in its time, and return what came of them; `progress` is called after each."""
        self._app.set_current()  # ready-made actions belong to the current app
        return asyncio.run(self._run(batch, progress))

    async def _run(self, batch: Sequence[Request], progress: Callable[[], None]) -> Batch:
        outcomes = [Outcome(number=number) for number in range(len(batch))]
        async with aclosing(hub_of(self._app)):
            began = time.monotonic()
            runs = [self._ask(outcome, one, progress) for outcome, one in zip(outcomes, batch, strict=True)]
            errors = await asyncio.gather(*runs, return_exceptions=True)  # one that fails is a finding about itself
            wall_s = time.monotonic() - began
        for outcome, error in zip(outcomes, errors, strict=True):
            outcome.error = "" if error is None else f"{type(error).__name__}: {error}"
        return Batch(outcomes=outcomes, reports=self._reports, wall_s=wall_s)

    async def _ask(self, outcome: Outcome, request: Request, progress: Callable[[], None]) -> None:
        await asyncio.sleep(request.at)
        async with within(self._limit), self._sharing.enter() as share:
            asked = time.monotonic()
            async with share.hold(request.teacher):
                waited = time.monotonic() - asked
                handle = await logprobs.using(max_queue=self._limit).asubmit(request.teacher, request.pairs)
                try:
                    self.answers[outcome.number] = await handle.result_or_cancel()
                finally:
                    if handle.report is not None:
                        report: ActionReport = handle.report
                        self._reports.append(report.model_copy(update={"queue_s": report.queue_s + waited}))
        outcome.steps = 1
        progress()


def _pairs(number: int) -> Pairs:
    prompt, right, wrong = CONTINUATIONS[number % len(CONTINUATIONS)]
    return ((prompt, right), (f"{number}. {prompt}", wrong))
