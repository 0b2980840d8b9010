"""Runs one trajectory: opens it, repairs the project in its sandbox as planned, and asks for its rewards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from compose.demo import questions
from compose.demo.actions import SIZES, replay, run_suite, unpack
from compose.demo.codebase import FIX, project_files
from compose.demo.episode import Step
from compose.demo.outcome import Outcome, Ranking, Suite
from compose.demo.shares import Share
from compose.simulate.workloads.sessions import Kind
from tangram_tasks.apis import http_get
from tangram_tasks.report import ActionReport
from tangram_tasks.rewards import logprobs, score
from tangram_tasks.tools import bash, read_file, write_file

SEARCH = "search"
SIMILARITY, TEACHER = "minilm", "smollm2"

#: CPU units a replayed command may get. A shell command seldom uses half a core.
REPLAY_SIZES: dict[Kind, tuple[int, ...]] = {"shell": SIZES[:1], "python": SIZES, "install": SIZES}


class TrajectoryRun:
    """One trajectory while it runs.

    Args:
        outcome: is filled as it goes.
        share: what it may use.
        report: is given the report of every action.
        max_queue: seconds that any action may wait for its grant.
    """

    def __init__(
        self, outcome: Outcome, share: Share, report: Callable[[ActionReport], None], *, max_queue: float
    ) -> None:
        self.outcome = outcome
        self._share = share
        self._report = report
        self._max_queue = max_queue
        self._unreported_wait = share.waited  # the wait for a reservation belongs to the first action's queue time

    async def run(self, steps: Sequence[Step], progress: Callable[[], None]) -> None:
        """Do every step. Raises the error of the first action that fails."""
        for step in steps:
            await asyncio.sleep(step.gap)
            await self._step(step)
            self.outcome.steps += 1
            progress()

    async def reward(self) -> None:
        """Ask both reward models to rank a right above a wrong answer."""
        number = self.outcome.number
        answer = questions.ANSWERS[number % len(questions.ANSWERS)]
        prompt, right, wrong = questions.CONTINUATIONS[number % len(questions.CONTINUATIONS)]
        pairs = [[answer, questions.REFERENCE], [questions.OFF_TOPIC, questions.REFERENCE]]
        self.outcome.rewards[SIMILARITY] = _ranking(await self._call(score, SIMILARITY, pairs, hold=SIMILARITY))
        pairs = [[prompt, right], [prompt, wrong]]
        self.outcome.rewards[TEACHER] = _ranking(await self._call(logprobs, TEACHER, pairs, hold=TEACHER))

    async def _step(self, step: Step) -> None:
        async with asyncio.TaskGroup() as group:
            for target in step.targets:
                group.create_task(self._real(step, target))
            for call in step.calls:
                sizes = REPLAY_SIZES[step.shape or "shell"]
                group.create_task(self._cpu(replay, call.duration, call.cores, cpu=sizes))

    async def _real(self, step: Step, target: str) -> None:
        match step.kind:
            case "unpack":
                await self._cpu(unpack, project_files())
            case "list":
                await self._cpu(bash, f"ls -R {target}")
            case "read":
                await self._cpu(read_file, target)
            case "edit":
                await self._cpu(write_file, target, FIX.apply(await self._cpu(read_file, target)))
            case "search":
                await self._search(target)
            case _:
                await self._suite(target)

    async def _suite(self, target: str) -> None:
        counts = await self._cpu(run_suite, target)
        if target == "tests":
            self.outcome.suites.append(Suite(passed=counts["passed"], failed=counts["failed"]))

    async def _search(self, query: str) -> None:
        answer = await self._call(http_get, SEARCH, "/search", {"q": query}, hold=f"api:{SEARCH}")
        self.outcome.searches += bool(answer["json"]["results"])

    async def _cpu(self, action: Any, *args: Any, cpu: Sequence[int] | None = None) -> Any:
        return await self._call(action, *args, cpu=self._share.cpu or cpu)

    async def _call(
        self, action: Any, *args: Any, hold: str | None = None, cpu: int | Sequence[int] | None = None
    ) -> Any:
        """Run one action, and report it with the time it waited on this side."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with self._share.hold(hold):
            waited, self._unreported_wait = self._unreported_wait + loop.time() - asked, 0.0
            handle = await action.using(max_queue=self._max_queue, cpu=cpu).asubmit(*args)
            try:
                return await handle.result_or_cancel()
            finally:
                if handle.report is not None:
                    report: ActionReport = handle.report
                    self._report(report.model_copy(update={"queue_s": report.queue_s + waited}))


def _ranking(values: Sequence[float]) -> Ranking:
    return Ranking(right=values[0], wrong=values[1])
