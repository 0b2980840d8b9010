"""The rollout driver: runs a batch of trajectories at once in one asyncio process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

from compose.demo.episode import Step
from compose.demo.outcome import Batch, Outcome
from compose.demo.shares import Sharing
from compose.demo.trajectory import TrajectoryRun
from tangram_tasks.app import TangramApp
from tangram_tasks.hub import hub_of
from tangram_tasks.report import ActionReport


class Rollout:
    """One batch.

    Args:
        app: publishes the actions; becomes the current app.
        sharing: how trajectories share the machine.
        rewards: ask the reward models at the end of each trajectory.
        image: of the sandboxes.
        memory: of one sandbox.
        limit: seconds until a trajectory that is not done counts as failed.
    """

    def __init__(
        self,
        app: TangramApp,
        sharing: Sharing,
        *,
        rewards: bool,
        image: str,
        memory: str = "384MiB",
        limit: float,
    ) -> None:
        self._app = app
        self._sharing = sharing
        self._rewards = rewards
        self._image = image
        self._memory = memory
        self._limit = limit
        self._reports: list[ActionReport] = []

    def run(self, episodes: Sequence[Sequence[Step]], progress: Callable[[], None]) -> Batch:
        """Run every episode and return what came out. Ctrl-C closes all trajectories first.

        Args:
            episodes: one plan per trajectory.
            progress: called after every step.
        """
        self._app.set_current()  # ready-made actions belong to the current app
        return asyncio.run(self._run(episodes, progress))

    async def _run(self, episodes: Sequence[Sequence[Step]], progress: Callable[[], None]) -> Batch:
        outcomes = [Outcome(number=number) for number in range(len(episodes))]
        async with aclosing(hub_of(self._app)):
            began = time.monotonic()
            runs = [self._trajectory(*pair, progress) for pair in zip(outcomes, episodes, strict=True)]
            # One that fails is a finding about itself; the others go on.
            errors = await asyncio.gather(*runs, return_exceptions=True)
            wall_s = time.monotonic() - began
        for outcome, error in zip(outcomes, errors, strict=True):
            outcome.error = "; ".join(_reasons(error)) if error is not None else ""
        return Batch(outcomes=outcomes, reports=self._reports, wall_s=wall_s, reserved=dict(self._sharing.reserved()))

    async def _trajectory(self, outcome: Outcome, steps: Sequence[Step], progress: Callable[[], None]) -> None:
        async with within(self._limit), self._sharing.enter() as share:
            run = TrajectoryRun(outcome, share, self._reports.append, max_queue=self._limit)
            lifetime = self._limit + 60.0
            async with self._app.trajectory(image=self._image, memory=self._memory, max_lifetime=lifetime):
                await run.run(steps, progress)
                if self._rewards:
                    await run.reward()


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Bound a block of code. Raises TimeoutError that says so."""
    try:
        async with asyncio.timeout(seconds) as bound:
            yield
    except TimeoutError:
        if bound.expired():
            raise TimeoutError(f"the trajectory was not done after {seconds:g} s") from None
        raise


def _reasons(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [text for inner in error.exceptions for text in _reasons(inner)]
    return [f"{type(error).__name__}: {error}"]
