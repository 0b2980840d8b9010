"""How many units are granted where, and for how long: the area under the curve, so that short actions count, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Place = tuple[str, str]  # resource, domain


class UnitClock:
    """Integrates granted units over time.

    Args:
        spend: told of unit seconds as they pass, by place.
        clock: seconds.
    """

    def __init__(self, spend: Callable[[Place, float], None], clock: Callable[[], float]) -> None:
        self._spend = spend
        self._clock = clock
        self._granted: dict[Place, tuple[int, float]] = {}

    def change(self, place: Place, units: int) -> None:
        """Add units, or take some away."""
        held = self._pass(place)
        self._granted[place] = max(0, held + units), self._clock()

    def set_all(self, granted: Mapping[Place, int]) -> None:
        """Let the books have the last word: what is not named holds nothing."""
        for place in self._granted.keys() | granted.keys():
            self._pass(place)
        now = self._clock()
        self._granted = {place: (units, now) for place, units in granted.items()}

    def _pass(self, place: Place) -> int:
        units, since = self._granted.get(place, (0, 0.0))
        if units:
            self._spend(place, units * (self._clock() - since))
        return units
