"""What one of our keys to a provider may do: calls in flight, a rate, windows, and a gate that the provider closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.core.bucket import TokenBucket
from scheduler.core.pace import Pace
from scheduler.core.quota import UNLIMITED, CallSent, LaneState, Quota, Spent, Window
from scheduler.core.sliding import SlidingLog


class Meter:
    """One key.

    Args:
        quota: what the provider allows it.
        now: ms.
    """

    def __init__(self, quota: Quota, now: int) -> None:
        self._quota = quota
        self._bucket = _bucket(quota, now)
        self._pace = Pace(quota.concurrency) if quota.adaptive else None
        self._logs = [SlidingLog(window) for window in quota.windows]
        self._closed_until = 0
        self._held: dict[str, int] = {}
        self._ended: set[str] = set()
        self._spoiled: set[str] = set()
        self._in_flight = 0

    @property
    def concurrency(self) -> int:
        """Calls that may be in flight now."""
        return self._quota.concurrency if self._pace is None else self._pace.limit

    @property
    def held(self) -> Mapping[str, int]:
        """Calls in flight by action."""
        return self._held

    def change(self, now: int, quota: Quota) -> None:
        """Take over another quota; what was spent stays spent."""
        if quota.per_second is None or self._bucket is None:
            self._bucket = _bucket(quota, now)
        else:
            self._bucket.change(now, quota.per_second, quota.burst)
        if not quota.adaptive or self._pace is None:
            self._pace = Pace(quota.concurrency) if quota.adaptive else None
        else:
            self._pace.change(quota.concurrency)
        self._quota = quota
        self._logs = _changed(self._logs, quota.windows, now)

    def room(self, now: int) -> int:
        """Return how many calls may start at `now` ms."""
        self._settle(now)
        if now < self._closed_until:
            return 0
        limits = [self.concurrency - self._in_flight]
        limits += [log.room(now) for log in self._logs if log.window.counts == "calls"]
        if self._bucket is not None:
            limits.append(self._bucket.tokens(now))
        return max(0, min(limits))

    def tokens(self, now: int) -> int:
        """Return how many tokens calls may use at `now` ms."""
        return min((log.room(now) for log in self._logs if log.window.counts == "tokens"), default=UNLIMITED)

    def could_hold(self, calls: int, tokens: int) -> bool:
        """Whether so many calls with so many tokens could ever start together."""
        asked = {"calls": calls, "tokens": tokens}
        return (
            calls <= self._quota.concurrency
            and (self._quota.per_second is None or calls <= self._quota.burst)
            and all(asked[window.counts] <= window.limit for window in self._quota.windows)
        )

    def when(self, now: int, calls: int, tokens: int) -> int | None:
        """Return the first ms from `now` on at which so much may start, if nothing happens; None if never."""
        self._settle(now)
        if calls > self.concurrency - self._in_flight:
            return None
        asked = {"calls": calls, "tokens": tokens}
        moments = [now, self._closed_until]
        if self._bucket is not None:
            moments.append(self._bucket.when(now, calls))
        for log in self._logs:
            moment = log.when(now, asked[log.window.counts])
            if moment is None:
                return None
            moments.append(moment)
        return max(moments)

    def take(self, now: int, calls: int) -> None:
        """Spend the rate of calls that start at `now` ms. Raises ValueError if there is not so much."""
        if self._bucket is not None:
            self._bucket.take(now, calls)

    def hold(self, action: str, calls: int, tokens: int) -> None:
        """Enter that an action calls; when its calls leave is not known yet."""
        for log in self._logs:
            log.open(action, Spent(0, calls, tokens))
        self._held[action] = calls
        self._in_flight += calls

    def release(self, action: str) -> None:
        """Note that an action's calls are over."""
        self._in_flight -= self._held.pop(action)
        self._ended.add(action)
        if action in self._spoiled:
            self._spoiled.discard(action)
        elif self._pace is not None:
            self._pace.well()

    def told(self, event: CallSent) -> None:
        """Note when an action's calls left, and what they used."""
        for log in self._logs:
            if event.unsent:
                log.undo(event.action)
            if event.sent is not None:
                log.close(event.action, min(event.at, event.sent))
            if event.tokens is not None:
                log.correct(event.action, event.tokens)

    def close(self, now: int, until: int) -> None:
        """Let nobody call before `until`, and take what is in flight for too much."""
        self._closed_until = max(self._closed_until, until)
        self._spoiled.update(self._held)
        if self._pace is not None:
            self._pace.overload(now)

    def state(self, now: int) -> LaneState:
        """Return what the next leader needs to know."""
        self._settle(now)
        longest = max(self._logs, key=lambda log: log.window.ms, default=None)
        spent = [] if longest is None else longest.spent(now)
        return LaneState(tuple(spent), self._closed_until, self._in_flight, self.concurrency)

    def load(self, state: LaneState) -> None:
        """Begin where an earlier leader ended."""
        for log in self._logs:
            log.load(state.spent)
        self._closed_until = max(self._closed_until, state.closed_until)
        if self._pace is not None and state.concurrency:
            self._pace.limit = min(self._pace.most, state.concurrency)

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        assert self._in_flight == sum(self._held.values()), f"meter: {self._in_flight} in flight, not {self._held}"

    def _settle(self, now: int) -> None:
        """Calls of which nobody told when they left were sent before their action ended."""
        for action in self._ended:
            for log in self._logs:
                log.assume(action, now)
        self._ended.clear()


def _bucket(quota: Quota, now: int) -> TokenBucket | None:
    return None if quota.per_second is None else TokenBucket(quota.per_second, quota.burst, now)


def _changed(logs: Sequence[SlidingLog], windows: Sequence[Window], now: int) -> list[SlidingLog]:
    """Return a log for each window: the present one of its span, else one that begins with what the longest knows."""
    known = {(log.window.ms, log.window.counts): log for log in logs}
    longest = max(logs, key=lambda log: log.window.ms, default=None)
    rows = []
    for window in windows:
        log = known.get((window.ms, window.counts))
        if log is None:
            log = SlidingLog(window)
            if longest is not None:
                log.take_over(longest, now)
        log.window = window
        rows.append(log)
    return rows
