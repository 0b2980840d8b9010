"""The plan of one trajectory: a scripted repair of the project, with turns of the workload in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from compose.demo.codebase import project_files
from compose.simulate.workloads.sessions import Call, Generator, Kind, Turn

StepKind = Literal["unpack", "list", "read", "suite", "edit", "search", "replay"]

#: The repair: get the project, look around, see the tests fail, ask, edit, see them pass. None stands for turns of
#: the workload.
SCRIPT: tuple[StepKind | None, ...] = ("unpack", "list", "read", None, "suite", "search", None, "edit", None, "suite")

#: Workload kinds that are really done instead of replayed.
REAL: dict[Kind, StepKind] = {"file": "read", "test": "suite", "web": "search"}

QUERIES = (
    "merge overlapping intervals",
    "nested intervals sweep",
    "half-open interval arithmetic",
    "pytest rerun failed",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of a trajectory.

    Args:
        gap: seconds of generation before it.
        kind: what its actions are.
        targets: one action each: a path, a test target, a query.
        calls: for "replay" one action each, instead of targets.
        shape: the workload kind that a replay stands for.
    """

    gap: float
    kind: StepKind
    targets: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    shape: Kind | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How the workload is cut so that a demo ends.

    Args:
        turns: turns of the workload in one trajectory, at most.
        time_scale: factor on generation gaps.
        longest_gap: seconds, after scaling.
        longest_call: seconds of a replayed call.
    """

    turns: int = 8
    time_scale: float = 0.25
    longest_gap: float = 3.0
    longest_call: float = 3.0


def draw_episodes(count: int, seed: int, pace: Pace) -> list[tuple[Step, ...]]:
    """Return the plans of `count` trajectories; the same seed gives the same plans."""
    generator, random = Generator(seed), Random(seed)
    return [tuple(_episode(generator, random, pace)) for _ in range(count)]


def _episode(generator: Generator, random: Random, pace: Pace) -> Iterator[Step]:
    places = SCRIPT.count(None)
    turns = generator.trajectory()[: pace.turns]
    shares = [turns[i::places] for i in range(places)]
    for kind in SCRIPT:
        if kind is None:
            yield from (_drawn(turn, random, pace) for turn in shares.pop())
        else:
            yield Step(_gap(generator.gap(), pace), kind, (_scripted_target(kind, random),))


def _drawn(turn: Turn, random: Random, pace: Pace) -> Step:
    gap = _gap(turn.gap, pace)
    if turn.kind in REAL:
        kind = REAL[turn.kind]
        return Step(gap, kind, tuple(_target(kind, random) for _ in turn.calls))
    return Step(gap, "replay", calls=tuple(_capped(turn.calls, pace.longest_call)), shape=turn.kind)


def _gap(seconds: float, pace: Pace) -> float:
    return min(seconds * pace.time_scale, pace.longest_gap)


def _capped(calls: Iterable[Call], longest: float) -> Iterator[Call]:
    return (Call(min(call.duration, longest), min(call.cores, 1.0), call.peak) for call in calls)


def _scripted_target(kind: StepKind, random: Random) -> str:
    return {"unpack": ".", "list": ".", "read": "spans/interval.py", "suite": "tests", "edit": "spans/interval.py"}.get(
        kind
    ) or random.choice(QUERIES)


def _target(kind: StepKind, random: Random) -> str:
    """Return what a drawn turn reads, tests or asks for."""
    return random.choice(_choices(kind))


def _choices(kind: StepKind) -> Sequence[str]:
    if kind == "search":
        return QUERIES
    paths = [path for path in project_files() if path.endswith(".py")]
    return [path for path in paths if path.startswith("tests/")] if kind == "suite" else paths
