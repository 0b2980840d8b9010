"""What one leader knows: the core and what it has not been told yet, the memory of actions, nodes and trajectories,
and the changes to be written.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scheduler.backpressure import Backpressure
from scheduler.core.admission import Admission
from scheduler.core.estimates import Estimates
from scheduler.core.events import Decision, Event, Submitted
from scheduler.core.waiting import check
from scheduler.entries import Entries
from scheduler.facts import Fact, Watcher
from scheduler.ledger import Batch, Ledger
from scheduler.nodes import NodeBook
from scheduler.outcomes import Outcomes
from scheduler.quarantine import Quarantine
from scheduler.stored import TrajectoryRecord
from tangram_tasks.control_messages import ExplainAction
from tangram_tasks.errors import TangramError
from tangram_tasks.sharing import JobRecord

logger = logging.getLogger(__name__)

#: Why the last so many trajectories ended is remembered, to tell the callers of late actions.
EPITAPHS = 10_000


@dataclass(frozen=True, slots=True)
class Unanswered:
    """An order to resize that its node has not answered; `at` in ms is when it was sent last."""

    units: int
    turn: int
    at: int
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How a node's last report differed from the ledger (see scheduler.audit), and when that was seen.

    `since` is by the Redis server's clock, s.
    """

    since: float
    found: frozenset[tuple[str, str, int]]


@dataclass(slots=True)
class Books:
    """The leader's working set of one step; `clock` gives ms. While it is `paused`, no new message is taken in.

    Grants that nobody started within `start_lease` seconds are taken back.
    """

    ledger: Ledger
    core: Admission
    nodes: NodeBook
    outcomes: Outcomes
    clock: Callable[[], int]
    watchers: Sequence[Watcher] = ()
    paused: bool = False
    start_lease: float = 15.0
    backpressure: Backpressure = field(default_factory=Backpressure)
    quarantine: Quarantine = field(default_factory=Quarantine)
    entries: Entries = field(default_factory=Entries)
    estimates: Estimates = field(default_factory=Estimates)
    trajectories: dict[str, TrajectoryRecord] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    cancelled: dict[str, float] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  # ids of messages that ended, of which the broker forgot it
    epitaphs: OrderedDict[str, TangramError] = field(default_factory=OrderedDict)
    unanswered: dict[str, Unanswered] = field(default_factory=dict)  # by grant
    suspicions: dict[str, Suspicion] = field(default_factory=dict)  # by node
    events: list[Event] = field(default_factory=list)
    questions: deque[ExplainAction] = field(default_factory=deque)
    batch: Batch = field(init=False)

    def __post_init__(self) -> None:
        self.batch = self.ledger.batch()

    def feed(self, event: Event) -> None:
        """Note an event for the core, which hears of all events of one step together and decides once.

        Raises:
            ValueError: an action's fields contradict each other.
        """
        if isinstance(event, Submitted):
            check(event.action)
        self.events.append(event)

    def decide(self) -> list[Decision]:
        """Tell the core what was noted, and return what it decides."""
        events, self.events = self.events, []
        return self.core.handle_all(events)

    def tell(self, fact: Fact) -> None:
        """Tell the watchers; none of them can stop the scheduler."""
        for watcher in self.watchers:
            try:
                watcher(fact)
            except Exception:
                logger.exception("a watcher failed at %s", type(fact).__name__)

    def bury(self, trajectory: str, error: TangramError) -> None:
        """Forget a trajectory, and remember why it ended."""
        self.trajectories.pop(trajectory, None)
        self.batch.end_trajectory(trajectory)
        self.epitaphs[trajectory] = error
        while len(self.epitaphs) > EPITAPHS:
            self.epitaphs.popitem(last=False)

    def remember_cancelled(self, action: str, until: float) -> None:
        """Note the id of an action that may still be on its way in; `until` is wall clock, s."""
        now = time.time()
        self.cancelled = {known: expiry for known, expiry in self.cancelled.items() if expiry > now}
        self.cancelled[action] = until
        self.batch.remember_cancelled(action, now)

    async def commit(self) -> list[int]:
        """Write the changes gathered so far."""
        batch, self.batch = self.batch, self.ledger.batch()
        return await batch.commit()
