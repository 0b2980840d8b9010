"""What a scheduling policy is, and the ones there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.fixed import FixedPolicy
from scheduler.core.live import LivePolicy
from scheduler.core.paper import PaperPolicy
from scheduler.core.rigid import EQUAL
from scheduler.core.utilisation import UtilisationPolicy
from scheduler.core.wait_or_start import WaitOrStartPolicy


class Policy(Protocol):
    """Decides which waiting actions of one place start now, with how many units, and who runs on with other units."""

    @property
    def resizes(self) -> bool:
        """Whether it decides on the sizes of what runs, also while nobody waits."""

    def decide(
        self,
        now: int,
        free: Mapping[str, int],
        running: Collection[Running],
        queue: Sequence[Action],
    ) -> list[tuple[Action, int]]:
        """Return (action, units of its key resource), to be carried out in that order.

        A waiting action starts; a running one, which must have `gains`, goes on with those units. Each row must fit
        what the rows before it leave free. Whenever the head of the queue fits `free`, something must run afterwards:
        nothing else would wake the domain up again.

        Args:
            now: ms.
            free: what nobody holds, by resource; negative where more is held than there is.
            running: what holds units.
            queue: waiting actions, first to be served first.
        """

    def look(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action]
    ) -> int | None:
        """Return the ms, after `now`, at which a decision could differ although nothing happened; None if never.

        Args:
            now: ms of the last decision.
            free: what is free after it.
            running: what holds units after it.
            queue: who waits after it.
        """


#: Name to a constructor. It takes `depth`, the number of waiting actions a decision may look at, and the jobs' weights.
POLICIES: dict[str, Callable[[int, Mapping[str, int]], Policy]] = {
    "paper": lambda depth, _: PaperPolicy(depth),
    "paper_wait": lambda depth, _: PaperPolicy(depth, waiting_units=8, evict_all=True),
    "live": LivePolicy,
    "min": lambda *_: FixedPolicy(),
    "utilisation": lambda *_: UtilisationPolicy(),
    "wait_or_start": lambda *_: WaitOrStartPolicy(),
}


def make_policy(name: str, depth: int, weights: Mapping[str, int] = EQUAL) -> Policy:
    """Return the policy of that name, one of POLICIES or "fixed:N".

    Raises:
        ValueError: there is none, `depth` is negative, or a weight is not positive.
    """
    if depth < 0:
        raise ValueError(f"a policy cannot look {depth} actions deep: depth must be 0 or more")
    if any(weight <= 0 for weight in weights.values()):
        raise ValueError(f"the weights of jobs must be positive, not {dict(weights)}")
    fixed, _, units = name.partition(":")
    if fixed == "fixed" and units.isdecimal() and int(units) > 0:
        return FixedPolicy(int(units))
    if name not in POLICIES:
        raise ValueError(f"there is no scheduling policy {name!r}: choose fixed:N or {' or '.join(sorted(POLICIES))}")
    return POLICIES[name](depth, weights)
