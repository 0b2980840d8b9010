"""Which waiting actions may start now, and what each kind of units has for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from scheduler.core.events import Action


@dataclass(frozen=True, slots=True)
class Group:
    """The candidates that share one key elastic resource.

    Args:
        key: that resource.
        budget: units of it they may use together.
        members: the candidates, in queue order.
        later: the first waiting actions behind them with the same key.
    """

    key: str
    budget: int
    members: tuple[Action, ...]
    later: tuple[Action, ...]


def candidates(queue: Sequence[Action], free: Mapping[str, int]) -> list[Action]:
    """Return the longest prefix of `queue` whose summed minimum demand fits `free` in every dimension.

    The first that does not fit ends it (paper, section 4: first come, first served). A dimension that `free` does
    not name has nothing free.
    """
    left = dict(free)
    for place, action in enumerate(queue):
        for name, amount in action.demand.items():
            less = left.get(name, 0) - amount
            if less < 0:
                return list(queue[:place])
            left[name] = less
    return list(queue)


def groups(queue: Sequence[Action], free: Mapping[str, int], depth: int) -> list[Group]:
    """Split the candidates of `queue` by key resource.

    Args:
        queue: waiting actions, first to be served first.
        free: units that nobody holds.
        depth: how many waiting actions behind the candidates each group looks at.
    """
    prefix = candidates(queue, free)
    return [
        Group(
            key=key,
            budget=free[key] - sum(other.demand.get(key, 0) for other in prefix if other.key != key),
            members=tuple(member for member in prefix if member.key == key),
            later=tuple(islice(_with_key(queue, len(prefix), key), depth)),
        )
        for key in dict.fromkeys(action.key for action in prefix)
    ]


def _with_key(queue: Sequence[Action], start: int, key: str) -> Iterator[Action]:
    return (action for action in islice(queue, start, None) if action.key == key)
