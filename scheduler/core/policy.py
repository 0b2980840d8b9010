"""What a scheduling policy is, and the ones there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.paper import PaperPolicy


class Policy(Protocol):
    """Decides which waiting actions of one domain start now, and with how many units."""

    def decide(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action]
    ) -> list[tuple[Action, int]]:
        """Return (action, units of its key resource) in queue order.

        Whenever the head of the queue fits `free`, at least one action must start: nothing else would wake the
        domain up again.

        Args:
            now: ms.
            free: what nobody holds, by resource.
            running: what holds units.
            queue: waiting actions, first to be served first.
        """


#: Name to a constructor that takes `depth`, the number of waiting actions a decision may look at.
POLICIES: dict[str, Callable[[int], Policy]] = {
    "paper": PaperPolicy,
}


def make_policy(name: str, depth: int) -> Policy:
    """Return the policy of that name. Raises ValueError if there is none, or `depth` is negative."""
    if name not in POLICIES:
        raise ValueError(f"there is no scheduling policy {name!r}: choose {' or '.join(sorted(POLICIES))}")
    if depth < 0:
        raise ValueError(f"a policy cannot look {depth} actions deep: depth must be 0 or more")
    return POLICIES[name](depth)
