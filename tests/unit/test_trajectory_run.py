"""One demo trajectory against actions that answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from compose.demo import trajectory as module
from compose.demo.codebase import FIX, project_files
from compose.demo.episode import Pace, Step, draw_episodes
from compose.demo.outcome import Outcome, Ranking, Suite
from compose.demo.trajectory import TrajectoryRun
from compose.simulate.workloads.sessions import Call
from tangram_tasks.errors import NodeLost
from tangram_tasks.report import ActionReport

UNPACK = Step(0.0, "unpack", (".",))


@dataclass
class FakeHandle:
    """Stands for an action that was published."""

    answer: Any
    report: ActionReport | None = None

    async def result_or_cancel(self) -> Any:
        self.report = ActionReport(task="fake", node="n", key="cpu", units=1, queue_s=1.0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass
class FakeAction:
    """Stands for an action; remembers the calls and the options of each."""

    answer: Any = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    options: list[dict[str, Any]] = field(default_factory=list)

    def using(self, **options: Any) -> FakeAction:
        self.options.append(options)
        return self

    async def asubmit(self, *args: Any) -> FakeHandle:
        self.calls.append(args)
        return FakeHandle(self.answer(*args) if callable(self.answer) else self.answer)


@dataclass
class FakeShare:
    """A share that remembers what was held."""

    cpu: int | None = None
    waited: float = 0.0
    held: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def hold(self, resource: str | None) -> AsyncIterator[None]:
        if resource:
            self.held.append(resource)
        yield


@pytest.fixture
def actions(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeAction]:
    """A sandbox that is a dictionary of files, and a suite that passes once the edit is in."""
    files: dict[str, str] = {}
    suite = {True: {"passed": 91, "failed": 0}, False: {"passed": 80, "failed": 11}}
    found = {
        "unpack": FakeAction(files.update),
        "bash": FakeAction({"exit_code": 0}),
        "read_file": FakeAction(files.__getitem__),
        "write_file": FakeAction(lambda path, text: files.update({path: text})),
        "run_suite": FakeAction(lambda target: suite[FIX.new in files[FIX.path]]),
        "replay": FakeAction(0.1),
        "http_get": FakeAction({"status": 200, "json": {"results": ["a"]}}),
        "score": FakeAction([0.9, 0.1]),
        "logprobs": FakeAction([-1.0, -9.0]),
    }
    for name, action in found.items():
        monkeypatch.setattr(module, name, action)
    return found


async def run(share: FakeShare, steps: tuple[Step, ...]) -> tuple[Outcome, list[ActionReport]]:
    reports: list[ActionReport] = []
    trajectory = TrajectoryRun(Outcome(number=0), share, reports.append, max_queue=9.0)
    await trajectory.run(steps, lambda: None)
    return trajectory.outcome, reports


async def test_an_episode_fails_then_edits_then_passes(actions: dict[str, FakeAction]) -> None:
    (steps,) = draw_episodes(1, seed=1, pace=Pace(time_scale=0.0))
    outcome, reports = await run(FakeShare(), steps)
    assert outcome.suites == [Suite(passed=80, failed=11), Suite(passed=91, failed=0)]
    assert outcome.steps == len(steps)
    assert outcome.searches == len(actions["http_get"].calls) >= 1
    assert actions["unpack"].calls == [(project_files(),)]
    # An edit is two actions.
    assert len(reports) == sum(len(step.targets) + len(step.calls) for step in steps) + 1


async def test_rewards_rank_with_both_models(actions: dict[str, FakeAction]) -> None:
    share = FakeShare()
    trajectory = TrajectoryRun(Outcome(number=1), share, lambda _: None, max_queue=9.0)
    await trajectory.reward()
    assert trajectory.outcome.rewards == {
        "minilm": Ranking(right=0.9, wrong=0.1),
        "smollm2": Ranking(right=-1.0, wrong=-9.0),
    }
    assert share.held == ["minilm", "smollm2"]


async def test_a_fixed_share_is_the_size_of_every_cpu_action(actions: dict[str, FakeAction]) -> None:
    (steps,) = draw_episodes(1, seed=1, pace=Pace(time_scale=0.0))
    await run(FakeShare(cpu=4), steps)
    for name in ("unpack", "bash", "read_file", "write_file", "run_suite", "replay"):
        assert all(options["cpu"] == 4 for options in actions[name].options), name
    assert all(options["cpu"] is None for options in actions["http_get"].options)


async def test_replays_declare_their_sizes(actions: dict[str, FakeAction]) -> None:
    call = Call(duration=0.1, cores=0.5)
    await run(FakeShare(), (Step(0.0, "replay", calls=(call, call), shape="python"),))
    assert [options["cpu"] for options in actions["replay"].options] == [(1, 2, 4)] * 2
    assert actions["replay"].calls == [(0.1, 0.5)] * 2


async def test_the_wait_for_a_reservation_counts_once_into_the_first_action(actions: dict[str, FakeAction]) -> None:
    _, reports = await run(FakeShare(waited=30.0), (UNPACK, Step(0.0, "read", ("README.md",))))
    assert reports[0].queue_s == pytest.approx(31.0, abs=0.5)
    assert reports[1].queue_s == pytest.approx(1.0, abs=0.5)


async def test_a_failing_action_ends_the_trajectory_and_is_reported(actions: dict[str, FakeAction]) -> None:
    actions["replay"].answer = NodeLost("cpu-1 died")
    reports: list[ActionReport] = []
    trajectory = TrajectoryRun(Outcome(number=0), FakeShare(), reports.append, max_queue=9.0)
    step = Step(0.0, "replay", calls=(Call(0.1, 0.5),), shape="shell")
    with pytest.raises(ExceptionGroup) as caught:
        await trajectory.run((UNPACK, step, step), lambda: None)
    assert isinstance(caught.value.exceptions[0], NodeLost)
    assert trajectory.outcome.steps == 1
    assert len(reports) == 2


async def test_no_step_begins_before_its_gap_is_over(actions: dict[str, FakeAction]) -> None:
    task = asyncio.create_task(run(FakeShare(), (UNPACK, Step(60.0, "read", ("README.md",)))))
    for _ in range(20):
        await asyncio.sleep(0)
    assert actions["read_file"].calls == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
