"""Light actions: next to no cpu each, so they are counted, not sized, and never wait behind the others of a node."""

from __future__ import annotations

from scheduler.core.fcfs import FcfsQueue

#: Light actions at once per cpu unit of a node. Half of real tool calls are light and burn 0.04 to 0.1 cores
#: while they run; a bound below twice the mean demand would be worse than none.
SLOTS_PER_UNIT = 2


class LightLane:
    """The light actions of one node.

    Args:
        units: cpu units of the node.
    """

    def __init__(self, units: int) -> None:
        self.queue = FcfsQueue()
        self.running: set[str] = set()
        self.units = units

    @property
    def free(self) -> int:
        """Slots that nobody holds; negative if the node shrank below them."""
        return SLOTS_PER_UNIT * self.units - len(self.running)
