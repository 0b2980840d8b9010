"""What a simulated engine can get wrong; each is a switch that tests turn."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass
class Faults:
    """All off.

    Args:
        lies_asleep: it answers 200 to the command to give its memory up, and does nothing.
        lies_awake: the same for the command to take it again.
        keeps: bytes that it does not give up.
        late_s: seconds after the answer at which the memory is really given up.
        garbage: its weights are lost when it wakes up.
        bad_gateways: so many requests are answered 502 without reaching it, by path.
        lost_answers: so many answers are replaced by a 502, though the request had its effect, by path.
        endless: scoring never ends while this is set.
    """

    lies_asleep: bool = False
    lies_awake: bool = False
    keeps: int = 0
    late_s: float = 0.0
    garbage: bool = False
    bad_gateways: dict[str, int] = field(default_factory=dict)
    lost_answers: dict[str, int] = field(default_factory=dict)
    endless: threading.Event = field(default_factory=threading.Event)


def use_up(counts: dict[str, int], path: str) -> bool:
    """Whether a fault is due for this path; counts it."""
    left = counts.get(path, 0)
    counts[path] = left - 1
    return left > 0
