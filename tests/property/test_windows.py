"""The provider's own count: whatever calls do on their way, no window ever sees more than its limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.admission import Admission
from scheduler.core.events import Event, Grant, NodeJoined, Released, Submitted, Tick
from scheduler.core.quota import CallSent, Quota, Window
from tests.support.core import action

LIMIT, SPAN = 4, 100
WAYS = ["submit", "submit", "arrive", "tell", "end", "wait"]


class Calls:
    """Calls on their way to a provider that counts when each of them arrived."""

    def __init__(self) -> None:
        self.core = Admission()
        quota = Quota(concurrency=50, windows=(Window(LIMIT, SPAN),))
        self.core.handle(NodeJoined(0, "x", "api", quotas={"s": quota}))
        self.at = self.count = 0
        self.granted: list[str] = []
        self.arrived: dict[str, int] = {}

    def step(self, what: str, number: int) -> None:
        self.at += number if what == "wait" else number % 7
        chosen = self.granted[number % len(self.granted)] if self.granted else None
        event: Event = Tick(self.at)
        if what == "submit":
            self.count += 1
            event = Submitted(self.at, action(f"a{self.count}", key="api:s", arrival=self.at))
        elif chosen is not None:
            event = self._about(what, chosen) or event
        for decision in self.core.handle(event):
            if isinstance(decision, Grant):
                self.granted.append(decision.action)
        self.core.validate()

    def _about(self, what: str, chosen: str) -> Event | None:
        if what == "arrive":
            self.arrived.setdefault(chosen, self.at)
        elif what == "tell" and chosen in self.arrived:
            return CallSent(self.at, chosen, sent=self.arrived[chosen])
        elif what == "end":
            self.granted.remove(chosen)
            return Released(self.at, chosen)
        return None


@given(steps=st.lists(st.tuples(st.sampled_from(WAYS), st.integers(0, 60)), max_size=120))
def test_no_window_of_the_provider_sees_more_than_the_limit(steps: list[tuple[str, int]]) -> None:
    calls = Calls()
    for what, number in steps:
        calls.step(what, number)
    arrivals = calls.arrived.values()
    for first in arrivals:
        assert sum(first <= other < first + SPAN for other in arrivals) <= LIMIT
