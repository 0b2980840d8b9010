"""What came out of one trajectory, and of a batch of them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tangram_tasks.report import ActionReport


class Suite(BaseModel):
    """One run of the test-suite."""

    model_config = ConfigDict(frozen=True)

    passed: int
    failed: int


class Ranking(BaseModel):
    """What a reward model gave the right and the wrong answer."""

    model_config = ConfigDict(frozen=True)

    right: float
    wrong: float


class Outcome(BaseModel):
    """One trajectory's results.

    Args:
        number: its place in the batch, from 0.
        suites: the scripted runs of the whole suite: before and after the edit.
        rewards: reward model to its ranking; empty when rewards are left out.
        searches: search calls answered with results.
        steps: turns done.
        error: why it ended early; empty if it did not.
    """

    number: int
    suites: list[Suite] = []
    rewards: dict[str, Ranking] = {}
    searches: int = 0
    steps: int = 0
    error: str = ""


class Batch(BaseModel):
    """A batch of trajectories.

    Args:
        outcomes: by number.
        reports: one for every action that was run.
        wall_s: seconds from the first trajectory's begin to the last one's end: the RL step.
        reserved: unit-seconds reserved by trajectories, by resource.
        page_ins: reward models brought onto a device, as the nodes counted.
    """

    outcomes: list[Outcome]
    reports: list[ActionReport]
    wall_s: float
    reserved: dict[str, float] = {}
    page_ins: int = 0
