"""Policy "paper": first come, first served candidates, optimal arrangement, greedy eviction (paper, section 4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.candidates import Group, candidates, groups
from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.eviction import Objective, keep
from scheduler.core.rigid import RigidPolicy


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """Why one group of candidates got what it got. Times are in ms.

    Args:
        key: the resource its actions share.
        members: ids of its candidates, in queue order.
        later: ids of the waiting actions that were looked at behind them.
        budget: units the candidates could use together.
        dp_total_by_prefix: least summed duration of the first 1, 2, ... candidates.
        objective_by_kept: summed ACT by how many candidates are kept; None is infinite.
        kept: how many were.
        evicted: ids of the others.
        alloc: units by id.
        objective: summed ACT with `kept`.
    """

    key: str
    members: tuple[str, ...]
    later: tuple[str, ...]
    budget: int
    dp_total_by_prefix: tuple[int, ...]
    objective_by_kept: Mapping[int, int | None]
    kept: int
    evicted: tuple[str, ...]
    alloc: Mapping[str, int]
    objective: int | None


@dataclass(frozen=True, slots=True)
class PaperPolicy(RigidPolicy):
    """The paper's decision, sizes fixed for an action's life.

    The paper leaves open what the waiting actions are taken to get, and whether one candidate must stay. As "paper"
    they get their smallest size and one must; as "paper_wait", the kinder reading, they take the units they find from
    the first completion on, up to `waiting_units`, and all candidates may be evicted while something runs.

    Args:
        depth: how many waiting actions behind the candidates count in the objective.
        waiting_units: what a waiting action may take in the simulated queue; 0 is its smallest size.
        evict_all: whether all candidates may be evicted.
    """

    depth: int = 16
    waiting_units: int = 0
    evict_all: bool = False

    def decide(
        self,
        now: int,
        free: Mapping[str, int],
        running: Collection[Running],
        queue: Sequence[Action],
    ) -> list[tuple[Action, int]]:
        """Return the actions to start now with their units of the key resource, in queue order."""
        first = candidates(queue, free)
        if all(len(action.sizes) == 1 for action in first):
            return [(action, action.sizes[0]) for action in first]  # nothing to arrange; most decisions end here
        started: list[tuple[Action, int]] = []
        split = groups(queue, free, self.depth)
        for group in split:
            objective = Objective(now, group, running, self.waiting_units)
            kept = self._kept(objective, group)
            started += zip(group.members[:kept], objective.arrangement.units(kept), strict=True)
        if len(split) > 1:
            place = {action.id: position for position, action in enumerate(queue)}
            started.sort(key=lambda row: place[row[0].id])
        return started

    def explain(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action]
    ) -> list[GroupDecision]:
        """Return the decision of `decide` with the figures behind it, one row per key resource."""
        rows = []
        for group in groups(queue, free, self.depth):
            objective = Objective(now, group, running, self.waiting_units)
            rows.append(_explain(group, objective, self._kept(objective, group)))
        return rows

    def _kept(self, objective: Objective, group: Group) -> int:
        # A fixed-size candidate that is dropped starts at once in the simulated queue, at the same size: nothing falls.
        if not objective.arrangement.elastic:
            return len(group.members)
        return keep(objective, len(group.members), 0 if self.evict_all and objective.busy else 1)


def _explain(group: Group, objective: Objective, kept: int) -> GroupDecision:
    ids = tuple(member.id for member in group.members)
    lengths = range(1, len(ids) + 1)
    values = {length: objective(length) for length in lengths}
    return GroupDecision(
        key=group.key,
        members=ids,
        later=tuple(action.id for action in group.later),
        budget=group.budget,
        dp_total_by_prefix=tuple(objective.arrangement.total(length) for length in lengths),
        objective_by_kept=values,
        kept=kept,
        evicted=ids[kept:],
        alloc=dict(zip(ids, objective.arrangement.units(kept), strict=False)),
        objective=objective(kept),
    )
