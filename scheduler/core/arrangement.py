"""The arrangement of units to candidates with the least summed duration, for every prefix of them at once.

Eviction only drops the last candidate, so row i of one dynamic programme answers every step (the paper solves it
anew each time). Cost: O(candidates x budget x sizes) once, and one backtrace per prefix that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.events import Action

#: Work limit of one table, in cells of one size each: about 60 elastic candidates of five sizes on 256 units, 3 ms.
#: An elastic candidate past it counts at its smallest size; every prefix that ends before it stays exact.
MAX_CELLS = 60_000

Choice = tuple[int, int]


def useful_choices(action: Action) -> list[Choice]:
    """Return the (size, duration in ms) of an action that are faster than every smaller size."""
    choices: list[Choice] = []
    for size, duration in zip(action.sizes, action.durations, strict=True):
        if not choices or duration < choices[-1][1]:
            choices.append((size, duration))
    return choices


class Arrangement:
    """Least total duration and its units for each prefix of `actions`.

    Ties go to the fewest total units, then, from the last action backwards, to its smallest size.

    Args:
        actions: in queue order; their smallest sizes together must fit the budget.
        budget: units they share.

    Raises:
        ValueError: the smallest sizes do not fit the budget.
    """

    def __init__(self, actions: Sequence[Action], budget: int) -> None:
        if sum(action.sizes[0] for action in actions) > budget:
            raise ValueError(f"{len(actions)} actions do not fit {budget} units at their smallest sizes")
        self._choices: list[list[Choice]] = []
        self._rows: list[tuple[int, list[int]]] = [(0, [0])]  # (fewest units, least duration from there on)
        self._prefixes: list[tuple[int, int, int]] = [(0, budget, 0)]  # (row, units for it, fixed duration)
        self.elastic = False
        self._fill(actions)

    def total(self, kept: int) -> int:
        """Return the summed duration in ms of the first `kept` actions."""
        row, room, fixed = self._prefixes[kept]
        lowest, best = self._rows[row]
        return fixed + best[min(room - lowest, len(best) - 1)]

    def units(self, kept: int) -> list[int]:
        """Return the units of each of the first `kept` actions."""
        row, room, _ = self._prefixes[kept]
        lowest, best = self._rows[row]
        # Rows never rise, so the first cell with the optimum uses the fewest units.
        left = lowest + best.index(best[min(room - lowest, len(best) - 1)])
        given = [0] * kept
        for position in range(kept - 1, -1, -1):
            choices = self._choices[position]
            given[position] = choices[0][0]
            if len(choices) > 1:
                given[position] = self._smallest_optimal(row, left, choices)
                left -= given[position]
                row -= 1
        return given

    def _fill(self, actions: Sequence[Action]) -> None:
        cells, highest = 0, 0
        for action in actions:
            row, room, fixed = self._prefixes[-1]
            choices = useful_choices(action)
            if cells > MAX_CELLS:
                del choices[1:]
            self._choices.append(choices)
            size, duration = choices[0]
            if len(choices) == 1:
                self._prefixes.append((row, room - size, fixed + duration))
                continue
            self.elastic = True
            lowest, previous = self._rows[-1]
            highest += choices[-1][0]
            length = min(room, highest) - lowest - size + 1
            cells += length * len(choices)
            self._rows.append((lowest + size, _next_row(previous, choices, length)))
            self._prefixes.append((row + 1, room, fixed))

    def _smallest_optimal(self, row: int, left: int, choices: list[Choice]) -> int:
        lowest, best = self._rows[row]
        before, previous = self._rows[row - 1]
        for size, duration in choices:
            rest = left - size - before
            if rest >= 0 and previous[min(rest, len(previous) - 1)] + duration == best[left - lowest]:
                return size
        raise AssertionError(f"row {row} of the arrangement has no size that attains its optimum at {left} units")


def _next_row(previous: list[int], choices: list[Choice], length: int) -> list[int]:
    previous = previous[:length] + previous[-1:] * (length - len(previous))
    smallest, longest = choices[0]
    row = [total + longest for total in previous]
    for size, duration in choices[1:]:
        shift = size - smallest
        if shift >= length:
            break
        # A comprehension, not map(min, ...): a third of the time, and this line is most of a decision's cost.
        row[shift:] = [
            best if best < (other := total + duration) else other
            for best, total in zip(row[shift:], previous, strict=False)
        ]
    return row
