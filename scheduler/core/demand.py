"""What GPUs are asked for: the last actions that came, and the devices that would serve them best."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from scheduler.core.events import Action

#: How many actions count as recent.
WINDOW = 128
#: A typical restore, ms: what each action saves whose service is resident.
RESTORE = 1_000


class _Step(NamedTuple):
    """From `small` to `large` devices for a service: us saved per device."""

    saved: int
    service: str
    small: int
    large: int

    def worth(self, held: Mapping[str, int]) -> int:
        """Return what it counts: half as much again if it is there already, so that small changes move nothing."""
        return self.saved * (3 if held.get(self.service, 0) >= self.large else 2)


class Demand:
    """The services that a pool was asked for lately.

    Args:
        window: how many actions count.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._recent: deque[tuple[str, Action]] = deque(maxlen=window)

    def note(self, action: Action) -> None:
        """Count an action that came to the pool."""
        if action.service is not None:
            self._recent.append((action.service, action))

    def wanted(self, devices: int, held: Mapping[str, int]) -> dict[str, int]:
        """Return how many devices each service should have, the most useful first.

        Greedy by time saved per device: the first devices save each action a restore, the next let it run at its
        next size.

        Args:
            devices: how many there are.
            held: devices that hold a service now.
        """
        by_service: dict[str, list[Action]] = {}
        for service, action in self._recent:
            by_service.setdefault(service, []).append(action)
        ladders = {service: _steps(service, asked) for service, asked in by_service.items()}
        plan: dict[str, int] = {}
        left = devices
        while ladders:
            step = max((ladder[0] for ladder in ladders.values()), key=lambda step: step.worth(held))
            ladder = ladders[step.service]
            if step.saved > 0 and step.large - step.small <= left:
                plan[step.service] = step.large
                left -= step.large - step.small
                del ladder[0]
            else:
                ladder.clear()
            if not ladder:
                del ladders[step.service]
        return plan


def _steps(service: str, asked: list[Action]) -> list[_Step]:
    sizes = asked[-1].sizes
    alike = [action for action in asked if action.sizes == sizes]
    totals = [sum(action.durations[rank] for action in alike) for rank in range(len(sizes))]
    saved = [RESTORE * len(alike), *(slow - fast for slow, fast in pairwise(totals))]
    return [
        _Step(1000 * gain // (large - small), service, small, large)
        for gain, (small, large) in zip(saved, pairwise([0, *sizes]), strict=True)
    ]
